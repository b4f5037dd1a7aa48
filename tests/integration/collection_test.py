"""A collection with a score from run to report, and items of its cells.

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
import xml.etree.ElementTree

from program import PROGRAM, ProgramTest, tiny_suite

MIXERS = tiny_suite()["sweep"]["grid"]


def collection(num_settings):
    """One suite twice, at one width and at two."""
    return {
        "name": "both",
        "score": {
            "name": "Recall",
            "metric": "accuracy_macro",
            "parts": [
                {"suite": "narrow", "num_settings": 1},
                {"suite": "wide", "num_settings": num_settings, "weight": 3},
            ],
        },
        "suites": [
            {"suite": "suite.json", "name": "narrow"},
            {"suite": "suite.json", "name": "wide", "set": {"sweep.grid": {**MIXERS, "model.d_model": [16, 32]}}},
        ],
    }


class CollectionFolderTest(ProgramTest):
    def setUp(self):
        super().setUp()
        suite = tiny_suite()
        suite["task"]["train"]["num_examples"] = 32
        suite["train"]["num_epochs"] = 1
        del suite["throughput"]
        self.write("suite.json", suite)


class CollectionTest(CollectionFolderTest):
    def run_collection(self, num_settings, *options):
        self.write("both.json", collection(num_settings))
        return self.expect(0, "run", "collection", "both.json", "--device", "cpu", "-o", "out", *options)

    def test_score_is_the_weighted_mean_and_items_give_the_rows(self):
        self.run_collection(2, "--log-items", "zstd")
        score = json.loads(self.expect(0, "report", "out", "--format", "json").stdout)
        self.assertEqual(score, self.read_json("out/score.json"))
        self.assertEqual(len(score["scores"]), 2)
        for mixer in score["scores"]:
            narrow, wide = (part["by_validation"]["value"] for part in mixer["parts"])
            self.assertAlmostEqual(mixer["by_validation"]["value"], (narrow + 3 * wide) / 4)
            self.assertEqual(mixer["by_validation"]["why_no_interval"], "2 seeds; an interval needs 5")
        self.assertIn("Recall", self.expect(0, "report", "out").stdout)
        self.expect(0, "validate", "out/score.json")
        self.expect(0, "validate", "--deep", "out")

        files = sorted(glob.glob(self.path("out/narrow/cells/*/items-*.jsonl.zst")))
        self.assertEqual(len(files), 8)  # two mixers, two seeds, two segments
        self.expect(0, "validate", files[0])
        whole = "out/narrow: every aggregate agrees with what it is made of; not compared: nll\n"
        self.assertEqual(self.expect(0, "validate", "--deep", "out/narrow").stdout, whole)
        os.replace(files[1], files[0])
        self.assertIn("is not the file", self.expect(1, "validate", "--deep", "out/narrow").stdout)

    def test_it_is_described_with_what_would_run(self):
        self.write("both.json", collection(2))
        asked = json.loads(self.expect(0, "describe", "collection", "both.json", "--json").stdout)
        self.assertEqual((asked["name"], asked["description"], asked["num_cells"]), ("both", "", 4 + 8))
        self.assertEqual(asked["score"], {"name": "Recall", "metric": "accuracy_macro"})
        narrow, wide = asked["suites"]
        self.assertEqual((narrow["name"], narrow["tasks"], narrow["weight"]), ("narrow", ["mqar"], 1))
        self.assertEqual((wide["num_cells"], wide["num_settings"], wide["weight"]), (8, 2, 3))
        planned = self.expect(0, "run", "collection", "both.json", "--device", "cpu", "-n", "-o", "out").stdout
        for suite in asked["suites"]:
            self.assertIn(f"\n{suite['num_cells']} cells: ", planned)
        text = self.expect(0, "describe", "collection", "both.json").stdout
        self.assertRegex(text, r"^both: \nscore: Recall, of accuracy_macro\ncells: 12\n")
        self.assertRegex(text, r"\nwide +8 cells of suite .*suite\.json, task mqar; weight 3, mean over 2 settings\n")
        self.assertIn("weight 1, mean over 1 setting\n", text)

    def test_built_in_ones_are_described(self):
        mad = json.loads(self.expect(0, "describe", "collection", "mad", "--json").stdout)
        self.assertEqual(sum(suite["num_settings"] for suite in mad["suites"]), 66)
        self.assertEqual(mad["num_cells"], sum(suite["num_cells"] for suite in mad["suites"]))
        smoke = json.loads(self.expect(0, "describe", "collection", "smoke", "--json").stdout)
        self.assertEqual((smoke["score"], "weight" in smoke["suites"][0]), (None, False))
        self.assertIn("did you mean 'mad'", self.expect(2, "describe", "collection", "madd").stderr)

    def test_incomplete_score_says_what_is_missing(self):
        self.run_collection(3)
        result = self.expect(6, "report", "out", "--format", "json")
        self.assertIn("wide: 2 of 3 settings were asked for", result.stderr)
        for mixer in json.loads(result.stdout)["scores"]:
            self.assertEqual((mixer["state"], mixer["by_test"]), ("incomplete", None))
        self.assertIn("score is json, md or html", self.expect(2, "report", "out", "--format", "csv").stderr)

    def test_score_of_a_suite_that_is_not_there(self):
        wrong = collection(2)
        wrong["score"]["parts"][0]["suite"] = "narow"
        self.write("both.json", wrong)
        result = self.expect(2, "run", "collection", "both.json", "--device", "cpu", "-o", "out")
        self.assertIn("/score/parts/0/suite: ", result.stderr)
        self.assertIn("/score/parts/0/suite: ", self.expect(2, "describe", "collection", "both.json").stderr)
        self.assertIn("/score/parts/0/suite: ", self.expect(2, "validate", "both.json").stderr)
        wrong["score"]["metrc"] = "accuracy"
        self.write("both.json", wrong)
        self.assertIn("/score/metrc: ", self.expect(2, "validate", "both.json").stderr)
        self.write("both.json", collection(3))
        self.assertIn(
            "/score/parts/1/num_settings: is 3, but the suite trains each mixer at 2 settings",
            self.expect(2, "validate", "both.json").stderr,
        )
        self.expect(0, "validate", "both.json", "--set", "train.num_epochs=2")  # another suite
        self.write("both.json", collection(2))
        self.expect(0, "validate", "both.json")
        self.assertFalse(os.path.exists(self.path("out")))


class SuitesTest(CollectionFolderTest):
    """Which suites a folder is of, and how far each of them is."""

    def collect(self, code, suites, *options):
        """Runs one suite under these names, each with what differs."""
        items = [{"suite": "suite.json", "name": name, **({"set": set} if set else {})} for name, set in suites.items()]
        self.write("c.json", {"name": "c", "suites": items})
        return self.expect(code, "run", "collection", "c.json", "--device", "cpu", "-q", "-o", "out", *options)

    def read_status(self):
        return json.loads(self.expect(0, "status", "out", "--json").stdout)

    def junit_suites(self):
        root = xml.etree.ElementTree.parse(self.path("cells.xml")).getroot()
        return [suite.get("name") for suite in root.iter("testsuite")]

    def test_a_suite_that_left_the_collection_is_no_part_of_its_folder(self):
        self.collect(0, {"a": None, "b": {"model.d_model": 24}}, "--seeds", "1")
        answer = self.collect(0, {"a": None}, "--seeds", "1", "--plan", "replace", "--json", "--junit", "cells.xml",
                              "--github-summary=summary.md")
        report = json.loads(answer.stdout)
        self.assertEqual((report["name"], len(report["cells"])), ("a", 2))
        self.assertEqual(self.junit_suites(), ["mqar"])
        with open(self.path("summary.md"), encoding="utf-8") as file:
            self.assertNotIn("**b**", file.read())
        answer = self.expect(0, "report", "out", "--json")
        self.assertEqual(json.loads(answer.stdout)["name"], "a")
        self.assertEqual(answer.stderr, "Left out: out/b is of no suite of the collection.\n")
        status = self.read_status()
        self.assertEqual([folder["name"] for folder in status["folders"]], ["a"])
        self.assertEqual((status["not_begun"], status["beside"]), ([], ["out/b"]))
        self.assertIn("Left out: out/b is", self.expect(0, "status", "out").stdout)
        board = self.expect(9, "leaderboard", "out")
        self.assertIn("Left out: out/b is", board.stderr)
        self.assertNotIn("d_model=24", board.stdout + board.stderr)

    def test_a_suite_that_never_began_is_missing(self):
        self.collect(0, {"a": None, "b": None}, "--seeds", "1")
        shutil.rmtree(self.path("out/b"))
        note = "Not begun: out/b, a suite of the collection, has no plan and no cells.\n"
        answer = self.expect(6, "report", "out")
        self.assertEqual(answer.stderr, note)
        self.expect(6, "report", "out", "--junit", "cells.xml", "--github-summary=summary.md")
        self.assertEqual(self.junit_suites(), ["a/mqar", "b"])
        with open(self.path("summary.md"), encoding="utf-8") as file:
            self.assertIn("- **b**: has not begun\n", file.read())
        self.assertEqual(self.read_status()["not_begun"], ["out/b"])
        self.assertTrue(self.expect(0, "status", "out").stdout.endswith(note))
        deep = self.expect(6, "validate", "--deep", "out")
        self.assertIn(note, deep.stderr)
        self.assertIn("out: every aggregate that is there agrees", deep.stdout)
        self.assertIn(note, self.expect(9, "leaderboard", "out").stderr)
        self.expect(6, "report", "out/a", "out")
        shutil.rmtree(self.path("out/a"))
        self.assertIn("out: no suite of this collection has begun", self.expect(3, "report", "out").stderr)

    def test_suites_are_planned_before_the_first_one_trains(self):
        self.write("c.json", {"name": "c", "suites": [{"suite": "suite.json", "name": name} for name in "ab"]})
        command = ["run", "collection", "c.json", "--device", "cpu", "--jobs", "1", "--seeds", "40", "-o", "out",
                   "--junit", "cells.xml"]
        process = subprocess.Popen(
            [PROGRAM, *command], cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while not glob.glob(self.path("out/a/cells/*/result.json")):
            self.assertLess(time.monotonic(), deadline, "no cell finished in time")
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 75)
        a, b = self.read_status()["folders"]
        self.assertLess(a["states"]["completed"], 80)
        self.assertEqual((b["name"], b["states"], b["num_to_run"]), ("b", {"planned": 80}, 80))
        self.assertEqual(self.junit_suites(), ["a/mqar", "b/mqar"])
        self.expect(6, "report", "out")
        self.expect(0, "validate", "--deep", "out")

    def test_every_report_of_a_collection_is_checked_deeply(self):
        self.collect(0, {"a": None}, "--seeds", "1")
        with open(self.path("out/a/report.json"), "a", encoding="utf-8") as file:
            file.write(" ")
        found = self.expect(1, "validate", "--deep", "out").stdout
        self.assertIn("out/a: report.json is not what its cells give", found)

    def test_of_the_suites_codes_the_first_of_the_documented_order_is_told(self):
        diverging = {"train.lr": 10, "train.weight_decay": 1e30, "train.early_stop_accuracy": 0}
        suites = {"a": None, "b": diverging}
        self.collect(4, suites, "--seeds", "1")
        os.remove(glob.glob(self.path("out/a/cells/*/result.json"))[0])
        self.collect(6, suites, "--seeds", "1", "--max-gpu-hours", "1e-9", "--github-summary=summary.md")
        with open(self.path("summary.md"), encoding="utf-8") as file:
            self.assertIn("\nExit code 6.\n", file.read())
        self.expect(6, "report", "out")

    def test_what_a_folder_refuses_is_refused_before_any_suite_trains(self):
        self.collect(0, {"a": None, "b": None}, "--seeds", "1")
        before = self.read_json("out/collection.json"), self.read_json("out/a/report.json")
        for options in ([], ["-n"]):
            refused = self.collect(8, {"a": None, "b": {"train.lr": 0.01}}, "--seeds", "2", *options)
            self.assertIn("out/b: holds the plan of 'b'", refused.stderr)
            self.assertEqual((self.read_json("out/collection.json"), self.read_json("out/a/report.json")), before)
        self.collect(2, {"a": None}, "--require-device-cores")
        self.assertEqual((self.read_json("out/collection.json"), self.read_json("out/a/report.json")), before)
        self.write("out/b/mine.txt", "")
        refused = self.collect(8, {"a": None, "b": None}, "--seeds", "2")
        self.assertIn("out/b: holds 'mine.txt', which is not ours", refused.stderr)
        os.remove(self.path("out/b/mine.txt"))
        refused = self.collect(2, {"a": None, "b": None}, "--seeds", "2", "--junit", "out/b/cells.xml")
        self.assertIn("--junit: out/b/cells.xml would lie in the run folder", refused.stderr)
        self.assertEqual((self.read_json("out/collection.json"), self.read_json("out/a/report.json")), before)


if __name__ == "__main__":
    unittest.main()
