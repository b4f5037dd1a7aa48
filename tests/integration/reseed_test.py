"""A suite that reports fresh seeds, killed and sharded, ends as an unbroken run does.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite

FRESH = [70, 71]


def reseeding_suite():
    suite = tiny_suite()
    del suite["throughput"]
    suite["sweep"]["grid"]["train.lr"] = [0.0001, 0.01]
    suite["sweep"]["select"] = {
        "over": ["train.lr"],
        "by": "validation.accuracy",
        "reseed": {"count": 2, "base": FRESH[0]},
    }
    return suite


class ReseedTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", reseeding_suite())
        self.command = ["run", "suite.json", "--device", "cpu", "-o"]

    def content(self, out):
        return self.read_json(f"{out}/report.json")["integrity"]["content_sha256"]

    def num_results(self, out):
        return len(glob.glob(self.path(f"{out}/cells/*/result.json")))

    def check_whole(self, out):
        report = self.read_json(f"{out}/report.json")
        self.assertEqual(len(report["cells"]), 12)  # 2 mixers: 2 rates x 2 seeds, then 2 fresh ones
        self.assertEqual([len(reseed["unplanned"]) for reseed in report["reseeds"]], [0, 0])
        for group in report["groups"]:
            fresh = group["phase"] == "report"
            self.assertEqual(group["aggregate"]["seeds"], FRESH if fresh else [0, 1])
            self.assertEqual("selection" in group, not fresh)
        chosen = {g["group_id"] for g in report["groups"] if g.get("selection", {}).get("selected")}
        self.assertEqual(chosen, {g["group_id"] for g in report["groups"] if g["phase"] == "report"})
        self.expect(0, "validate", "--deep", out)
        self.expect(0, "validate", f"{out}/report.json")

    def test_an_unbroken_run_and_one_that_is_killed_again_and_again(self):
        plan = self.expect(0, *self.command, "whole", "-n").stdout
        self.assertIn("then 2 chosen settings x 2 fresh seeds (70..71), 2 of them not chosen", plan)
        self.expect(0, *self.command, "whole")
        self.check_whole("whole")
        with open(self.path("whole/report.md"), encoding="utf-8") as page:
            self.assertIn("chosen by 2 (0, 1); reported by fresh ones, 2 (70, 71)", page.read())

        statuses = set()
        for stop_at in (3, 8, 10):  # in the sweep, between, among the fresh seeds
            process = subprocess.Popen(
                [PROGRAM, *self.command, "out", "--jobs", "1"],
                cwd=self.folder.name,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + 120
            while self.num_results("out") < stop_at and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
            done = self.num_results("out")
            (folder,) = json.loads(self.expect(0, "status", "out", "--json").stdout)["folders"]
            statuses.add(folder["num_to_run"] + done)
            if done < 12:
                self.expect(6, "report", "out")
        self.assertEqual(statuses, {12})
        self.expect(0, *self.command, "out")
        self.check_whole("out")
        self.assertEqual(self.content("out"), self.content("whole"))

    def test_shards_and_more_seeds(self):
        for index in range(2):
            self.expect(0, *self.command, "shards", "--shard", f"{index}/2")
        self.check_whole("shards")
        self.expect(0, *self.command, "shards", "--seeds", "3")
        report = self.read_json("shards/report.json")
        self.assertEqual(sum(c["identity"]["phase"] == "selection" for c in report["cells"]), 12)
        self.assertEqual(sum(c["identity"]["phase"] == "report" for c in report["cells"]), 4)
        self.expect(0, "validate", "--deep", "shards")

    def test_more_fresh_seeds_are_trained_also_of_a_part_of_the_plan(self):
        self.expect(0, *self.command, "out", "--seeds", "3")
        more = ["out", "--set", "sweep.select.reseed.count=3"]  # and the two seeds of the suite
        planned = self.expect(0, *self.command, *more, "-n").stdout
        self.assertIn("2 chosen settings x 3 fresh seeds (70..72)", planned)
        self.expect(0, *self.command, *more)
        phases = [cell["identity"]["phase"] for cell in self.read_json("out/report.json")["cells"]]
        self.assertEqual((phases.count("selection"), phases.count("report")), (12, 6))
        refused = self.expect(8, *self.command, "out", "--set", "sweep.select.reseed.base=90")
        self.assertIn("a part of its plan and chooses otherwise", refused.stderr)

    def test_what_is_compared_and_ranked(self):
        for out in ("base", "new"):
            self.expect(0, *self.command, out)
        rows = json.loads(
            self.expect(0, "compare", "base", "new", "--gate", "smoke", "--json").stdout)["rows"]
        replays = {row["cell"]: len(row["seeds"]) for row in rows if row["metric"] == "replay"}
        fresh = [cell for cell in replays if cell.endswith("(fresh seeds)")]
        self.assertEqual((len(replays), len(fresh)), (6, 2))
        self.assertEqual(set(replays.values()), {2})
        table = self.expect(0, "report", "base", "--format", "csv").stdout.splitlines()
        phase = table[0].split(",").index("phase")
        self.assertEqual({line.split(",")[phase] for line in table[1:]}, {"selection", "report"})

    def test_a_fresh_seed_that_the_sweep_has_too_is_refused(self):
        result = self.expect(2, *self.command, "out", "--seeds", "70,")
        self.assertIn("/sweep/select/reseed/base: seed 70 of the sweep", result.stderr)


if __name__ == "__main__":
    unittest.main()
