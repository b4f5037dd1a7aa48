#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each write, sync, rename and new file of a command fail in turn, then each allocation (docs/RELIABILITY.md, rows 4, 7).

    tests/soak/faults.py PROGRAM disk [--every K]      # every K-th of the calls
    tests/soak/faults.py PROGRAM memory [--every K]

Needs gcc for the library that it preloads. Prints how often the program ended with which code; exit code 1 when a file was
neither the old nor the new one, a run that was continued ended with another report, or the program died.
"""

import argparse
import collections
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from kills import suite
from runs import untimed

HERE = os.path.dirname(os.path.abspath(__file__))
OLD = b"what was there before\n"


class Faults:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.library = os.path.join(folder, "faults.so")
        self.counter = os.path.join(folder, "counter")
        self.work = os.path.join(folder, "work")
        self.faults = []
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", self.library, os.path.join(HERE, "faults.c"), "-ldl"], check=True)

    def start(self, arguments, at=None, program=None):
        """Runs the program; the `at`-th call fails. Without it nothing is counted."""
        environment = dict(os.environ)
        if at is not None:
            with open(self.counter, "wb") as file:
                file.write(struct.pack("l", 0))
            environment.update(
                {"LD_PRELOAD": self.library, "FAULT_COUNTER": self.counter, "FAULT_KIND": self.options.kind,
                 "FAULT_AT": str(at), "FAULT_UNDER": self.work}
            )
            if program:
                environment["FAULT_PROGRAM"] = program
        return subprocess.run([self.options.program, *arguments], cwd=self.work, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False, text=True)

    def num_calls(self):
        with open(self.counter, "rb") as file:
            return struct.unpack("l", file.read())[0]

    def each(self, what, arguments, prepare, check, program=None):
        """`check(result)` after each fault; the number of calls is that of a run in which none fails."""
        prepare()
        self.start(arguments, at=0, program=program)
        codes, last = collections.Counter(), self.num_calls()
        tried = range(1, last + 1, self.options.every)
        for at in tried:
            prepare()
            result = self.start(arguments, at=at, program=program)
            codes[result.returncode] += 1
            fault = check(result)
            if result.returncode < 0 or result.stderr.count("\n") > self.options.lines:
                fault = f"ended with {result.returncode}: {result.stderr[:300]}"
            if fault:
                self.faults.append(f"{what}, call {at}: {fault}")
        print(f"{what}: {len(tried)} of {last} calls failed in turn; exit codes {dict(sorted(codes.items()))}", flush=True)

    def fresh(self):
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)

    def read(self, name):
        with open(os.path.join(self.work, name), "rb") as file:
            return file.read()

    def disk(self):
        generate = ["generate", "mqar", "--set", "input_seq_len=16", "--set", "num_kv_pairs=2", "--count", "50", "-o", "data.npy"]
        self.fresh()
        self.start(generate)
        new = self.read("data.npy")

        def old_file():
            self.fresh()
            with open(os.path.join(self.work, "data.npy"), "wb") as file:
                file.write(OLD)

        def is_old_or_new(result):
            content = self.read("data.npy")
            if content not in (OLD, new) or (result.returncode == 0 and content != new):
                return "the file is neither the old nor the new one"
            return "" if result.returncode in (0, 8) else f"exit code {result.returncode}: {result.stderr}"

        self.each("generate", generate, old_file, is_old_or_new)
        self.each_of_run(num_epochs=10, codes=(0, 4, 8))

    def each_of_run(self, num_epochs, codes, program=None):
        """A run that met a fault is continued to the report of a run without faults."""
        run = ["run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1", "-q", "--checkpoint-interval", "0.2"]

        def suite_alone():
            self.fresh()
            with open(os.path.join(self.work, "suite.json"), "w", encoding="utf-8") as file:
                json.dump(suite(num_seeds=1, num_epochs=num_epochs), file)

        suite_alone()
        self.start(run)
        whole = untimed(json.loads(self.read("out/report.json")))

        def continues(result):
            if result.returncode not in codes:
                return f"exit code {result.returncode}: {result.stderr}"
            again = self.start([*run, "--retry", "failed"])
            if again.returncode != 0:
                return f"cannot be continued ({again.returncode}): {again.stderr}"
            same = untimed(json.loads(self.read("out/report.json"))) == whole
            return "" if same else "another report than that of a run without faults"

        self.each("run", run, suite_alone, continues, program)

    def memory(self):
        self.fresh()
        with open(os.path.join(self.work, "suite.json"), "w", encoding="utf-8") as file:
            json.dump(suite(num_seeds=1, num_epochs=2), file)
        self.start(["run", "suite.json", "--device", "cpu", "-o", "out", "--jobs", "1", "-q"])

        def ends_well(result):
            return "" if result.returncode in (0, 8, 70) else f"exit code {result.returncode}: {result.stderr[:300]}"

        for arguments in (
            ["validate", "out/report.json"], ["validate", "--deep", "out"], ["report", "out", "--format", "html"],
            ["report", "out", "--format", "csv"], ["compare", "out", "out", "--gate", "smoke", "--fail-on", ""],
        ):
            name = " ".join(arguments[:4])
            self.each(name, arguments, lambda: None, ends_well, program="mixerbench")
        self.each_of_run(num_epochs=2, codes=(0, 4, 8, 70), program="mixerbench")  # its worker too

    def run(self):
        getattr(self, self.options.kind)()
        for fault in self.faults[:20]:
            print("FAULT: " + fault)
        print(f"{len(self.faults)} faults")
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("kind", choices=["disk", "memory"])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--lines", type=int, default=6, help="of what it may say")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        sys.exit(Faults(options, folder).run())


if __name__ == "__main__":
    main()
