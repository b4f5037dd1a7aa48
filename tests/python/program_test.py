"""`python3 -m mixerbench` with mixers in Python. SPDX-License-Identifier: Apache-2.0"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = os.path.abspath(sys.argv.pop(1))

SUITE = {
    "schema_version": "1.0",
    "name": "tiny",
    "task": {
        "name": "mqar",
        "vocab_size": 64,
        "noise": "zero",
        "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 64},
        "validation": {"num_examples": 32},
        "test": {"input_seq_len": [16, 32], "num_kv_pairs": [2, 3], "num_examples": 40},
    },
    "model": {"backbone": "zoology", "d_model": 16, "n_layers": 2, "sequence_mixer": {"name": "gla"}},
    "train": {"recipe": "zoology", "lr": 0.003, "batch_size": 16, "num_epochs": 2},
    "seeds": {"count": 1},
}
# What ends a cell, and what its row must say.
MISBEHAVING = {
    "Raises": ("error", "ValueError: boom (misbehaving.py:14 in forward)"),
    "RaisesBackward": ("error", "ArithmeticError: no gradient today (misbehaving.py:"),
    "ExitsBackward": ("error", "SystemExit: 3"),
    "Exits": ("error", "SystemExit: 3"),
    "ExitsAtOnce": ("error", "exited with code 3"),
    "Interrupts": ("error", "KeyboardInterrupt"),
    "Narrow": ("error", "y is [1, 16, 15], not [1, 16, 16] as x"),
    "Nothing": ("error", "y is NoneType"),
    "Detached": ("error", "y has no gradient"),
    "Overwrites": ("error", "writes to its input"),
    "Counts": ("error", "writes to its buffer calls"),
    "NotANumber": ("diverged", "not finite at step 1"),
    "Large": ("oom", "allocate"),
    "StateChanges": ("error", "not that of initial_state"),
    "Sleeps": ("timeout", "sign of life"),
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def content(result):
    """The hash of all that repeats."""
    return result["integrity"]["content_sha256"]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write(SUITE)

    def write(self, suite):
        with open(os.path.join(self.folder, "suite.json"), "w", encoding="utf-8") as file:
            json.dump(suite, file)

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "mixerbench", *arguments],
            cwd=self.folder,
            env={**os.environ, "MIXERBENCH_ENGINE": ENGINE, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def expect(self, code, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def sweep(self, *names, file="mixers.py", **changes):
        mixers = [{"name": "python", "module": f"{HERE}/{file}:{name}"} for name in names]
        self.write({**SUITE, "sweep": {"grid": {"model.sequence_mixer": mixers}}, **changes})

    def results(self, out="out"):
        """By the name of the mixer."""
        found = {}
        for path in glob.glob(os.path.join(self.folder, out, "cells", "*", "result.json")):
            result = json.loads(read(path))
            found[result["identity"]["cell"].split("/")[1]] = result
        return found

    def test_mixers_train_and_are_tested(self):
        self.sweep("Mean", "Decay", "Lstm", "Dropped", "Talks")
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "-q")
        results = self.results()
        self.assertEqual(set(results), {"Mean", "Decay", "Lstm", "Dropped", "Talks"})
        for name, result in results.items():
            self.assertEqual(result["state"]["value"], "completed", name)
            self.assertEqual(len(result["learning_curve"]), 2)
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "again", "-q", "--jobs", "1")
        for name, result in self.results("again").items():
            self.assertEqual(content(result), content(results[name]), name)

    def test_a_mixer_joins_its_neighbours(self):
        out, _ = self.expect(0, "run", "quickstart", "--device", "cpu", "-n", "--mixer", f"{HERE}/mixers.py:Mean")
        self.assertIn("mqar/base_conv+Mean seed 1", out)

    def test_speed_is_measured_behind_parity(self):
        self.sweep("Mean", throughput={"seq_len": [16], "batch_size": 2, "num_samples": 3, "phases": ["fwd", "train_step"]})
        self.expect(0, "bench", "suite.json", "--device", "cpu", "-o", "out", "-q")
        for result in self.results().values():
            self.assertTrue(all(row["parity_check"] == "passed" for row in result["throughput"]))

    def test_what_fails_is_a_row(self):
        self.sweep(*MISBEHAVING, file="misbehaving.py")
        _, err = self.expect(4, "run", "suite.json", "--device", "cpu", "-o", "out", "-q", "--stall-timeout", "20")
        self.assertIn("Traceback (most recent call last)", err)
        results = self.results()
        for name, (state, reason) in MISBEHAVING.items():
            ended = results[name]["state"]
            self.assertEqual(ended["value"], state, ended)
            self.assertIn(reason, ended["reason"])
            self.assertNotIn("\n", ended["reason"])

    def test_what_cannot_be_built_is_an_error_before_anything_starts(self):
        for place, text in {
            f"{HERE}/mixers.py:Maen": "did you mean 'Mean'?",
            "absent.py:Mean": "there is no file",
            "no_such.module:Mean": "No module named",
            f"{HERE}/misbehaving.py:RaisesWhenBuilt": "KeyError: 'no such width' (misbehaving.py:",
            f"{HERE}/misbehaving.py:ImportsWhenBuilt": "no_such_package",
            f"{HERE}/misbehaving.py:NotAModule": "no subclass of torch.nn.Module",
            f"{HERE}/misbehaving.py:Complex": "keep it as real numbers",
        }.items():
            _, err = self.expect(2, "run", "suite.json", "--device", "cpu", "-o", "out", "--mixer", place)
            self.assertIn(text, err)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))

    def test_a_changed_source_is_another_cell(self):
        source = read(os.path.join(HERE, "mixers.py"))
        ids = set()
        for text in (source, source + "\nchanged = True\n"):
            with open(os.path.join(self.folder, "own.py"), "w", encoding="utf-8") as file:
                file.write(text)
            self.write({**SUITE, "model": {**SUITE["model"], "sequence_mixer": {"name": "python", "module": "own.py:Mean"}}})
            ids.add(self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "-n")[0].split()[0])
        self.assertEqual(len(ids), 2)

    def test_an_interrupted_cell_continues_to_the_same_bits(self):
        self.sweep("Dropped", train={**SUITE["train"], "num_epochs": 400})
        process = self.start("run", "suite.json", "--device", "cpu", "-o", "out", "-q")
        events = os.path.join(self.folder, "out", "cells", "*", "events.jsonl")
        while not any('"num_steps"' in read(path) for path in glob.glob(events)):
            self.assertIsNone(process.poll())
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "-q")
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "whole", "-q")
        resumed, whole = self.results()["Dropped"], self.results("whole")["Dropped"]
        self.assertGreater(resumed["time"]["resumed_from_step"], 0)
        self.assertEqual(content(resumed), content(whole))


if __name__ == "__main__":
    unittest.main()
