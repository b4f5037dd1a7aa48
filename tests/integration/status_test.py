"""What `status` says of a run folder before, while and after cells run in it.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite


class StatusTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.suite = tiny_suite()
        del self.suite["throughput"]
        self.write("suite.json", self.suite)

    def status(self, out):
        answer = json.loads(self.expect(0, "status", out, "--json").stdout)
        return answer["folders"]

    def test_finished_folder_and_a_folder_of_several(self):
        for name in ("several/one", "several/two"):
            self.expect(0, "run", "suite.json", "--device", "cpu", "-o", name, "--seeds", "1")
        text = self.expect(0, "status", "several/one").stdout.splitlines()
        self.assertEqual(len(text), 3)
        self.assertIn("completed    mqar/attention seed 0: ", text[0])
        self.assertEqual(text[-1], "tiny: 2 cells: 2 completed; 0 to run")
        folders = self.status("several")
        self.assertEqual([os.path.basename(f["folder"]) for f in folders], ["one", "two"])
        self.assertEqual(folders[0]["states"], {"completed": 2})
        self.assertEqual({c["state"] for c in folders[1]["cells"]}, {"completed"})

    def test_running_and_stopped_folder(self):
        self.suite["train"].update({"num_epochs": 400, "early_stop_accuracy": 0})
        self.write("suite.json", self.suite)
        process = subprocess.Popen(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1"],
            cwd=self.folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while True:
            self.assertLess(time.monotonic(), deadline, "no progress")
            self.assertIsNone(process.poll(), "the run ended before it could be looked at")
            if glob.glob(self.path("out/cells/*/events.jsonl")):
                (folder,) = self.status("out")
                running = [c for c in folder["cells"] if c["state"] == "running"]
                if running and running[0]["attempt"]["num_steps"]:
                    break
            time.sleep(0.02)
        self.assertEqual(len(running), 1)
        self.assertGreater(running[0]["attempt"]["step"], 0)
        self.assertLess(running[0]["attempt"]["silent_s"], 60)
        self.assertIsNotNone(folder["left_s"])
        self.assertEqual(folder["num_to_run"], folder["states"]["planned"])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 75)
        (folder,) = self.status("out")
        self.assertEqual(folder["states"]["interrupted"], 1)
        self.assertEqual(folder["num_to_run"], folder["states"]["planned"] + 1)
        self.assertIsNone(folder["left_s"])
        self.assertIn("interrupted  mqar/", self.expect(0, "status", "out").stdout)

    def test_a_folder_that_is_missing_or_holds_no_run_is_one_line(self):
        os.makedirs(self.path("empty"))
        os.makedirs(self.path("planned/cells"))
        self.write("planned/sweep.json", '{"name": "s"}')
        os.makedirs(self.path("bare/cells"))
        commands = {
            "report": ["report"],
            "compare": ["compare", "{}"],
            "leaderboard": ["leaderboard"],
            "status": ["status"],
            "deep": ["validate", "--deep"],
            "repro": ["repro"],
        }
        expected = {
            "nowhere": dict.fromkeys(commands, (3, "nowhere: no such file or folder")),
            "empty": {
                **dict.fromkeys(["report", "compare", "deep"], (3, "empty: no run folder and no report")),
                **dict.fromkeys(["leaderboard", "status"], (3, "empty: no run folder and no report, nor holds it any")),
                "repro": (3, "empty: no run folder: give the output folder of a run"),
            },
            "bare": {
                **dict.fromkeys(["report", "compare"], (3, "bare: no run folder and no report")),
                **dict.fromkeys(["leaderboard", "status"], (3, "bare: no run folder and no report, nor holds it any")),
                **dict.fromkeys(["deep", "repro"], (3, "bare: no run folder: give the output folder of a run")),
            },
            "planned": {
                **dict.fromkeys(["report", "deep"], (9, "planned: no finished cells yet")),
                "repro": (2, "0123: no cell of planned; `status` lists them: give the first digits of an id, or a name"),
            },
        }
        for folder, answers in expected.items():
            for name, (code, message) in answers.items():
                words = [word.format(folder) for word in commands[name]] + [folder]
                if name == "repro":
                    words.append("0123")
                result = self.expect(code, *words)
                self.assertEqual((words, result.stderr), (words, f"error: {message}\n"))
                self.assertEqual(result.stdout, "")
        self.assertEqual(self.expect(0, "status", "planned").stdout, "s: 0 cells; 0 to run\n")
        self.assertEqual(self.expect(9, "compare", "planned", "planned").stdout.count("\n"), 1)
        self.assertEqual(self.expect(9, "leaderboard", "planned").stderr, "not ranked: planned: no cells\n")

    def test_failed_cells_have_their_reason(self):
        self.suite["train"].update({"lr": 10, "weight_decay": 1e30, "early_stop_accuracy": 0})
        self.write("suite.json", self.suite)
        self.expect(4, "run", "suite.json", "--device", "cpu", "-o", "out", "--seeds", "1")
        text = self.expect(0, "status", "out").stdout
        self.assertIn("diverged     mqar/attention seed 0: ", text)
        self.assertIn("not finite", text)
        self.assertIn("2 diverged; 0 to run, 2 more with --retry failed", text)

    def test_what_is_no_run_folder_is_refused(self):
        os.makedirs(self.path("mine"))
        for out in ("mine", "nowhere"):
            self.assertEqual(self.expect(3, "status", out).stderr.count("\n"), 1)
        self.assertEqual(os.listdir(self.path("mine")), [])


if __name__ == "__main__":
    unittest.main()
