"""A run folder has one plan: what it asks for is a row whatever happened, and nothing else is.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite


class RunFolderTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", tiny_suite())

    def run_suite(self, out, *arguments, code=0, suite="suite.json"):
        return self.expect(code, "run", suite, "--device", "cpu", "-o", out, *arguments)

    def kill_after_first_cell(self, out, number, *arguments):
        process = subprocess.Popen(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", out, "--jobs", "1", *arguments],
            cwd=self.folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        before = len(glob.glob(self.path(f"{out}/cells/*/result.json")))
        while len(glob.glob(self.path(f"{out}/cells/*/result.json"))) == before:
            self.assertLess(time.monotonic(), deadline, "no cell finished in time")
            self.assertIsNone(process.poll(), "the run ended before it could be stopped")
            time.sleep(0.01)
        process.send_signal(number)
        return process.wait(timeout=60)

    def states(self, report):
        return sorted(cell["state"]["value"] for cell in report["cells"])

    def report(self, code, out):
        return json.loads(self.expect(code, "report", out, "--format", "json").stdout)


class PlanTest(RunFolderTest):
    def test_a_stopped_run_does_not_look_finished(self):
        self.assertEqual(self.kill_after_first_cell("out", signal.SIGTERM), 75)
        for report in (self.read_json("out/report.json"), self.report(6, "out")):
            states = self.states(report)
            self.assertEqual(len(states), 6)
            self.assertLess(states.count("completed"), 6)
            self.assertLessEqual(set(states), {"completed", "interrupted", "planned"})
        answer = self.expect(6, "report", "out", "--format", "md")
        self.assertIn("planned cells have no result yet", answer.stdout)
        self.assertIn("planned cells have no result yet", answer.stderr)
        self.assertIn(",planned,", self.expect(6, "report", "out", "--format", "csv").stdout)
        self.run_suite("out")
        self.assertEqual(self.states(self.report(0, "out")), ["completed"] * 6)

    def test_a_killed_run_leaves_no_report_that_looks_whole(self):
        self.run_suite("out", "--seeds", "1")
        self.assertEqual(len(self.read_json("out/report.json")["cells"]), 4)
        self.assertEqual(self.kill_after_first_cell("out", signal.SIGKILL, "--seeds", "3"), -9)
        for report in (self.read_json("out/report.json"), self.report(6, "out")):
            self.assertEqual(len(report["cells"]), 8)
            self.assertIn("planned", self.states(report))

    def test_bench_after_run_keeps_the_accuracies(self):
        self.run_suite("out")
        before = self.read_json("out/report.json")
        self.expect(0, "bench", "suite.json", "--device", "cpu", "-o", "out")
        self.assertEqual(before["cells"], self.read_json("out/report.json")["cells"])
        self.expect(0, "bench", "suite.json", "--device", "cpu", "-o", "out", "--fresh")
        kinds = [c["identity"]["kind"] for c in self.read_json("out/report.json")["cells"]]
        self.assertEqual(sorted(kinds), ["throughput"] * 2 + ["train"] * 4)

    def test_another_suite_in_the_folder_is_refused_merged_or_replaces(self):
        self.run_suite("out", "--seeds", "1")
        before = self.read_json("out/report.json")
        other = tiny_suite()
        other["name"] = "other"
        other["train"]["lr"] = 0.01
        del other["throughput"]
        self.write("other.json", other)
        refused = self.run_suite("out", "--seeds", "1", code=8, suite="other.json")
        self.assertEqual(refused.stderr.count("\n"), 1)
        self.assertIn("out: holds the plan of 'tiny'", refused.stderr)
        self.assertEqual(before, self.read_json("out/report.json"))
        self.run_suite("out", "--seeds", "1", "-n", code=8, suite="other.json")

        self.run_suite("out", "--seeds", "1", "--plan", "merge", suite="other.json")
        merged = self.read_json("out/report.json")
        self.assertEqual(merged["name"], "tiny + other")
        self.assertEqual(len(merged["cells"]), 6)
        self.assertEqual(merged["left_out"], [])

        self.run_suite("out", "--seeds", "1", "--plan", "replace", suite="other.json")
        replaced = self.report(0, "out")
        self.assertEqual(replaced["name"], "other")
        self.assertEqual(len(replaced["cells"]), 2)
        self.assertEqual([r["reason"] for r in replaced["left_out"]], ["of another plan"] * 4)

    def test_failed_cells_are_said_by_the_exit_code_of_the_report(self):
        suite = tiny_suite()
        suite["train"].update({"lr": 10, "weight_decay": 1e30, "early_stop_accuracy": 0})
        del suite["throughput"]
        self.write("suite.json", suite)
        self.run_suite("out", "--seeds", "1", code=4)
        self.report(4, "out")

    def test_a_folder_of_an_earlier_version_is_read_and_continued(self):
        shutil.copytree("reports/testing/testdata/schema-1.2", self.path("old"))
        self.assertEqual(len(self.report(4, "old")["cells"]), 3)
        suite = self.read_json("old/sweep.json")
        self.write("suite.json", suite)
        self.run_suite("old", code=4)
        report = self.read_json("old/report.json")
        self.assertEqual(len(report["cells"]), 5)
        self.assertEqual({r["reason"] for r in report["left_out"]}, {"of an earlier version"})


class ConfigTest(RunFolderTest):
    """config.json of a cell is written for people and workers; what it says is derived anew."""

    def stop_in_a_cell(self):
        suite = tiny_suite()
        del suite["throughput"]
        suite["train"].update({"num_epochs": 60, "early_stop_accuracy": 0})
        self.write("suite.json", suite)
        self.run_suite("whole")
        process = subprocess.Popen(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1"],
            cwd=self.folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not (configs := glob.glob(self.path("out/cells/*/config.json"))):
            self.assertLess(time.monotonic(), deadline, "no cell began in time")
            time.sleep(0.001)
        process.kill()
        process.wait()
        return configs[0]

    def expect_same_as_whole(self):
        def content(name):
            return sorted(
                c["integrity"]["content_sha256"] for c in self.read_json(f"{name}/report.json")["cells"]
            )

        self.assertEqual(content("whole"), content("out"))

    def test_an_edited_config_is_not_trained(self):
        path = self.stop_in_a_cell()
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["train"]["lr"] = 0.5
        self.write(path, config)
        result = self.run_suite("out")
        self.assertIn("config.json was not that of the cell; written anew", result.stderr)
        self.expect_same_as_whole()

    def test_a_damaged_config_is_repaired(self):
        path = self.stop_in_a_cell()
        self.write(path, '{"kind": 3')
        result = self.run_suite("out")
        self.assertIn("written anew", result.stderr)
        self.expect_same_as_whole()


if __name__ == "__main__":
    unittest.main()
