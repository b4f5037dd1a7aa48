"""mixerbench as a library, on the engine. SPDX-License-Identifier: Apache-2.0"""

import csv
import importlib.util
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch

os.environ["MIXERBENCH_ENGINE"] = os.path.abspath(sys.argv.pop(1))
os.environ["OMP_NUM_THREADS"] = "1"
DEVICE = os.environ.get("MIXERBENCH_TEST_DEVICE", "cpu")

import mixerbench  # noqa: E402
from mixerbench import api  # noqa: E402
from mixers import Balanced, Mean  # noqa: E402
from misbehaving import Crashes, ExitsAtOnce, Raises, SeesTheFuture, Spins  # noqa: E402
from program_suite import SUITE  # noqa: E402


class ApiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "out")

    def test_mixers_run_beside_those_of_a_suite_under_names_of_their_own(self):
        before = (torch.get_rng_state(), torch.get_num_threads(), dict(os.environ))
        mixers = {"mine": Mean, "double": (Mean, {"scale": 2.0}), "also": {"name": "retnet"}, "bad": Raises}
        report = mixerbench.run(SUITE, mixers, DEVICE, out=self.out, quiet=True)
        self.assertTrue(before[0].equal(torch.get_rng_state()))
        self.assertEqual(before[1:], (torch.get_num_threads(), dict(os.environ)))
        self.assertEqual(set(report.accuracy()), {"gla", "mine", "double", "also"})
        self.assertTrue(all(0 <= value <= 1 for value in report.accuracy().values()))
        self.assertIn("ValueError: boom", report.failures()["bad"])
        self.assertEqual({row["name"] for row in report.rows}, {"gla", "mine", "double", "also", "bad"})
        self.assertTrue(os.path.isfile(report.failures()["bad"].rpartition("; ")[2]))
        self.assertEqual(repr(report), f"Report({self.out!r}, 4 of 5 cells completed)")
        with self.assertRaisesRegex(mixerbench.MixerbenchError, "in Python, out='another/folder', arguments="):
            mixerbench.run(SUITE, None, DEVICE, out=self.out, settings={"train.lr": 0.1}, quiet=True)
        again = mixerbench.run(SUITE, mixers, DEVICE, out=self.out, quiet=True)  # nothing is left to run
        self.assertEqual(again.data, report.data)
        self.assertEqual(mixerbench.Report.read(self.out, mixers).rows, report.rows)
        with self.assertRaisesRegex(ValueError, "'gla' is the name of a mixer of the suite"):
            mixerbench.Report.read(self.out, {"gla": Mean})

    def test_a_data_frame_has_the_rows(self):
        rows = [{"name": "mine", "accuracy": "0.5"}, {"name": "gla", "accuracy": ""}]

        def read_csv(file, dtype, keep_default_na, na_values):  # a name may be "NA" or "1"
            self.assertEqual((dtype, keep_default_na, na_values), ({"name": str}, False, [""]))
            return list(csv.DictReader(file))

        pandas = types.SimpleNamespace(read_csv=read_csv)
        with unittest.mock.patch.dict(sys.modules, {"pandas": pandas}):
            self.assertEqual(mixerbench.Report("out", {}, rows).to_pandas(), rows)

    def test_a_cell_has_the_name_that_says_most_of_it(self):
        named = {"plain": {"name": "retnet"}, "wide": {"name": "retnet", "expand_v": 4}, "held": {"name": "gla"}}
        retnet = {"name": "retnet", "num_heads": 2}
        self.assertEqual(api._name_of({**retnet, "expand_v": 4}, named), "wide")
        self.assertEqual(api._name_of({**retnet, "expand_v": 2}, named), "plain")
        self.assertEqual(api._name_of({"name": "hybrid", "pattern": [{"name": "gla"}]}, named), "held")
        self.assertEqual(api._name_of({**retnet, "inner": {"name": "gla"}}, named), "plain")
        self.assertIsNone(api._name_of({"name": "mamba"}, named))

    def test_options_are_those_that_the_class_gets(self):
        values = {"three": (3, 5), "one": 1, "float": 1.0, "true": True, "keys": {1: 2}}
        mixers = {name: (Mean, {"scale": value}) for name, value in values.items()}
        named = {name: api._configuration(mixer) for name, mixer in mixers.items()}
        for name, value in {**values, "three": [3, 5], "keys": {"1": 2}}.items():
            cell = {"name": "python", "module": os.path.relpath(api._place(Mean)), "options": {"scale": value}}
            self.assertEqual(api._name_of(cell, named), name)
            self.assertEqual(api._name_of({"name": "hybrid", "pattern": [cell]}, named), name)
        held = {"held": {"name": "hybrid", "pattern": [named["one"]]}}
        for name, found in {"one": "held", "float": None}.items():
            self.assertEqual(api._name_of({"name": "hybrid", "layers": 2, "pattern": [named[name]]}, held), found)

    def test_what_is_wrong_is_said(self):
        for quiet in (False, True):
            with self.assertRaisesRegex(mixerbench.MixerbenchError, "did you mean 'gla'"):
                mixerbench.run(SUITE, {"mine": "glaa"}, DEVICE, out=self.out, quiet=quiet)

        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(
            mixerbench.MixerbenchError, "^mixerbench run ended with signal 9 .Killed.\nits last words$"
        ):
            package = os.path.join(folder, "mixerbench")  # a program that is killed
            os.mkdir(package)
            with open(os.path.join(package, "host.py"), "w", encoding="utf-8") as file:
                file.write("import os\ndef main(parent):\n  os.write(2, b'its last words')\n  os.kill(os.getpid(), 9)\n")
            open(os.path.join(package, "__init__.py"), "w", encoding="utf-8").close()
            with unittest.mock.patch.object(sys, "path", [folder, *sys.path]):
                mixerbench.run(SUITE, None, DEVICE, out=self.out, quiet=True)

        class Inner(Mean):
            pass

        with self.assertRaisesRegex(ValueError, "top level of a file"):
            mixerbench.check(Inner)

    def test_a_class_that_ends_the_check_is_an_error(self):
        for ends, how in {ExitsAtOnce: "exit code 3", Crashes: "signal 11"}.items():
            with self.assertRaisesRegex(mixerbench.MixerbenchError, f"the class ended its process .* with {how}"):
                mixerbench.check(ends)

    def test_what_is_no_text_in_the_path_is_passed_over(self):
        with unittest.mock.patch.object(sys, "path", [*sys.path, pathlib.Path("/nowhere")]):
            self.assertIn("mixerbench", api._execute(["--version"]))

    def test_a_gpu_that_was_slowed_down_is_no_error_and_one_that_is_missing_is(self):
        for said, is_error in {"the GPU was slowed down while 1 of the cells": False, "error: no GPU": True}.items():
            program = f"import sys; print('rows'); print({said!r}, file=sys.stderr); sys.exit(7)"
            with unittest.mock.patch.object(api.host, "worker_command", lambda: [sys.executable, "-c", program]):
                if not is_error:
                    self.assertEqual(api._execute(["run"], allowed=api._REPORTED), "rows\n")
                    continue
                with self.assertRaisesRegex(mixerbench.MixerbenchError, "^error: no GPU$"):
                    api._execute(["run"], allowed=api._REPORTED)

    def test_a_run_that_leaves_no_report_is_an_error(self):
        with self.assertRaisesRegex(mixerbench.MixerbenchError, r"arguments \['-n'\] mixerbench run leaves no report in "):
            mixerbench.run(SUITE, None, DEVICE, out=self.out, arguments=["-n"], quiet=True)

    def test_arguments_that_mean_nothing_are_refused(self):
        for error, text, call in (
            (TypeError, "suite is the name of one", lambda: mixerbench.run(3)),
            (TypeError, "mixers is a dict", lambda: mixerbench.run(SUITE, [Mean])),
            (TypeError, "not Mean; pass the class", lambda: mixerbench.run(SUITE, {"mine": Mean(8, 0, 1)})),
            (TypeError, "a pair .class, {option: value}", lambda: mixerbench.check((Mean, 2.0))),
            (TypeError, "settings is a dict", lambda: mixerbench.check(Mean, settings=["scale=2"])),
            (TypeError, "skip is a list", lambda: mixerbench.check(Mean, skip="gradients")),
            (TypeError, "arguments is a list", lambda: mixerbench.run(SUITE, arguments="--quiet")),
            (ValueError, "seeds is a whole number >= 1, not 0", lambda: mixerbench.run(SUITE, seeds=0)),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    def test_an_option_that_no_process_can_be_told_of_is_named(self):
        for value, text in (
            (2**63, "a has a whole number that 64 bits do not hold"),
            (float("inf"), "a has inf, which is no number"),
            ({"b": [float("nan")]}, "a, 'b' has nan, which is no number"),
            ("\udce4", r"a has '\\udce4', for which UTF-8 has no form"),
            ({"\udce4": 1}, r"a has '\\udce4', for which UTF-8 has no form"),
        ):
            with self.assertRaisesRegex(ValueError, f"^the option {text}"):
                mixerbench.check((Mean, {"a": value}))
            with self.assertRaisesRegex(ValueError, f"^the setting {text}"):
                mixerbench.check(Mean, settings={"a": value})
        self.assertEqual(api._configuration((Mean, {"a": -(2**63)}))["options"], {"a": -(2**63)})

    def test_the_version_is_that_of_the_engine(self):
        self.assertEqual(api._execute(["--version"]).split(), ["mixerbench", mixerbench.__version__])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_samples_are_those_of_any_range(self):
        inputs, labels = mixerbench.generate("mqar/fig2-64x4", "test", start=10, count=3)
        self.assertEqual((inputs.shape, labels.shape, str(inputs.dtype)), ((3, 64), (3, 64), "int32"))
        one, _ = mixerbench.generate("mqar/fig2-64x4", "test", start=11, count=1)
        self.assertTrue((one[0] == inputs[1]).all())
        self.assertEqual((labels != -100).sum(), 12)

    def test_checks(self):
        good = mixerbench.check(Balanced)
        self.assertTrue(good and good.passed)
        self.assertEqual(good.failed, [])
        self.assertIn(f"\n{mixerbench.check('gla')}\n", api._execute(["mixer", "check", "gla"]))
        bad = mixerbench.check((SeesTheFuture, {"scale": 0.5}), skip=["gradients"])
        self.assertFalse(bad)
        self.assertIn("causality", bad.failed)
        self.assertEqual(repr(good), "CheckReport(14 checks, all passed)")
        self.assertIn("failed: ", repr(bad))
        slow = mixerbench.check(Spins, timeout=5)
        self.assertEqual((slow.failed, len(slow.data["not_run"])), (["use"], 13))
        self.assertIn("not run: causality, ", str(slow))
        self.assertIn("FAIL  causality", str(bad))
        self.assertEqual(bad.data["mixer"]["options"], {"scale": 0.5})


if __name__ == "__main__":
    unittest.main()
