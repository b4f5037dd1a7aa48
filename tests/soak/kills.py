#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops runs at random moments and continues them, then compares with a run that nobody stopped.

    tests/soak/kills.py PROGRAM --stops 200                    # kill -9 of one process (docs/RELIABILITY.md, rows 1 and 2)
    tests/soak/kills.py PROGRAM --stops 100 --signals TERM,INT,USR1,HUP       # row 13
    tests/soak/kills.py PROGRAM --stops 40 --processes 8 --seeds 25           # row 12

After every stop each result that was finished before must be there with the same numbers and be readable. A report of a run
that was stopped must be that of the other, times aside. Prints what it counted; exit code 1 when anything was lost.
"""

import argparse
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from runs import tiny_suite, untimed  # noqa: E402


def suite(num_seeds, num_epochs):
    tiny = tiny_suite()
    del tiny["throughput"]
    train = {**tiny["train"], "num_epochs": num_epochs, "early_stop_accuracy": 0}
    return {**tiny, "name": "soak", "train": train, "seeds": {"count": num_seeds}}


class Soak:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.random = random.Random(options.seed)
        self.finished = {}  # bytes and numbers of each result.json that is there
        self.written_again = 0  # with the same numbers
        self.faults = []
        with open(os.path.join(folder, "suite.json"), "w", encoding="utf-8") as file:
            json.dump(suite(options.seeds, options.epochs), file)

    def start(self, out):
        return subprocess.Popen(
            [self.options.program, "run", "suite.json", "--device", "cpu", "-o", out, "--jobs", "1", "-q",
             "--checkpoint-interval", "0.2"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def look(self, out):
        """Notes the finished results; one that has gone, or changed in more than its times, is a fault."""
        now = {}
        for path in glob.glob(os.path.join(self.folder, out, "cells/*/result.json")):
            with open(path, "rb") as file:
                content = file.read()
            try:
                now[path] = (content, untimed(json.loads(content)))
            except ValueError:
                self.faults.append(f"{path}: damaged")
                now[path] = (content, None)
        for path, (content, numbers) in self.finished.items():
            if path not in now or now[path][1] != numbers:
                self.faults.append(f"{path}: {'changed' if path in now else 'lost'}")
            elif now[path][0] != content:
                self.written_again += 1
        self.finished = now

    def report(self, out):
        with open(os.path.join(self.folder, out, "report.json"), encoding="utf-8") as file:
            return untimed(json.load(file))

    def num_checkpoints(self, out):
        return len(glob.glob(os.path.join(self.folder, out, "cells/*/checkpoint-*")))

    def finish(self, out):
        code = self.start(out).wait()
        if code != 0:
            self.faults.append(f"{out}: exit code {code}")
        self.look(out)
        self.finished = {}
        if self.report(out) != self.report("whole"):
            self.faults.append(f"{out}: another report than that of a run that nobody stopped")

    def stop_one(self, process, name):
        """Seconds that it took to end."""
        process.send_signal(getattr(signal, "SIG" + name))
        began = time.monotonic()
        code = process.wait()
        if code not in ([-signal.SIGKILL, 0] if name == "KILL" else [75, 0]):
            self.faults.append(f"{name}: exit code {code}")
        return time.monotonic() - began, code != 0

    def soak_one(self, whole_s):
        """One process after the other."""
        stops, folders, slowest, states = 0, 0, 0.0, 0
        while stops < self.options.stops:
            out = f"out{folders}"
            process = self.start(out)
            time.sleep(self.random.uniform(0, whole_s))
            if process.poll() is None:
                seconds, was_running = self.stop_one(process, self.random.choice(self.options.signals))
                slowest = max(slowest, seconds)
                stops += was_running
                states += self.num_checkpoints(out) > 0
            self.look(out)
            if process.returncode == 0 or self.random.random() < 0.1:
                self.finish(out)
                folders += 1
        self.finish(f"out{folders}")
        print(f"{stops} stops by {', '.join(self.options.signals)} in {folders + 1} run folders, {states} of them with a "
              f"checkpoint; the slowest end took {slowest:.1f} s")

    def soak_many(self):
        """Several processes share a folder; a random one is killed now and then and begins again."""
        processes = [self.start("out") for _ in range(self.options.processes)]
        stops = 0
        while any(process.poll() is None for process in processes):
            time.sleep(self.random.uniform(0, self.options.every))
            self.look("out")
            i = self.random.randrange(len(processes))
            if stops < self.options.stops and processes[i].poll() is None:
                stops += self.stop_one(processes[i], self.random.choice(self.options.signals))[1]
                processes[i] = self.start("out")
        codes = sorted({process.returncode for process in processes})
        if codes != [0]:
            self.faults.append(f"exit codes {codes}")
        cells, twice = 0, 0
        for path in glob.glob(os.path.join(self.folder, "out/cells/*/events.jsonl")):
            with open(path, encoding="utf-8") as file:
                cells += 1
                twice += file.read().count('"state":"completed"') > 1
        self.finish("out")
        print(f"{cells} cells of {self.options.processes} processes, {stops} of these stopped: {twice} cells were computed to "
              "their end more than once")

    def run(self):
        began = time.monotonic()
        self.start("whole").wait()
        whole_s = time.monotonic() - began
        print(f"a whole run takes {whole_s:.1f} s")
        if self.options.processes > 1:
            self.soak_many()
        else:
            self.soak_one(whole_s)
        print(f"{self.written_again} finished results were written again, with the same numbers")
        for fault in self.faults:
            print("FAULT: " + fault)
        print(f"{len(self.faults)} faults")
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--stops", type=int, default=3)
    parser.add_argument("--signals", type=lambda text: text.split(","), default=["KILL"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2, help="of the suite: twice as many cells")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between stops of several processes, at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        sys.exit(Soak(options, folder).run())


if __name__ == "__main__":
    main()
