#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains every mixer again and again, in new processes, and compares all bits but the times (docs/RELIABILITY.md, row 19).

    tests/soak/repeats.py PROGRAM --repeats 20 [--device cuda] [--jobs 1]

Prints the mixers that differed and those that did not run, with the reason; exit code 1 when one differed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from kills import suite
from runs import untimed


def cells_of(options, folder, out):
    subprocess.run(
        [options.program, "run", "suite.json", "--device", options.device, "-o", out, "-q", "--deterministic", "strict",
         "--jobs", str(options.jobs)],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )
    with open(os.path.join(folder, out, "report.json"), encoding="utf-8") as file:
        return {cell["identity"]["cell"]: cell for cell in json.load(file)["cells"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mixers", type=lambda text: text.split(","), help="these alone")
    options = parser.parse_args()
    listed = json.loads(subprocess.run([options.program, "list", "mixers", "--json"], capture_output=True, check=True).stdout)
    names = [entry["name"] for entry in listed if entry["name"] not in ("hybrid", "parallel", "python")]  # hold others
    names = [name for name in names if not options.mixers or name in options.mixers]
    plan = suite(num_seeds=1, num_epochs=2)
    plan["sweep"]["grid"]["model.sequence_mixer"] = [{"name": name} for name in names]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        with open(os.path.join(folder, "suite.json"), "w", encoding="utf-8") as file:
            json.dump(plan, file)
        first = cells_of(options, folder, "out0")
        differing = set()
        for repeat in range(1, options.repeats):
            again = cells_of(options, folder, f"out{repeat}")
            differing |= {name for name in first if untimed(first[name]) != untimed(again[name])}
            print(f"{repeat + 1} repeats: {len(differing)} differ", flush=True)
    for name, cell in first.items():
        if cell["state"]["value"] != "completed":
            print(f"{name}: {cell['state']['value']}: {cell['state']['reason']}")
    completed = sum(cell["state"]["value"] == "completed" for cell in first.values())
    print(f"{completed} of {len(names)} mixers trained {options.repeats} times: {len(differing)} differed {sorted(differing)}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
