"""Outputs beside the answer of commands that yield verdicts, several folders, standard input.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import unittest
import xml.etree.ElementTree

from program import PROGRAM, ProgramTest, tiny_suite

FILES = ("--junit", "cells.xml", "--html", "page.html", "--github-summary=summary.md")


def fast_suite():
    suite = tiny_suite()
    suite["task"]["train"]["num_examples"] = 32
    suite["train"]["num_epochs"] = 1
    del suite["throughput"]
    return suite


class VerdictsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", fast_suite())
        self.run_suite = ["run", "suite.json", "--device", "cpu", "-q"]

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def cases(self, name="cells.xml"):
        """By name: "passed", or what stands in the case, with its type or message."""
        found = {}
        for case in xml.etree.ElementTree.parse(self.path(name)).getroot().iter("testcase"):
            outcome = list(case)
            found[case.get("name")] = (outcome[0].tag, outcome[0].get("message")) if outcome else "passed"
        return found

    def with_input(self, text, *arguments):
        return subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder.name, input=text, capture_output=True, text=True, check=False
        )

    def test_a_run_writes_files_for_ci(self):
        result = self.expect(0, *self.run_suite, "-o", "out", *FILES, "--json")
        self.assertEqual(json.loads(result.stdout), self.read_json("out/report.json"))
        cells = self.read_json("out/report.json")["cells"]
        self.assertEqual(list(self.cases().values()), ["passed"] * len(cells))
        self.assertEqual(self.read("page.html"), self.read("out/report.html"))
        self.assertIn("4 cells: 4 completed", self.read("summary.md"))
        self.assertEqual(self.expect(0, "report", "out", "--junit", "again.xml", "--json").stdout, result.stdout)
        self.assertEqual(self.read("again.xml"), self.read("cells.xml"))

    def test_cells_that_fail_are_errors_and_those_without_result_skipped(self):
        short = ["--seeds", "6", "--shard", "0/2", "--cell-timeout", "0.000001"]
        result = self.expect(4, *self.run_suite, "-o", "out", *short, *FILES)
        states = [cell["state"]["value"] for cell in self.read_json("out/report.json")["cells"]]
        cases = [outcome[0] for outcome in self.cases().values()]
        self.assertEqual(cases.count("error"), states.count("timeout"))
        self.assertEqual(cases.count("skipped"), states.count("planned"))
        self.assertTrue("error" in cases and "skipped" in cases, states)
        self.assertIn("::error title=timeout%3A mqar/", result.stderr)
        self.assertIn("Cells that did not complete", self.read("summary.md"))
        self.assertIn("Exit code 4.", self.read("summary.md"))
        self.expect(6, "report", "out", *FILES)
        self.assertEqual(self.read("summary.md").count("## mixerbench run"), 2)  # appended

    def test_a_summary_needs_a_file_before_anything_starts(self):
        clean = {"GITHUB_STEP_SUMMARY": ""}
        result = self.run_program(*self.run_suite, "-o", "out", "--github-summary", environment=clean)
        self.assertEqual(result.returncode, 2)
        self.assertIn("GITHUB_STEP_SUMMARY is not set", result.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        result = self.run_program(
            *self.run_suite, "-o", "out", "--github-summary", environment={"GITHUB_STEP_SUMMARY": self.path("job.md")}
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4 cells: 4 completed", self.read("job.md"))

    def test_what_cannot_be_written_is_refused_before_anything_starts(self):
        for option in ("--html", "--junit", "--github-summary"):
            result = self.expect(2, *self.run_suite, "-o", "out", f"{option}=nowhere/x")
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn(f"{option}: nowhere/x: cannot ", result.stderr)
            result = self.expect(2, *self.run_suite, "-o", "out", f"{option}=out/x")
            self.assertIn(f"{option}: out/x would lie in the run folder", result.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        # A folder that the run makes.
        self.expect(0, *self.run_suite, "-o", "all/out", "--junit", "all/cells.xml")
        self.assertEqual(list(self.cases("all/cells.xml").values()), ["passed"] * 4)
        for option in ("--verdict", "--markdown", "--html", "--junit"):
            result = self.expect(2, "compare", "all/out", "all/out", option, "nowhere/x")
            self.assertIn(f"{option}: nowhere/x: cannot ", result.stderr)

    def test_what_a_run_folder_holds_is_not_written_over(self):
        self.expect(0, *self.run_suite, "-o", "out")
        before = self.read("out/sweep.json"), self.read("out/report.json")
        [cell, *_] = os.listdir(self.path("out/cells"))
        for file in ("sweep.json", "report.json", "cells/x.log", f"cells/{cell}/result.json"):
            for command, options in (
                (("report", "out"), ("--html", "--junit", "--github-summary")),
                (("compare", "out", "out"), ("--verdict", "--markdown", "--junit")),
                ((*self.run_suite, "-o", "out"), ("--html", "--junit", "--log-file")),
            ):
                for option in options:
                    result = self.expect(2, *command, option, f"out/{file}")
                    self.assertIn(f"{option}: out/{file} would lie in the run folder", result.stderr)
        self.assertEqual((self.read("out/sweep.json"), self.read("out/report.json")), before)
        self.expect(0, "report", "out", "--html", "out/report.html")
        self.expect(0, "status", "out")

    def test_a_log_may_lie_in_the_folder_that_the_run_makes(self):
        self.expect(0, *self.run_suite, "-o", "new", "--log-file", "new/run.log")
        self.assertIn("exit code 0", self.read("new/run.log"))

    def test_a_log_that_would_bar_the_run_folder_is_refused(self):
        for out in (["-o", "runs/a"], []):
            folder = out[1] if out else "out/" + fast_suite()["name"]
            os.makedirs(self.path(folder))
            result = self.expect(2, *self.run_suite, *out, "--log-file", folder + "/foo.txt")
            self.assertIn("--log-file: " + folder + "/foo.txt would lie in the run folder", result.stderr)
            self.assertEqual(os.listdir(self.path(folder)), [])
            self.expect(0, *self.run_suite, *out, "--log-file", folder + "/foo.log")

    def test_a_plan_is_a_report_with_the_results_that_are_there(self):
        planned = json.loads(self.expect(0, *self.run_suite, "-o", "out", "-n", "--json").stdout)
        self.assertEqual([cell["state"]["value"] for cell in planned["cells"]], ["planned"] * 4)
        states = []
        for shard in range(8):  # which cells one has follows from their ids, and so from the code
            if "completed" in states:
                break
            self.expect(0, *self.run_suite, "-o", "out", "--shard", f"{shard}/8")
            states = [cell["state"]["value"] for cell in self.read_json("out/report.json")["cells"]]
        planned = json.loads(self.expect(0, *self.run_suite, "-o", "out", "-n", "--json").stdout)
        self.assertEqual([cell["state"]["value"] for cell in planned["cells"]], states)
        self.assertEqual(set(states), {"completed", "planned"})
        self.assertIn("excludes --junit", self.expect(2, *self.run_suite, "-n", "--junit", "x").stderr)

    def test_a_collection_is_one_file(self):
        both = {"name": "both", "suites": [{"suite": "suite.json", "name": "a"}, {"suite": "suite.json", "name": "b", "set": {"model.d_model": 32}}]}
        self.write("both.json", both)
        run = ["run", "collection", "both.json", "--device", "cpu", "-q", "-o", "out", "--limit", "10"]
        result = self.expect(0, *run, *FILES, "--json")
        suites = xml.etree.ElementTree.parse(self.path("cells.xml")).getroot()
        self.assertEqual([suite.get("name") for suite in suites], ["a/mqar", "b/mqar"])
        merged = json.loads(result.stdout)
        self.assertEqual(merged["name"], "a + b")
        self.assertEqual(len(merged["cells"]), 8)
        self.assertEqual(self.expect(0, "report", "out", "--json").stdout, result.stdout)
        self.assertEqual(self.expect(0, "report", "out/a", "out/b/report.json", "--json").stdout, result.stdout)
        self.write("merged.json", merged)
        self.expect(0, "validate", "merged.json")

        refused = self.expect(3, "compare", "out", "out/a").stderr
        self.assertIn("out: no run folder and no report, but one of several; give one of out/a out/b", refused)

        parts = [{"suite": name, "num_settings": 1} for name in ("a", "b")]
        both["score"] = {"name": "Recall", "metric": "accuracy_macro", "parts": parts}
        self.write("both.json", both)
        score = json.loads(self.expect(0, *run, *FILES, "--json").stdout)
        self.assertEqual(score, self.read_json("out/score.json"))
        self.assertEqual(self.read("page.html"), self.read("out/score.html"))

    def test_seeds_in_two_folders_are_one_group(self):
        for folder, seeds in (("first", "0,1"), ("second", "2,3,4")):
            self.expect(0, *self.run_suite, "-o", folder, "--seeds", seeds)
        self.expect(0, *self.run_suite, "-o", "whole", "--seeds", "5")
        merged = json.loads(self.expect(0, "report", "first", "second", "--json").stdout)
        whole = self.read_json("whole/report.json")
        for report in (merged, whole):
            self.assertEqual([group["aggregate"]["seeds"] for group in report["groups"]], [[0, 1, 2, 3, 4]] * 2)
        self.assertEqual([g["group_id"] for g in merged["groups"]], [g["group_id"] for g in whole["groups"]])

    def test_standard_input_stands_for_a_file(self):
        self.expect(0, *self.run_suite, "-o", "out")
        suite, report = self.read("suite.json"), self.read("out/report.json")
        for text, arguments, expected in (
            (suite, ["validate", "-"], "valid, 4 cells"),  # by another program than reads it first
            (report, ["validate", "-"], "/dev/stdin: valid"),
            (report, ["report", "-", "--format", "csv"], "delta_net"),
            (suite, ["run", "-", "-n", "--device", "cpu", "-o", "new"], "4 cells"),
            (report, ["compare", "-", "out", "--gate", "smoke"], "pass"),
        ):
            result = self.with_input(text, *arguments)
            self.assertIn(expected, result.stdout, result.stderr)
        board = json.loads(self.with_input(report, "leaderboard", "-", "--format", "json").stdout)
        self.assertIn("stdin", json.dumps(board))
        self.assertEqual(self.with_input("{", "validate", "-").returncode, 2)

    def test_several_files_are_validated_whatever_is_wrong_with_some(self):
        self.expect(0, *self.run_suite, "-o", "out")
        result = self.expect(0, "validate", "suite.json", "out/report.json", "quickstart")
        self.assertEqual(result.stdout.count("valid"), 3)
        self.write("broken.json", {"kind": "sweep"})
        result = self.expect(3, "validate", "out/report.json", "broken.json", "suite.json")
        self.assertEqual(result.stdout.count("valid"), 2)
        self.assertIn("error: broken.json: ", result.stderr)
        self.write("bad.json", {**fast_suite(), "trian": {}})
        self.assertIn("error: bad.json: /trian", self.expect(2, "validate", "broken.json", "bad.json").stderr)
        result = self.expect(3, "validate", "--deep", "out", "broken.json")
        self.assertIn("out: every aggregate agrees", result.stdout)


if __name__ == "__main__":
    unittest.main()
