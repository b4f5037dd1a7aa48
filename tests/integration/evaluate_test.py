"""Cells that use the weights of trainings: nothing is trained twice. SPDX-License-Identifier: Apache-2.0"""

import glob
import os
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite

ENTRY = {"input_seq_len": [16, 48], "num_kv_pairs": [2, 3], "num_examples": 40}


class EvaluateTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.suite = tiny_suite()
        del self.suite["throughput"]
        del self.suite["sweep"]
        self.suite["model"]["sequence_mixer"] = {"name": "gla", "num_heads": 2}

    def run_suite(self, out, *options, code=0):
        self.write("suite.json", self.suite)
        return self.expect(code, "run", "suite.json", "--device", "cpu", "-o", out, *options)

    def cells(self, out, kind):
        report = self.read_json(out + "/report.json")
        return [c for c in report["cells"] if c["identity"]["kind"] == kind]

    def starts(self, out, kind):
        """How many attempts there were of cells of a kind."""
        count = 0
        for cell in self.cells(out, kind):
            folder = cell["identity"]["run_id"].removeprefix("sha256:")[:16]
            with open(self.path(f"{out}/cells/{folder}/events.jsonl"), encoding="utf-8") as events:
                count += sum('"event":"start"' in line for line in events)
        return count

    def test_one_more_entry_trains_nothing(self):
        self.run_suite("out")
        before = self.cells("out", "train")
        self.suite["evaluate"] = [ENTRY]
        self.suite["analyse"] = [{"taps": ["log_decay"], "num_examples": 8}]
        result = self.run_suite("out")
        self.assertIn("2 evaluations, 2 tap readings", result.stderr)
        self.assertEqual(self.starts("out", "train"), 2)
        self.assertEqual(self.cells("out", "train"), before)
        evaluated = self.cells("out", "evaluate")
        self.assertEqual([c["state"]["value"] for c in evaluated], ["completed"] * 2)
        trained_as = [c["identity"]["training_id"] for c in before]
        self.assertEqual([c["identity"]["training_id"] for c in evaluated], trained_as)
        for cell in self.cells("out", "analyse"):
            places = {row["path"] for row in cell["taps"]}
            self.assertEqual(places, {"layers.0.log_decay", "layers.1.log_decay"})
        self.assertIn("nothing to do", self.run_suite("out").stderr)
        self.expect(0, "validate", "--deep", "out")
        self.expect(0, "validate", "out/report.json")
        page = self.expect(0, "report", "out").stdout
        self.assertIn("Evaluated with the weights", page)
        self.assertIn("layers.1", page)
        self.expect(0, "status", "out")
        self.expect(0, "compare", "out", "out")

        # The bits of an evaluation inside training.
        self.suite["task"]["test"] = ENTRY
        del self.suite["evaluate"], self.suite["analyse"]
        self.run_suite("whole", "--keep-weights", "none")
        self.assertEqual(
            [c["accuracy_by_length"] for c in self.cells("whole", "train")],
            [c["accuracy_by_length"] for c in evaluated],
        )

    def test_other_tests_of_the_same_trainings_take_their_place(self):
        self.run_suite("out")
        self.suite["task"]["test"] = ENTRY
        result = self.run_suite("out")
        self.assertIn("give way", result.stderr)
        self.assertIn("2 of them from kept weights", result.stderr)
        cells = self.cells("out", "train")
        self.assertEqual([c["time"]["weights"]["reused"] for c in cells], [True] * 2)

        self.run_suite("none", "--keep-weights", "none")
        self.suite["task"]["test"] = {**ENTRY, "num_examples": 20}
        result = self.run_suite("none")
        self.assertIn("2 trainings run again for other tests: their weights were not kept", result.stderr)
        self.assertEqual([c["time"]["weights"]["reused"] for c in self.cells("none", "train")], [False] * 2)

    def test_without_kept_weights_they_exist_as_long_as_they_are_needed(self):
        self.suite["evaluate"] = [ENTRY]
        self.run_suite("out", "--keep-weights", "none")
        self.assertEqual([c["state"]["value"] for c in self.cells("out", "evaluate")], ["completed"] * 2)
        self.assertEqual(glob.glob(self.path("out/weights/*.safetensors")), [])
        self.assertEqual([c["time"]["weights"] for c in self.cells("out", "train")], [None] * 2)
        self.suite["evaluate"].append({"num_examples": 24, "num_kv_pairs": 2, "input_seq_len": 16})
        result = self.run_suite("out")
        self.assertIn("2 trainings of finished cells run again", result.stderr)
        self.assertIn("were not kept", result.stderr)
        self.assertEqual(self.starts("out", "train"), 4)
        self.assertEqual([c["state"]["value"] for c in self.cells("out", "evaluate")], ["completed"] * 4)
        self.assertEqual(len(glob.glob(self.path("out/weights/*.safetensors"))), 2)

    def test_damaged_weights_are_made_again(self):
        self.run_suite("out")
        for weights in glob.glob(self.path("out/weights/*")):
            with open(weights, "r+b") as file:
                file.truncate(100)
        self.suite["evaluate"] = [ENTRY]
        result = self.run_suite("out")
        self.assertIn("damaged", result.stderr)
        self.assertEqual([c["state"]["value"] for c in self.cells("out", "evaluate")], ["completed"] * 2)

    def test_what_uses_a_training_that_fails_fails_alike(self):
        self.suite["evaluate"] = [ENTRY]
        self.suite["train"].update({"lr": 10, "num_epochs": 40, "weight_decay": 1e30, "early_stop_accuracy": 0})
        self.run_suite("out", code=4)
        for cell in self.cells("out", "evaluate"):
            self.assertEqual(cell["state"]["value"], "diverged")
            self.assertIn("its training: ", cell["state"]["reason"])
            self.assertEqual(len([r for r in cell["accuracy_by_length"] if r["slice"] is None]), 2)

    def test_a_cell_that_lacks_what_it_was_asked_for_is_not_completed(self):
        self.suite["model"].update({"positions": "learned", "sequence_mixer": {"name": "attention"}})
        self.suite["evaluate"] = [{**ENTRY, "input_seq_len": [16, 48], "num_kv_pairs": [2, 2]}]
        self.suite["analyse"] = [{"taps": ["nosuch"], "num_examples": 16}]
        result = self.run_suite("out", "--junit", "junit.xml", code=4)
        self.assertIn("done: 2 completed, 4 not", result.stderr)
        for kind in ("evaluate", "analyse"):
            for cell in self.cells("out", kind):
                self.assertEqual(cell["state"]["value"], "unsupported", kind)
        reason = self.cells("out", "evaluate")[0]["state"]["reason"]
        self.assertRegex(reason, r"^input_seq_len 48(, num_kv_pairs \d)?: there are \d+ learned positions")
        self.assertIn("no layer records it", self.cells("out", "analyse")[0]["state"]["reason"])
        with open(self.path("junit.xml"), encoding="utf-8") as file:
            self.assertEqual(file.read().count("<skipped"), 4)
        # What was scored counts.
        groups = [g for g in self.read_json("out/report.json")["groups"] if g["kind"] == "evaluate"]
        rows = groups[0]["aggregate"]["accuracy_by_length"]
        states = [r["state"] for r in rows if r["slice"] is None]
        self.assertEqual(states, ["completed", "unsupported"])
        self.expect(0, "validate", "--deep", "out")
        self.assertIn("4 unsupported", self.expect(0, "status", "out").stdout)
        # It stays, also for the exit code, until it is asked for again.
        self.assertIn("nothing to do", self.run_suite("out", code=4).stderr)
        self.run_suite("out", "--fail-on", "", code=0)
        self.run_suite("out", "--fail-on", "missing,empty", code=0)
        self.run_suite("out", "--fail-on", "failed", code=4)
        self.assertIn("'fail' is none of", self.run_suite("out", "--fail-on", "fail", code=2).stderr)
        self.expect(4, "report", "out", "--format", "json")

    def test_killed_at_any_moment_it_goes_on(self):
        self.suite["evaluate"] = [ENTRY, {**ENTRY, "num_examples": 30}]
        self.suite["analyse"] = [{"taps": "all", "num_examples": 16}]
        self.suite["train"].update({"num_epochs": 20, "early_stop_accuracy": 0})
        self.run_suite("whole")
        command = [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1", "-q"]
        for delay in (0.5, 1, 1.5, 2):
            process = subprocess.Popen(
                command, cwd=self.folder.name, stderr=subprocess.DEVNULL, start_new_session=True
            )
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.run_suite("out")
        for kind in ("train", "evaluate", "analyse"):
            whole, out = self.cells("whole", kind), self.cells("out", kind)
            self.assertEqual(
                [c["integrity"]["content_sha256"] for c in whole],
                [c["integrity"]["content_sha256"] for c in out],
            )

    def test_strict_cells_use_strict_weights(self):
        self.run_suite("out")
        self.suite["evaluate"] = [ENTRY]
        self.run_suite("out", "--deterministic", "strict")
        modes = [c["environment"]["determinism"]["deterministic_algorithms"] for c in self.cells("out", "evaluate")]
        self.assertEqual(modes, ["strict"] * 2)
        self.assertEqual(len(glob.glob(self.path("out/weights/strict/*.safetensors"))), 2)

    def test_shards_keep_a_training_and_its_uses_together(self):
        self.suite["evaluate"] = [ENTRY]
        self.suite["seeds"] = {"count": 4}
        for index in (0, 1):
            self.run_suite("out", "--shard", f"{index}/2")
        self.assertEqual([c["state"]["value"] for c in self.cells("out", "evaluate")], ["completed"] * 4)
        self.assertEqual(self.starts("out", "train"), 4)

    def test_fresh_seeds_of_what_was_chosen_are_evaluated_too(self):
        self.suite["sweep"] = {
            "grid": {"train.lr": [0.0001, 0.01]},
            "select": {"over": ["train.lr"], "by": "validation.accuracy", "reseed": {"count": 2}},
        }
        self.suite["evaluate"] = [ENTRY]
        self.run_suite("out")
        trained = {c["identity"]["training_id"]: c["identity"]["phase"] for c in self.cells("out", "train")}
        phases = [c["identity"]["phase"] for c in self.cells("out", "evaluate")]
        self.assertEqual(sorted(phases), ["report"] * 2 + ["selection"] * 4)
        for cell in self.cells("out", "evaluate"):
            self.assertEqual(trained[cell["identity"]["training_id"]], cell["identity"]["phase"])
        self.assertIn("nothing to do", self.run_suite("out").stderr)
        self.expect(0, "validate", "--deep", "out")

    def test_items_of_what_is_evaluated(self):
        self.suite["evaluate"] = [ENTRY]
        self.run_suite("out", "--log-items", "jsonl")
        for cell in self.cells("out", "evaluate"):
            self.assertEqual([kept["segment"] for kept in cell["time"]["items"]], [0, 1])
        self.expect(0, "validate", "--deep", "out")

    def test_repro_needs_no_training(self):
        self.suite["evaluate"] = [ENTRY]
        self.run_suite("out")
        cell = self.cells("out", "evaluate")[0]["identity"]["run_id"]
        self.assertIn("the same to the bit", self.expect(0, "repro", "out", cell).stdout)
        for weights in glob.glob(self.path("out/weights/*")):
            os.remove(weights)
        self.assertIn("not kept", self.expect(6, "repro", "out", cell).stderr)

    def test_what_is_wrong_is_named_by_its_place(self):
        for section, entry, place in (
            ("evaluate", {}, "/evaluate"),
            ("evaluate", [{"input_seq_len": "x"}], "/evaluate/0/input_seq_len"),
            ("evaluate", [ENTRY, ENTRY], "/evaluate/1"),
            ("evaluate", [{"num_needles": 3}], "/evaluate/0/num_needles"),
            ("analyse", [{"num_examples": 3}], "/analyse/0/taps"),
            ("analyse", [{"taps": []}], "/analyse/0/taps"),
            ("analyse", [{"taps": ["layers.0.state"]}], "/analyse/0/taps/0"),
        ):
            with self.subTest(section=section, entry=entry):
                self.suite[section] = entry
                self.assertIn(place + ":", self.run_suite("bad", code=2).stderr)
                del self.suite[section]


if __name__ == "__main__":
    unittest.main()
