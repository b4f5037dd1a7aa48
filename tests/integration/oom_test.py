"""What a training does whose batches do not fit in memory. SPDX-License-Identifier: Apache-2.0"""

import os
import resource
import subprocess
import unittest

import program
from program import ProgramTest

BATCH_SIZE = 2048
LIMIT = 768 << 20  # bytes of memory of its own, which a batch of 1024 needs


def wide_suite():
    """One cell, whose small batches need some MiB and whose whole batch more than LIMIT."""
    return {
        "schema_version": "1.0",
        "name": "wide",
        "task": {
            "name": "mqar",
            "vocab_size": 64,
            "noise": "zero",
            "train": {"input_seq_len": 32, "num_kv_pairs": 2, "num_examples": 2 * BATCH_SIZE},
            "validation": {"num_examples": 16},
            "test": {"num_examples": 16},
        },
        "model": {"backbone": "zoology", "d_model": 256, "n_layers": 2, "sequence_mixer": {"name": "attention"}},
        "train": {"recipe": "zoology", "batch_size": BATCH_SIZE, "num_epochs": 1, "eval_batch_tokens": 512},
    }


class OomTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", wide_suite())

    def run_suite(self, out, *arguments, limit=LIMIT):
        return subprocess.run(
            [program.PROGRAM, "run", "suite.json", "--device", "cpu", "-o", out, "--jobs", "1", *arguments],
            cwd=self.folder.name,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )

    def cell(self, out):
        (cell,) = self.read_json(out + "/report.json")["cells"]
        return cell

    def test_by_default_it_is_a_row(self):
        self.assertEqual(self.run_suite("out").returncode, 4)
        cell = self.cell("out")
        self.assertEqual(cell["state"]["value"], "oom")
        self.assertIsNone(cell["state"]["halved_from"])

    def test_halved_until_it_fits(self):
        self.assertEqual(self.run_suite("failed").returncode, 4)
        result = self.run_suite("failed", "--on-oom", "halve", "--retry", "failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"batches of {BATCH_SIZE} do not fit in memory, to be tried with {BATCH_SIZE // 2}", result.stderr)
        halved = self.cell("failed")
        size = halved["config"]["train"]["batch_size"]
        self.assertLess(size, BATCH_SIZE)
        self.assertEqual(halved["state"]["value"], "completed")
        self.assertEqual(halved["state"]["halved_from"], BATCH_SIZE)
        self.assertTrue(halved["identity"]["cell"].endswith(f"/batch_size={size}"), halved["identity"]["cell"])

        # The numbers and the experiment of a suite that asks for this size.
        asked = self.run_suite("asked", "--set", f"train.batch_size={size}")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        asked = self.cell("asked")
        self.assertIsNone(asked["state"]["halved_from"])
        for key in ["experiment_id", "group_id", "training_id", "data_id", "code_id"]:
            self.assertEqual(halved["identity"][key], asked["identity"][key], key)
        self.assertNotEqual(halved["identity"]["run_id"], asked["identity"]["run_id"])
        self.assertEqual(halved["accuracy_by_length"], asked["accuracy_by_length"])
        self.assertEqual(
            [point["train_loss"] for point in halved["learning_curve"]],
            [point["train_loss"] for point in asked["learning_curve"]],
        )

        # Nothing is done again, and what was done can be checked.
        self.assertIn("nothing to do", self.run_suite("failed", "--on-oom", "halve").stderr)
        self.expect(0, "validate", "--deep", "failed")
        self.expect(0, "validate", "failed/report.json")
        self.assertIn("Smaller batches", self.expect(0, "report", "failed").stdout)
        run_id = halved["identity"]["run_id"].removeprefix("sha256:")
        self.assertRegex(self.expect(0, "repro", "failed", run_id[:16], "-q").stdout, "the same to the bit\n$")

    def test_halved_is_not_paired_with_what_was_asked_for(self):
        whole = self.run_suite("whole", limit=resource.RLIM_INFINITY)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(self.run_suite("halved", "--on-oom", "halve").returncode, 0)
        self.assertIn("only in base", self.expect(6, "compare", "whole", "halved").stdout)

    def test_what_is_large_whatever_the_batch_is_oom_as_asked(self):
        result = self.run_suite("out", "--on-oom", "halve", "--set", "model.d_model=16384", "--set", "train.batch_size=4")
        self.assertEqual(result.returncode, 4, result.stderr)
        cell = self.cell("out")
        self.assertEqual(cell["state"]["value"], "oom")
        self.assertIsNone(cell["state"]["halved_from"])
        self.assertEqual(cell["config"]["train"]["batch_size"], 4)
        self.assertTrue(cell["state"]["reason"].endswith("; with batches of 1 too"), cell["state"]["reason"])


if __name__ == "__main__":
    unittest.main()
