"""The table of peers from made-up reports, and what is run. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers.py")
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import parity  # noqa: E402
import peers  # noqa: E402

# In the place of the program: notes its arguments, and of the suite the mixers; ends with the code in CODE.
PROGRAM = """
import fcntl, json, os, sys
with open(sys.argv[2], encoding="utf-8") as file:
    mixers = json.load(file)["sweep"]["grid"]["model.sequence_mixer"]
environment = {name: os.environ[name] for name in os.environ["NAMES"].split() if name in os.environ}
with open(os.environ["CALLS"], "a", encoding="utf-8") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(json.dumps([sys.argv[1], mixers, sys.argv[3:], environment]) + "\\n")
sys.exit(int(os.environ["CODE"]))
"""
NAMES = ("TRITON_CACHE_AUTOTUNING", "FLA_CACHE_RESULTS", "FLA_HOPPER_CHECK", "CUDA_VISIBLE_DEVICES")
OURS = {"name": "abc"}
THEIRS = {"name": "python", "module": "tools/peers/fla_layers.py:Abc"}


def cell(mixer, kind, seed, state="completed", reason=None, accuracy=(), timings=()):
    return {
        "identity": {"cell": "mqar/a", "kind": kind, "seed": seed, "run_id": f"{mixer}{kind}{seed}", "group_id": "g"},
        "state": {"value": state, "reason": reason},
        "config": {"model": {"sequence_mixer": mixer}},
        "environment": {"cpu": {"model": "P"}, "gpu": {"name": "G"}},
        "solved": None,
        "partial": False,
        "model_facts": {"num_parameters": 5},
        "accuracy_by_length": [
            {"axes": {}, "slice": None, "state": "completed", "reason": None, "accuracy": value} for value in accuracy
        ],
        "throughput": [
            {"state": "completed", "reason": None, "execution": execution, "median": median}
            if median else {"state": "error", "reason": execution, "execution": None, "median": None}
            for execution, median in timings
        ],
    }


class PeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def report(self, name, *cells):
        path = os.path.join(self.folder, name)
        document = {"schema_version": "1.8.0", "kind": "sweep", "name": name, "cells": cells, "groups": [],
                    "config": {}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path

    def table(self, *arguments):
        return subprocess.run([sys.executable, PEERS, "table", *arguments], check=True, capture_output=True,
                              text=True).stdout

    def test_reports_become_one_table(self):
        first = self.report("graph",
                            cell(OURS, "train", 1, accuracy=[0.9]), cell(OURS, "train", 2, accuracy=[0.8]),
                            cell(THEIRS, "train", 1, accuracy=[0.5]),
                            cell(THEIRS, "train", 2, "error", "RuntimeError: no"),
                            cell(OURS, "throughput", 0, timings=[("graph", 2.0)]),
                            cell(THEIRS, "throughput", 0, timings=[("graph", 5.0)]))
        second = self.report("eager", cell(OURS, "throughput", 0, timings=[("eager", 4.0)]),
                             cell(THEIRS, "throughput", 0, timings=[("eager", 20.0)]),
                             cell({"name": "gla"}, "throughput", 0, "oom", "out of memory"),
                             cell({"name": "gla"}, "train", 1, "planned"))
        lines = self.table(first, second).splitlines()
        self.assertIn("| abc | 50.0 % (50.0) | 85.0 % (80.0, 90.0) | 20.00 | 5.00 | 2.00 | 2.5 |", lines)
        self.assertIn("| gla | – | – | – | – | – | – |", lines)
        self.assertIn("Measured on: G.", lines)
        self.assertIn("- abc, theirs, training: error: RuntimeError: no", lines)
        self.assertIn("- gla, ours, step: oom: out of memory", lines)
        self.assertIn("- gla, ours, training: planned", lines)
        self.assertEqual(self.table(second, first).splitlines(), lines)
        abc, gla = json.loads(self.table("--json", first, second))
        self.assertEqual((abc["layer"], abc["ours"]["eager_ms"], abc["theirs"]["num_parameters"]), ("Abc", 4.0, 5))
        self.assertIsNone(gla["ours"]["graph_ms"])

    def test_rows_of_an_earlier_table_stay(self):
        first = self.report("first", cell(OURS, "train", 1, accuracy=[0.9]),
                            cell({"name": "gla"}, "train", 1, accuracy=[0.1]))
        earlier = os.path.join(self.folder, "earlier.json")
        with open(earlier, "w", encoding="utf-8") as file:
            file.write(self.table("--json", first))
        other = cell(OURS, "train", 1, accuracy=[0.7])
        other["environment"]["gpu"]["name"] = "H"
        lines = self.table("--onto", earlier, self.report("second", other)).splitlines()
        self.assertIn("| abc | – | 70.0 % (70.0) | – | – | – | – |", lines)
        self.assertIn("| gla | – | 10.0 % (10.0) | – | – | – | – |", lines)
        self.assertIn("Measured on: H (abc); G (gla).", lines)

    def test_a_cell_that_was_stopped_has_no_machine(self):
        stopped = cell(THEIRS, "throughput", 0, "interrupted", "stopped")
        stopped["environment"] = None
        lines = self.table(self.report("graph", stopped, cell(OURS, "throughput", 0, timings=[("graph", 2.0)])))
        self.assertIn("Measured on: G.", lines)
        self.assertIn("- abc, theirs, step: interrupted: stopped", lines)

    def test_a_phase_that_failed_says_why(self):
        path = self.report("graph", cell(THEIRS, "throughput", 0, timings=[("no graph of it", None)]))
        self.assertIn("- abc, theirs, step: error: no graph of it", self.table(path))

    def test_the_suite_lists_pairs_and_the_layers_are_there(self):
        found = peers.pairs(peers.read_suite())
        self.assertEqual(len(found), 15)
        self.assertEqual(set(found), set(parity.PARAMETERS))
        with open(os.path.join(HERE, "fla_layers.py"), encoding="utf-8") as file:
            source = file.read()
        for ours, (_, theirs) in found.items():
            path, _, name = theirs["module"].rpartition(":")
            self.assertEqual(path, "tools/peers/fla_layers.py")
            self.assertEqual(name.lower(), ours.replace("_", ""))
            self.assertIn(f"\n{name} = _peer(", source)

    def run_with(self, code, *arguments, verb="run"):
        """How it ended, and the calls of the program."""
        package = os.path.join(self.folder, "mixerbench")
        os.makedirs(package, exist_ok=True)
        with open(os.path.join(package, "__main__.py"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        calls = os.path.join(self.folder, "calls")
        with open(calls, "w", encoding="utf-8"):
            pass
        environment = {name: value for name, value in os.environ.items() if name not in NAMES}
        environment |= {"PYTHONPATH": self.folder, "CALLS": calls, "CODE": str(code), "NAMES": " ".join(NAMES)}
        words = ["-o", "out"] if verb == "run" else []
        ended = subprocess.run([sys.executable, PEERS, verb, *words, *arguments], env=environment, check=False,
                               capture_output=True, text=True)
        with open(calls, encoding="utf-8") as file:
            return ended, [json.loads(line) for line in file]

    def test_pairs_are_run_one_after_the_other(self):
        ended, calls = self.run_with(4, "--argument=--seeds=1", "gla", "abc")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual([(call[0], call[1][0]["name"]) for call in calls],
                         [("bench", "gla"), ("run", "gla"), ("bench", "abc"), ("run", "abc")])
        self.assertEqual(calls[2][1], [OURS, THEIRS])
        self.assertEqual(calls[0][2][:5], ["--no-graph", "--jobs", "1", "-o", os.path.join("out", "gla", "eager")])
        self.assertEqual(calls[3][2][:4], ["-o", os.path.join("out", "abc", "graph"), "--plan", "merge"])
        self.assertTrue(all(call[2][-1] == "--seeds=1" for call in calls))
        environment = {"TRITON_CACHE_AUTOTUNING": "1", "FLA_HOPPER_CHECK": "0"}
        self.assertEqual([call[3] for call in calls], [environment] * 4)

    def test_each_gpu_has_one_pair_at_a_time(self):
        ended, calls = self.run_with(0, "--gpus", "0,2", "gla", "abc", "fox", "kda")
        self.assertEqual((ended.returncode, len(calls)), (0, 8))
        of_pairs = {}
        for command, mixers, _, environment in calls:
            of_pairs.setdefault(mixers[0]["name"], []).append((command, environment["CUDA_VISIBLE_DEVICES"]))
        self.assertEqual(set(of_pairs), {"gla", "abc", "fox", "kda"})
        for (first, gpu), (second, same) in of_pairs.values():
            self.assertEqual((first, second, gpu), ("bench", "run", same))
            self.assertIn(gpu, ("0", "2"))

    def test_kernels_are_compiled_and_their_times_forgotten(self):
        ended, calls = self.run_with(4, "--jobs", "3", "--gpus", "0,1", "gla", "abc", verb="warm")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(sorted(call[1][0]["module"] for call in calls),
                         ["tools/peers/fla_layers.py:Abc", "tools/peers/fla_layers.py:Gla"])
        for command, mixers, words, environment in calls:
            self.assertEqual((command, len(mixers)), ("run", 1))
            self.assertIn("train.num_epochs=1", words)
            self.assertFalse(os.path.exists(words[words.index("-o") + 1]))
            self.assertEqual((environment["TRITON_CACHE_AUTOTUNING"], environment["FLA_CACHE_RESULTS"]), ("0", "0"))

    def test_an_error_that_is_no_number_is_beyond_every_tolerance(self):
        options = types.SimpleNamespace(tokens=70, device="cuda", dtype="fp32")
        fine = {"y": 1e-7, "grad.x": 1e-7, "grad.param.a": 1e-6, "grad.param.b": 1e-7}
        for name in (None, *fine):
            broken = {**fine, name: math.nan} if name else fine
            layers = types.SimpleNamespace(Abc=None)
            printed = io.StringIO()
            with unittest.mock.patch.dict(sys.modules, fla_layers=layers), \
                    unittest.mock.patch.object(parity, "compare", lambda *_, found=broken: [dict(fine), dict(found)]), \
                    contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(parity.compare_pair("abc", OURS, THEIRS, options), int(name is not None), name)
            self.assertEqual("nan" in printed.getvalue(), name is not None)

    def test_the_short_form_has_the_shapes_of_the_suite(self):
        suite = peers.read_suite()
        for path in peers.SHORT:
            value = suite
            for key in path.split("."):
                value = value[key]
            self.assertGreater(value, peers.SHORT[path])
        self.assertEqual(suite["train"]["batch_size"], peers.SHORT["task.train.num_examples"])

    def test_what_stops_the_program_stops_here(self):
        for code in (2, 75):
            ended, calls = self.run_with(code)
            self.assertEqual((ended.returncode, len(calls)), (code, 1))
        ended, calls = self.run_with(0, "--seconds", "0")
        self.assertEqual((ended.returncode, len(calls)), (75, 0))
        ended, calls = self.run_with(0, "glas")
        self.assertIn("no pair glas; there are abc, delta_net", ended.stderr)
        self.assertFalse(calls)


if __name__ == "__main__":
    unittest.main()
