"""A finished suite is not run again; a killed one continues and ends with the same report.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import os
import shutil
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite
import runs  # beside what program takes from it


def untimed(report):
    """Without speeds too, which the suite measures."""
    return runs.untimed(report, runs.TIMED | {"throughput"})


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class ResumeTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", tiny_suite())

    def run_suite(self, out, *arguments):
        return self.expect(0, "run", "suite.json", "--device", "cpu", "-o", out, *arguments)

    def test_second_run_does_nothing_and_says_so(self):
        self.run_suite("out")
        before = {p: os.stat(p).st_mtime_ns for p in glob.glob(self.path("out/cells/*/*"))}
        report = self.read_json("out/report.json")
        result = self.run_suite("out")
        self.assertIn("nothing to do", result.stderr)
        after = {p: os.stat(p).st_mtime_ns for p in glob.glob(self.path("out/cells/*/*"))}
        self.assertEqual(before, after)
        self.assertEqual(report, self.read_json("out/report.json"))

    def test_killed_run_continues_to_the_same_report(self):
        self.run_suite("whole")
        process = subprocess.Popen(
            [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "killed", "--jobs", "1"],
            cwd=self.folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 120
        while not glob.glob(self.path("killed/cells/*/result.json")):
            self.assertLess(time.monotonic(), deadline, "no cell finished in time")
            self.assertIsNone(process.poll(), "the run ended before it could be killed")
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        finished = len(glob.glob(self.path("killed/cells/*/result.json")))
        self.assertLess(finished, 6, "nothing was left to continue")
        self.run_suite("killed")
        self.assertEqual(
            untimed(self.read_json("whole/report.json")),
            untimed(self.read_json("killed/report.json")),
        )

    def test_signals_save_running_cells_which_continue_where_they_stopped(self):
        suite = tiny_suite()
        del suite["throughput"]
        suite["train"].update({"num_epochs": 60, "early_stop_accuracy": 0})
        self.write("suite.json", suite)
        self.run_suite("whole")
        for name in ("SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"):
            process = subprocess.Popen(
                [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "stopped", "--jobs", "1"],
                cwd=self.folder.name,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.wait_for_progress(process, "stopped")
            process.send_signal(getattr(signal, name))
            self.assertEqual(process.wait(timeout=60), 75, name)
            self.assertTrue(glob.glob(self.path("stopped/cells/*/checkpoint-*")), name)
        self.run_suite("stopped")
        self.assertEqual(glob.glob(self.path("stopped/cells/*/checkpoint-*")), [])
        report = self.read_json("stopped/report.json")
        self.assertTrue(any(c["time"]["resumed_from_step"] for c in report["cells"]))
        self.assertEqual(untimed(self.read_json("whole/report.json")), untimed(report))

    def test_a_worker_whose_parent_died_before_it_began_works_on_nothing(self):
        reader, writer = os.pipe()
        os.write(writer, b"0123456789abcdef\n")
        os.close(writer)
        command = [PROGRAM, "worker", "--device", "cpu", "--cells", self.path("cells")]
        result = subprocess.run(command, stdin=reader, capture_output=True, text=True, check=False)
        os.close(reader)
        self.assertEqual((result.returncode, result.stdout), (75, ""), result.stderr)

    def test_time_limit_stops_the_run(self):
        suite = tiny_suite()
        del suite["throughput"]
        suite["train"].update({"num_epochs": 20000, "early_stop_accuracy": 0})
        self.write("suite.json", suite)
        limited = ["--time-limit", "0m4s", "--log-file", "out/run.log"]
        run = ["run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1", *limited]
        for _ in range(2):
            self.assertIn("time limit of 4s: 4 cells are left", self.expect(75, *run).stderr)
        log = read_text(self.path("out/run.log"))
        self.assertEqual(log.count("time limit of 4s: 4 cells are left"), 2)
        self.assertEqual(log.count("Z exit code 75\n"), 2)
        self.assertIn("; 4 to run", self.expect(0, "status", "out").stdout)

    def test_device_time_is_a_budget_over_all_runs(self):
        budget = ["run", "suite.json", "--device", "cpu", "--jobs", "1", "-o", "out"]
        limit = ["--max-gpu-hours", "1e-9"]
        result = self.expect(6, *budget, *limit)
        self.assertIn("5 cells not started: the device time of --max-gpu-hours", result.stderr)
        self.expect(6, *budget, *limit)  # begins nothing more
        self.expect(6, "report", "out")
        cells = self.read_json("out/report.json")["cells"]
        reasons = [c["state"]["reason"] for c in cells if c["state"]["value"] == "planned"]
        self.assertEqual(reasons, ["not started: the device time of --max-gpu-hours is used"] * 5)
        self.assertIn("is used)", self.expect(0, "status", "out").stdout)
        self.expect(0, *budget)
        self.expect(0, "report", "out")

    def test_strict_mode_is_asked_for_again(self):
        def modes():
            cells = self.read_json("out/report.json")["cells"]
            return {c["environment"]["determinism"]["deterministic_algorithms"] for c in cells}

        command = ["run", "suite.json", "--device", "cpu", "-o", "out"]
        self.expect(0, *command)
        self.assertEqual(modes(), {"warn"})
        before = untimed(self.read_json("out/report.json"))
        self.assertNotIn("nothing to do", self.expect(0, *command, "--deterministic", "strict").stderr)
        self.assertEqual(modes(), {"strict"})
        self.assertIn("nothing to do", self.expect(0, *command, "--deterministic", "strict").stderr)
        self.expect(0, "repro", "out", "mqar/attention seed 0")  # in the mode that it ran in
        after = untimed(self.read_json("out/report.json"))
        for was, now in zip(before["cells"], after["cells"], strict=True):
            self.assertEqual(was["accuracy_by_length"], now["accuracy_by_length"])
            self.assertEqual(
                [p["train_loss"] for p in was["learning_curve"]],
                [p["train_loss"] for p in now["learning_curve"]],
            )

    def test_signal_while_libtorch_loads_stops_the_run(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            process = subprocess.Popen(
                [PROGRAM, "run", "suite.json", "--device", "cpu", "-o", "early"],
                cwd=self.folder.name,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            while not self.holds_back(process, number):
                self.assertIsNone(process.poll(), "it never held the signal back")
            process.send_signal(number)
            message = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, message.count("stopped; ")), (75, 1), message)

    def holds_back(self, process, number):
        """Whether the signal waits until the process can handle it."""
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
            for line in status:
                if line.startswith("SigBlk:"):
                    return int(line.split()[1], 16) >> (number - 1) & 1
        return False

    def test_any_name_of_a_folder_will_do(self):
        out = "two\nlines 'and' \"quotes\" \t$HOME"
        self.run_suite(out)
        cells = self.read_json(out + "/report.json")["cells"]
        self.assertEqual({cell["state"]["value"] for cell in cells}, {"completed"})

    def wait_for_progress(self, process, out):
        """Until a cell without result has reported a step since the process started."""
        start = time.time()
        while True:
            self.assertLess(time.time() - start, 120, "no progress")
            self.assertIsNone(process.poll(), "the run ended before it could be stopped")
            for events in glob.glob(self.path(f"{out}/cells/*/events.jsonl")):
                if os.path.exists(os.path.join(os.path.dirname(events), "result.json")):
                    continue
                if os.stat(events).st_mtime > start and '"step"' in read_text(events):
                    return
            time.sleep(0.01)

    def test_number_of_workers_changes_no_result(self):
        self.run_suite("one", "--jobs", "1")
        self.run_suite("two", "--jobs", "2")
        self.assertEqual(
            untimed(self.read_json("one/report.json")), untimed(self.read_json("two/report.json"))
        )

    def test_damaged_result_runs_again(self):
        self.run_suite("out")
        whole = self.read_json("out/report.json")
        damaged = sorted(glob.glob(self.path("out/cells/*/result.json")))[0]
        with open(damaged, "r+b") as file:
            file.truncate(os.path.getsize(damaged) // 2)
        result = self.run_suite("out")
        self.assertIn("runs again", result.stderr)
        self.assertEqual(untimed(whole), untimed(self.read_json("out/report.json")))

    def trained(self, out):
        """{seed and mixer: (weights, seconds of training)} of a folder's training cells."""
        cells = [c for c in self.read_json(out + "/report.json")["cells"] if c["identity"]["kind"] == "train"]
        return {
            (c["identity"]["cell"], str(c["identity"]["seed"])): (
                c["time"]["weights"],
                c["time"]["phases"]["train_s"],
            )
            for c in cells
        }

    def test_one_more_test_length_trains_nothing(self):
        suite = tiny_suite()
        self.run_suite("out")
        before = self.trained("out")
        suite["task"]["test"].update({"input_seq_len": [16, 32, 48], "num_kv_pairs": [2, 3, 3]})
        self.write("suite.json", suite)
        self.run_suite("out", "--plan", "replace")
        after = self.trained("out")
        self.assertEqual(before.keys(), after.keys())
        for cell, (weights, train_s) in after.items():
            self.assertFalse(before[cell][0]["reused"])
            self.assertTrue(weights["reused"])
            self.assertEqual(weights["sha256"], before[cell][0]["sha256"])
            self.assertEqual(train_s, before[cell][1])
        self.run_suite("whole", "--keep-weights", "none")
        self.assertFalse(os.path.exists(self.path("whole/weights")))
        self.assertEqual(
            [untimed(c) for c in self.read_json("whole/report.json")["cells"]],
            [untimed(c) for c in self.read_json("out/report.json")["cells"]],
        )

    def test_damaged_weights_are_trained_again_and_the_run_says_so(self):
        self.run_suite("out")
        whole = self.read_json("out/report.json")
        damaged = sorted(glob.glob(self.path("out/weights/*")))[0]
        with open(damaged, "r+b") as file:
            file.truncate(os.path.getsize(damaged) // 2)
        for result in glob.glob(self.path("out/cells/*/result.json")):
            os.remove(result)
        result = self.run_suite("out")
        self.assertIn("trains again", result.stderr)
        self.assertEqual(untimed(whole), untimed(self.read_json("out/report.json")))
        reused = [weights["reused"] for weights, _ in self.trained("out").values()]
        self.assertEqual(sorted(reused), [False, True, True, True])

    def test_fresh_runs_everything_again(self):
        self.run_suite("out")
        result = self.run_suite("out", "--fresh")
        self.assertNotIn("nothing to do", result.stderr)
        for weights, _ in self.trained("out").values():
            self.assertFalse(weights["reused"])

    def test_foreign_folder_is_refused(self):
        os.makedirs(self.path("mine"))
        self.write("mine/thesis.txt", "do not touch")
        result = self.expect(8, "run", "suite.json", "--device", "cpu", "-o", "mine")
        self.assertIn("thesis.txt", result.stderr)
        self.assertEqual(os.listdir(self.path("mine")), ["thesis.txt"])

    def test_failed_cell_is_a_row(self):
        suite = tiny_suite()
        suite["train"]["lr"] = 10
        suite["train"]["num_epochs"] = 40
        suite["train"]["weight_decay"] = 1e30
        suite["train"]["early_stop_accuracy"] = 0
        del suite["throughput"]
        self.write("suite.json", suite)
        self.expect(4, "run", "suite.json", "--device", "cpu", "-o", "out")
        report = self.read_json("out/report.json")
        self.assertEqual(len(report["cells"]), 4)
        for cell in report["cells"]:
            self.assertEqual(cell["state"]["value"], "diverged")
            self.assertIn("not finite at step", cell["state"]["reason"])
        shutil.rmtree(self.path("out"))


if __name__ == "__main__":
    unittest.main()
