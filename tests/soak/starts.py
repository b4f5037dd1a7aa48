#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a suite anew again and again, and counts the starts in which a worker died (docs/RELIABILITY.md, row 9).

    tests/soak/starts.py PROGRAM --suite resona-mqar-small --jobs 12 --device cuda --starts 12 --seconds 8

When many cells begin at once, libraries load their code beside running work. Exit code 1 when a worker died.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile


def deaths(options, out):
    """Lines that tell of a worker's death, of a run that is stopped after some seconds."""
    with subprocess.Popen(
        [options.program, "run", options.suite, "--device", options.device, "-o", out, "--jobs", str(options.jobs)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as run:
        try:
            run.wait(options.seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGTERM)
        log = run.communicate()[1]
    if run.returncode not in (0, 4, 75):
        sys.exit(f"the run ended with {run.returncode}: {log[-500:]}")
    return [line for line in log.splitlines() if "the worker process " in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--suite", default="smoke")
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        for start in range(options.starts):
            lines = deaths(options, os.path.join(folder, str(start)))
            bad += bool(lines)
            print(f"start {start + 1}: {lines[0] if lines else 'every worker lived'}", flush=True)
    print(f"a worker died in {bad} of {options.starts} starts")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
