"""`python3 -m mixerbench` with mixers in Python. SPDX-License-Identifier: Apache-2.0"""

import glob
import json
import os
import pathlib
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from program_suite import SUITE

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = os.path.abspath(sys.argv.pop(1))
DEVICE = os.environ.get("MIXERBENCH_TEST_DEVICE", "cpu")  # "cuda" by hand, where there is one

# What ends a cell, and what its row must say.
MISBEHAVING = {
    "Raises": ("error", "ValueError: boom (misbehaving.py:17 in forward)"),
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
    "StateChanges": ("error", "not those of initial_state"),
    "LeavesNoGradient": ("error", "changes torch's gradient mode"),
    "LeavesDoubles": ("error", "changes torch's default dtype"),
    "ReadsBeyond": ("error", "out of bounds" if DEVICE == "cpu" else "assert"),
    "Recurses": ("error", "RecursionError"),
    "Crashes": ("error", "signal 11 (Segmentation fault) (misbehaving.py:"),
    "Unpicklable": ("completed", ""),
    "LossForgotten": ("error", "must return (y, {name: value})"),
    "LossMisnamed": ("error", "returns ['sizes']"),
    "LeavesADevice": ("error", "changes torch's default device"),
    "LeavesTheFolder": ("error", "changes the current folder"),
    "ReplacesAWeight": ("error", "replaces or deletes its parameter value.weight"),
    "WritesToAWeight": ("error", "writes to its parameter value.weight"),
    "Infinite": ("diverged", "not finite at step 1"),
    "ClosesOutput": ("error", "Bad file descriptor"),  # of its own second call
    "PrintsAnswers": ("completed", ""),
    "DrawnByPython": ("completed", ""),
    "LeavesTf32": ("error", "changes torch's precision of float32 products"),
    "SaysWhatCannotBeWritten": ("error", "ValueError: a name of a file: \\udce4"),
    "AddsABuffer": ("error", "adds, replaces or deletes its buffer first"),
    "WritesToState": ("error", "writes to its state"),
    "RunsBackward": ("error", "adds to the gradient of its parameter value.weight"),
    "SeedsACall": ("error", "changes the seed of torch's generator"),
    "DropsByPython": ("error", "draws from Python's random or numpy.random while it runs"),
    "NaNBackward": ("diverged", "not finite at step 2"),
    "GrowsATable": ("completed", ""),
    "LoadsACompiler": ("completed", ""),
    "CompilesInACall": ("completed", ""),
    "StartsInDoubles": ("error", "changes torch's default dtype"),
    "StartsTraining": ("completed", ""),
    "DoublesBackward": ("error", "changes torch's default dtype"),
    "NormalisesBatches": ("error", "writes to its buffer mean while it runs, which nothing saves"),
    "AveragesInData": ("error", "writes to its buffer ema while it runs, which nothing saves"),
    "AveragesInAFrozenWeight": ("error", "writes to its parameter ema while it runs"),
    "ClampsAWeight": ("error", "writes to its parameter value.weight while it runs"),
    "CountsBackward": ("error", "writes to its buffer calls while it runs, which nothing saves"),
    "Kills": ("error", "signal"),
    "Spins": ("timeout", "no sign of life for 30s (misbehaving.py:34"),
    "SleepsBackward": ("timeout", "no sign of life for 30s (misbehaving.py:350 in <lambda>)"),
    "Sleeps": ("timeout", "no sign of life for 30s (misbehaving.py:144 in forward)"),
    "HoldsTheLock": ("timeout", "no sign of life for 30s (misbehaving.py:568 in forward)"),
}
# What only the checks find, and which of them does at least.
CHECKED = {
    "SeesTheFuture": "causality",
    "SeesTheBatch": "batch",
    "Random": "repeats",
    "Accumulates": "repeats",
    "HidesNaN": "poison",
    "ReadsTheUnwritten": "repeats",
    "WrongGradient": "gradients",
    "NaNBackward": "gradients",
    "WritesToData": "causality",
    "WritesToInputData": "batch",
    "LosesState": "pieces",
    "StepsWrong": "decoding",
    "Zero": "use",
    "NormalisesBatches": "randomness",
    "AveragesInData": "use",
    "AveragesInAFrozenWeight": "use",
    "ClampsAWeight": "use",
    "CountsBackward": "pieces",
    "DropsByPython": "causality",
    "Raises": "causality",
    "Exits": "causality",
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
        self.sweep("Mean", "Decay", "Stepped", "Lstm", "Dropped", "Talks", "Balanced")
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        results = self.results()
        self.assertEqual(set(results), {"Mean", "Decay", "Stepped", "Lstm", "Dropped", "Talks", "Balanced"})
        for name, result in results.items():
            self.assertEqual(result["state"]["value"], "completed", name)
            self.assertEqual(len(result["learning_curve"]), 2)
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "again", "-q", "--jobs", "1")
        for name, result in self.results("again").items():
            self.assertEqual(content(result), content(results[name]), name)

    def test_each_step_draws_its_own_and_the_same_without_a_graph(self):
        self.sweep("Dropped", "Drawn")
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "eager", "-q", "--no-graph")
        results, eager = self.results(), self.results("eager")
        self.assertEqual({name: content(result) for name, result in results.items()},
                         {name: content(result) for name, result in eager.items()})
        drawn = [entry["auxiliary_losses"]["drawn"] for entry in results["Drawn"]["learning_curve"]]
        self.assertEqual(len(drawn), 2)
        self.assertNotAlmostEqual(*drawn, places=4)
        self.assertNotAlmostEqual(drawn[0], 1, places=4)  # the sum of two layers, of which each draws its own

    def test_trained_mixers_are_evaluated_and_their_taps_read(self):
        test = {"input_seq_len": [16, 48], "num_kv_pairs": [2, 3], "num_examples": 40}
        self.sweep("Balanced", evaluate=[test], analyse=[{"taps": ["value"], "num_examples": 8}])
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        results = {}
        for path in glob.glob(os.path.join(self.folder, "out", "cells", "*", "result.json")):
            result = json.loads(read(path))
            results[result["identity"]["kind"]] = result
        self.assertEqual({kind: r["state"]["value"] for kind, r in results.items()},
                         {"train": "completed", "evaluate": "completed", "analyse": "completed"})
        self.assertEqual([row["path"] for row in results["analyse"]["taps"]],
                         ["layers.0.value", "layers.1.value"] * 2)
        self.sweep("Balanced", task={**SUITE["task"], "test": test})
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "inside", "-q")
        self.assertEqual(self.results("inside")["Balanced"]["accuracy_by_length"],
                         results["evaluate"]["accuracy_by_length"])

    def test_what_loading_a_module_takes_is_part_of_the_setup(self):
        with open(os.path.join(self.folder, "slow.py"), "w", encoding="utf-8") as file:
            file.write("import time\ntime.sleep(1)\n" + read(os.path.join(HERE, "mixers.py")))
        self.write({**SUITE, "model": {**SUITE["model"], "sequence_mixer": {"name": "python", "module": "slow.py:Mean"}}})
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        spent = self.results()["Mean"]["time"]
        self.assertGreater(spent["phases"]["setup_s"], 1)
        self.assertGreaterEqual(spent["wall_s"], sum(spent["phases"].values()))

    def test_without_a_state_inputs_are_evaluated_whole(self):
        self.sweep("Short", train={**SUITE["train"], "eval_piece_len": 16})
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")

    def test_what_a_class_calls_a_write_gate_is_not_replaced(self):
        self.sweep("TapsAWriteGate", evaluate=[{"reset_write_gate": {"share": 1}}])
        self.expect(4, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        paths = glob.glob(os.path.join(self.folder, "out", "cells", "*", "result.json"))
        ended = {state["value"]: state["reason"] for state in (json.loads(read(path))["state"] for path in paths)}
        self.assertEqual(set(ended), {"completed", "unsupported"})
        self.assertIn("no layer of this model has a write gate to replace", ended["unsupported"])

    def test_a_mixer_joins_its_neighbours(self):
        out, _ = self.expect(0, "run", "quickstart", "--device", DEVICE, "-n", "--mixer", f"{HERE}/mixers.py:Mean")
        self.assertIn("mqar/base_conv+Mean seed 1", out)

    def test_speed_is_measured_behind_parity(self):
        self.sweep("Mean", throughput={"seq_len": [16], "batch_size": 2, "num_samples": 3, "phases": ["fwd", "train_step"]})
        self.expect(0, "bench", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        for result in self.results().values():
            self.assertTrue(all(row["parity_check"] == "passed" for row in result["throughput"]))

    def test_no_garbage_is_collected_in_captures(self):
        self.sweep("InCaptures", throughput={"num_samples": 3, "phases": ["train_step"]})
        self.expect(0, "bench", "suite.json", "--device", DEVICE, "-o", "out", "-q", "--jobs", "1")
        rows = self.results()["InCaptures"]["throughput"]
        self.assertEqual([row["execution"] for row in rows], ["graph" if DEVICE == "cuda" else "eager"])

    def test_what_fails_is_a_row(self):
        self.sweep(*MISBEHAVING, file="misbehaving.py")
        _, err = self.expect(4, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q", "--stall-timeout", "30")
        self.assertIn("Traceback (most recent call last)", err)
        results = self.results()
        for name, (state, reason) in MISBEHAVING.items():
            ended = results[name]["state"]
            self.assertEqual(ended["value"], state, ended)
            self.assertIn(reason, ended["reason"] or "")
            self.assertNotIn("\n", ended["reason"] or "")
        tracebacks = {name: self.traceback(result) for name, result in results.items()}
        self.assertIn('line 17, in forward\n    raise ValueError("boom")\n', tracebacks["Raises"])
        self.assertIn(" 144 in forward\n", tracebacks["Sleeps"])
        self.assertIsNone(tracebacks["Unpicklable"])

    def test_what_is_drawn_at_the_start_and_in_backward_passes_repeats(self):
        self.sweep("StartsAnywhere", "NoiseBackward", file="misbehaving.py")
        contents = []
        for out in ("out", "again"):
            self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", out, "-q", "--jobs", "1")
            contents.append({name: content(result) for name, result in self.results(out).items()})
        self.assertEqual(*contents)

    def test_sets_have_one_order_in_all_processes(self):
        self.sweep("DrawsInTheOrderOfASet", file="misbehaving.py")
        contents = []
        for seed in ("1", "2"):
            with unittest.mock.patch.dict(os.environ, {"PYTHONHASHSEED": seed}):
                self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", seed, "-q")
            contents.append(content(self.results(seed)["DrawsInTheOrderOfASet"]))
        self.assertEqual(*contents)

    def test_what_a_class_leaves_in_its_process_is_not_for_the_next_cell(self):
        self.sweep("LeavesAMark", "LeavesAMarkQuietly", "FindsAMark", file="misbehaving.py")
        self.expect(4, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q", "--jobs", "1")
        states = {name: result["state"]["value"] for name, result in self.results().items()}
        self.assertEqual(
            states, {"LeavesAMark": "error", "LeavesAMarkQuietly": "completed", "FindsAMark": "completed"}
        )

    def traceback(self, result):
        digits = result["identity"]["run_id"].removeprefix("sha256:")[:16]
        path = os.path.join(self.folder, "out", "cells", digits, "traceback.txt")
        return read(path) if os.path.exists(path) else None

    def test_what_cannot_be_built_is_an_error_before_anything_starts(self):
        for place, text in {
            f"{HERE}/mixers.py:Maen": "did you mean 'Mean'?",
            "absent.py:Mean": "there is no file",
            "no_such.module:Mean": "No module named",
            f"{HERE}/misbehaving.py:RaisesWhenBuilt": "KeyError: 'no such width' (misbehaving.py:",
            f"{HERE}/misbehaving.py:ImportsWhenBuilt": "no_such_package",
            f"{HERE}/misbehaving.py:EndsWhenBuilt": "ends its process while it is imported or built, with exit code 0",
            f"{HERE}/misbehaving.py:EndsInItsSecondLayer": "imported or built, with exit code 0",
            f"{HERE}/misbehaving.py:SeedsItself": "changes the seed of torch's generator",
            f"{HERE}/misbehaving.py:HandlesSignals": "handles SIGTERM, which the program does itself",
            f"{HERE}/misbehaving.py:CrashesWhenBuilt": "ends its process while it is imported or built, with signal 11",
            f"{HERE}/misbehaving.py:DrawsAnew": "scales is another one each time",
            f"{HERE}/misbehaving.py:NotAModule": "no subclass of torch.nn.Module",
            f"{HERE}/misbehaving.py:Complex": "keep it as real numbers",
            f"{HERE}/misbehaving.py:Lazy": "has no shape before the first call",
            f"{HERE}/misbehaving.py:WithoutForward": "has no forward(self, x)",
            f"{HERE}/misbehaving.py:WithoutInit": "has no __init__(self, d_model)",
            f"{HERE}/misbehaving.py:TiedByMemory": "parameters value.weight and out.weight share memory",
            f"{HERE}/misbehaving.py:WeighsByLayer": "auxiliary loss size has the weights 0 and 0.5 in two layers",
        }.items():
            _, err = self.expect(2, "run", "suite.json", "--device", DEVICE, "-o", "out", "--mixer", place)
            self.assertIn(text, err)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))

    def check(self, code, place, *arguments):
        out, _ = self.expect(code, "mixer", "check", place, "--json", *arguments)
        return {check["name"]: check for check in json.loads(out)["checks"]}

    def test_a_good_mixer_passes_every_check(self):
        for name in ("Mean", "Decay", "Stepped", "Lstm", "Dropped", "Balanced", "Scripted"):
            checks = self.check(0, f"{HERE}/mixers.py:{name}")
            self.assertEqual(len(checks), 14)
        self.check(0, f"{HERE}/mixers.py:Mean", "--dtype", "fp32", "--set", "d_model=32", "--set", "options.scale=2")

    def test_a_bad_one_fails_the_check_that_is_meant(self):
        for name, check in CHECKED.items():
            found = self.check(1, f"{HERE}/misbehaving.py:{name}")[check]
            self.assertFalse(found["passed"], (name, check))
        self.assertIn("ValueError: boom", self.check(1, f"{HERE}/misbehaving.py:Raises")["causality"]["reason"])

    def test_a_class_that_ends_the_process_fails_the_check(self):
        _, err = self.expect(1, "mixer", "check", f"{HERE}/misbehaving.py:ExitsAtOnce", "--json")
        self.assertIn("error: the class ended its process while it was checked, with exit code 3", err)

    def test_what_a_class_is_named_and_given_by_is_said(self):
        _, err = self.expect(2, "mixer", "check", f"{HERE}/mixers.py")
        self.assertIn("name one of its classes, such as", err)
        _, err = self.expect(2, "mixer", "check", f"{HERE}/mixers.py:Mean", "--set", "scale=2")
        self.assertIn("as --set options.scale=...", err)

    def test_a_class_that_hangs_fails_the_check(self):
        limit = "5" if DEVICE == "cpu" else "30"  # a GPU that others use takes seconds to start
        for name, place in {"Spins": "34", "HoldsTheLock": "568 in forward"}.items():
            out, err = self.expect(1, "mixer", "check", f"{HERE}/misbehaving.py:{name}", "--json", "--check-timeout", limit)
            self.assertTrue(out, err)
            found = json.loads(out)
            self.assertIn(f"does not end within {limit} s (misbehaving.py:{place}", found["checks"][-1]["reason"])
            self.assertEqual((found["passed"], len(found["checks"]) + len(found["not_run"])), (False, 14))

    def test_a_class_that_closes_a_stream_is_checked_all_the_same(self):
        self.assertEqual(len(self.check(0, f"{HERE}/misbehaving.py:ClosesErrors", "--skip", "gradients")), 13)

    def test_one_thread_makes_all_checks(self):
        self.check(0, f"{HERE}/misbehaving.py:InOneThread")

    def test_what_a_class_prints_is_no_answer(self):
        self.assertTrue(self.check(0, f"{HERE}/misbehaving.py:PrintsAnswers", "--skip", "gradients"))

    def test_what_a_class_prints_while_a_run_is_planned_goes_to_standard_error(self):
        with open(os.path.join(self.folder, "prints.py"), "w", encoding="utf-8") as file:
            file.write("import os, torch\nprint('imported')\nclass A(torch.nn.Linear):\n  def __init__(self, d_model):\n")
            file.write("    print('built')\n    os.system('echo in another process')\n    super().__init__(d_model, d_model)\n")
        planned = self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-n", "--mixer", "prints.py:A")
        for said in ("imported\n", "built\n", "in another process\n"):
            self.assertEqual([said in stream for stream in planned], [False, True])

    def test_nothing_outlives_who_started_it(self):
        self.sweep("Mean", train={**SUITE["train"], "num_epochs": 4000})
        code = "import mixerbench; mixerbench.run('suite.json', device='cpu', out='out', quiet=True)"
        caller = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env={**os.environ, "MIXERBENCH_ENGINE": ENGINE, "OMP_NUM_THREADS": "1"},
        )
        events = os.path.join(self.folder, "out", "cells", "*", "events.jsonl")
        while not any('"num_steps"' in read(path) for path in glob.glob(events)):
            self.assertIsNone(caller.poll())
            time.sleep(0.2)
        caller.kill()
        caller.wait()
        deadline = time.monotonic() + 60
        while not any('"interrupted"' in read(path) for path in glob.glob(events)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)
        self.assertTrue(glob.glob(os.path.join(self.folder, "out", "cells", "*", "checkpoint-*")))
        checked = self.start("mixer", "check", f"{HERE}/misbehaving.py:Sleeps")
        self.assertIn("parameters", checked.stdout.readline())  # of the child, which holds the pipe
        checked.kill()
        self.assertEqual(checked.stdout.read(), "")
        checked.communicate()

    def test_what_a_class_leaves_running_is_not_waited_for(self):
        self.expect(0, "mixer", "check", f"{HERE}/misbehaving.py:LeavesAThread", "--skip", "gradients")

    def test_the_engine_is_of_no_version_of_python(self):
        needed = subprocess.run(["nm", "-D", "--undefined-only", ENGINE], check=True, capture_output=True, text=True)
        self.assertNotRegex(needed.stdout, r" U _?Py")
        libraries = subprocess.run(["readelf", "-d", ENGINE], check=True, capture_output=True, text=True)
        self.assertIn("libtorch", libraries.stdout)
        self.assertNotRegex(libraries.stdout, "libpython|libtorch_python")

    def test_the_class_of_the_page_passes(self):
        page = read(os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "PYTHON.md"))
        with open(os.path.join(self.folder, "mine.py"), "w", encoding="utf-8") as file:
            file.write(page.partition("```python\n")[2].partition("```")[0])
        self.check(0, "mine.py:Mean", "--skip", "gradients")

    def test_a_check_reads_like_a_report(self):
        out, _ = self.expect(1, "mixer", "check", f"{HERE}/misbehaving.py:SeesTheFuture", "--skip", "gradients")
        self.assertIn("FAIL  causality  a token changes no earlier output\n", out)
        self.assertIn("may only be 1e-12", out)
        self.assertNotIn("central differences", out)
        self.assertIn("failed\n", out)

    def test_how_a_path_is_written_makes_no_other_cell(self):
        names = ("own.py:Mean", "./own.py:Mean", f"{self.folder}/own.py:Mean", "other.py:Mean")
        for name in ("own.py", "other.py"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(read(os.path.join(HERE, "mixers.py")))
        ids = set()
        for name in names:
            mixer = {"name": "python", "module": name}
            self.write({**SUITE, "model": {**SUITE["model"], "sequence_mixer": mixer}})
            ids.add(self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-n")[0].split()[0])
        self.assertEqual(len(ids), 1)

    def test_a_changed_source_is_another_cell(self):
        source = read(os.path.join(HERE, "mixers.py"))
        ids = set()
        for text in (source, source + "\nchanged = True\n"):
            with open(os.path.join(self.folder, "own.py"), "w", encoding="utf-8") as file:
                file.write(text)
            self.write({**SUITE, "model": {**SUITE["model"], "sequence_mixer": {"name": "python", "module": "own.py:Mean"}}})
            planned = self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-n")[0]
            self.assertIn("/Mean", planned)  # its class names it
            ids.add(planned.split()[0])
        self.assertEqual(len(ids), 2)

    def test_a_changed_package_is_another_cell(self):
        package = os.path.join(self.folder, "mixerbench")  # the current folder comes first on the path
        shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python", "mixerbench"), package)
        self.sweep("Mean")
        ids = set()
        for change in ("", "\nchanged = True\n"):
            with open(os.path.join(package, "modules.py"), "a", encoding="utf-8") as file:
                file.write(change)
            ids.add(self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-n")[0].split()[0])
        self.assertEqual(len(ids), 2)

    def test_bytecode_of_another_source_is_not_run(self):
        sources = {"own.py": read(os.path.join(HERE, "mixers.py")) + "import near\n", "near.py": "K = 1\n"}
        for name, text in sources.items():
            path, earlier = os.path.join(self.folder, name), "raise ValueError('earlier')\n"
            for written in (earlier, text):  # of one size and second
                with open(path, "w", encoding="utf-8") as file:
                    file.write(written.ljust(max(len(text), len(earlier)), "\n"))
                os.utime(path, (0, 0))
                if written is earlier:
                    py_compile.compile(path)
        self.write({**SUITE, "model": {**SUITE["model"], "sequence_mixer": {"name": "python", "module": "own.py:Mean"}}})
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")

    def test_an_interrupted_cell_continues_to_the_same_bits(self):
        self.sweep("Dropped", train={**SUITE["train"], "num_epochs": 400})
        process = self.start("run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        events = os.path.join(self.folder, "out", "cells", "*", "events.jsonl")
        while not any('"num_steps"' in read(path) for path in glob.glob(events)):
            self.assertIsNone(process.poll())
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "out", "-q")
        self.expect(0, "run", "suite.json", "--device", DEVICE, "-o", "whole", "-q")
        resumed, whole = self.results()["Dropped"], self.results("whole")["Dropped"]
        self.assertGreater(resumed["time"]["resumed_from_step"], 0)
        self.assertEqual(content(resumed), content(whole))


def load_tests(_, tests, __):
    """Those of this shard, of as many as the BUILD file asks for: all without Bazel."""
    if "TEST_SHARD_STATUS_FILE" in os.environ:
        pathlib.Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()  # it knows of shards
    index, count = (int(os.environ.get(name, least)) for name, least in (("TEST_SHARD_INDEX", 0), ("TEST_TOTAL_SHARDS", 1)))
    return unittest.TestSuite([test for cases in tests for test in cases][index::count])


if __name__ == "__main__":
    unittest.main()
