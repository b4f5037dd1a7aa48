"""Shards of one suite in one folder, and the script that runs them under Slurm.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite


class ShardTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", tiny_suite())

    def run_shard(self, code, shard, **environment):
        result = subprocess.run(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "out", "--shard", shard],
            cwd=self.folder.name,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_shards_share_the_cells_and_each_reports_what_is_there(self):
        # The ids decide which shard has which cells, and with them who is last.
        for index in range(3):
            result = self.run_shard(0, f"{index}/3")
            done = len(glob.glob(self.path("out/cells/*/result.json")))
            states = [c["state"]["value"] for c in self.read_json("out/report.json")["cells"]]
            self.assertEqual(len(states), 6)
            self.assertEqual(states.count("completed"), done)
            self.assertEqual("left to others" in result.stderr, done < 6)
        self.assertEqual(done, 6)

    def test_a_plan_says_which_cells_are_of_other_shards(self):
        lists = [
            self.expect(0, "run", "suite.json", "--device", "cpu", "-n", "--shard", f"{index}/2").stdout
            for index in range(2)
        ]
        own = [text.count("  to run  ") for text in lists]
        self.assertEqual(sum(own), 6)
        self.assertEqual([6 - text.count("  other shard  ") for text in lists], own)

    def test_slurm_tells_the_shard(self):
        variables = {"SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_COUNT": "2"}
        self.run_shard(0, "slurm", SLURM_ARRAY_TASK_ID="3", **variables)
        self.run_shard(0, "slurm", SLURM_ARRAY_TASK_ID="4", **variables)
        self.assertEqual(len(self.read_json("out/report.json")["cells"]), 6)

    def test_impossible_shards_are_refused(self):
        for shard in ["3/3", "1", "a/2", "-1/2", "0/0"]:
            result = self.run_shard(2, shard)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("SLURM_ARRAY_TASK", self.run_shard(2, "slurm").stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_slurm_script_runs_its_shard_and_is_valid_bash(self):
        script = self.expect(
            0, "slurm", "suite.json", "-o", "a folder", "--tasks", "1", "--gpus-per-task", "0",
            "--program", PROGRAM, "--sbatch=--partition=debug", "--", "--device", "cpu",
        ).stdout
        self.assertIn("#SBATCH --array=0-0\n", script)
        self.assertIn("#SBATCH --partition=debug\n", script)
        variables = {
            "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_COUNT": "1",
        }
        subprocess.run(
            ["bash", self.write("job.sh", script)],
            env={**os.environ, **variables}, check=True, stderr=subprocess.DEVNULL,
        )
        self.assertEqual(len(self.read_json("a folder/report.json")["cells"]), 6)

    def test_slurm_script_of_what_run_would_refuse_is_not_printed(self):
        script = ["slurm", "suite.json", "-o", "out", "--tasks", "2"]
        self.expect(0, *script, "--", "--jobs", "2", "--max-gpu-hours", "3")
        for words, expected in (
            (["--shard", "0/2"], "after --: --shard: "),
            (["--shard=0/2"], "after --: --shard: "),
            (["--out", "other"], "after --: --out: "),
            (["-oother"], "after --: --out: "),
            (["--gpus", "0"], "after --: --gpus: "),
            (["--job", "2"], "after --: unknown option '--job' (did you mean '--jobs'?)"),
            (["--seeds", "2,2"], "--seeds: seed 2 stands there twice"),
            (["--set", "train.foo=1"], self.expect(2, "run", "suite.json", "--set", "train.foo=1").stderr),
            (["other.json"], "one suite at a time"),
            (["--dry-run"], "after --: --dry-run: the tasks would run nothing"),
        ):
            result = self.expect(2, *script, "--", *words)
            self.assertIn(expected, result.stderr)
            self.assertEqual((result.stdout, result.stderr.count("\n")), ("", 1))
        self.expect(0, *script, "--gpus-per-task", "0", "--", "--device", "cuda", "--gpus", "0")
        for time_limit in ("30", "4:00:00", "2-12", "1-2:30:00", "UNLIMITED"):
            self.expect(0, *script, "--time", time_limit)
        for time_limit in ("foo", "4h", "1:2:3:4", "-1", "30\nrm"):
            self.assertIn("--time: ", self.expect(2, *script, f"--time={time_limit}").stderr)
        for suite, code in (("nosuch.json", 3), ("quickstrat", 2)):
            result = self.expect(code, "slurm", suite, "-o", "out", "--tasks", "2")
            self.assertEqual((result.stdout, result.stderr), ("", self.expect(code, "run", suite).stderr))

    def test_a_signal_stops_the_run_with_75_and_the_same_command_continues(self):
        arguments = ["run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1"]
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen(
                [PROGRAM, *arguments], cwd=self.folder.name,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            before = len(glob.glob(self.path("out/cells/*/result.json")))
            deadline = time.monotonic() + 120
            while len(glob.glob(self.path("out/cells/*/result.json"))) == before:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(number)
            self.assertEqual(process.wait(), 75)
        self.expect(0, *arguments)
        self.assertEqual(len(self.read_json("out/report.json")["cells"]), 6)

    def test_a_dead_worker_costs_one_cell(self):
        process = subprocess.Popen(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1"],
            cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 120
        while not (workers := children.read_text(encoding="ascii").split()):
            self.assertLess(time.monotonic(), deadline)
        os.kill(int(workers[0]), signal.SIGKILL)
        self.assertEqual(process.wait(), 4)
        states = [cell["state"] for cell in self.read_json("out/report.json")["cells"]]
        failed = [state for state in states if state["value"] != "completed"]
        self.assertEqual(len(failed), 1)
        self.assertIn("killed by signal 9", failed[0]["reason"])


if __name__ == "__main__":
    unittest.main()
