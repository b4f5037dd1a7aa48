"""A collection with a score from run to report, and items of its cells.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import unittest

from program import ProgramTest, tiny_suite

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


class CollectionTest(ProgramTest):
    def setUp(self):
        super().setUp()
        suite = tiny_suite()
        suite["task"]["train"]["num_examples"] = 32
        suite["train"]["num_epochs"] = 1
        del suite["throughput"]
        self.write("suite.json", suite)

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
        self.expect(0, "validate", "--deep", "out/narrow")
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
        self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
