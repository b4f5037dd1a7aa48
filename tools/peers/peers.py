#!/usr/bin/env python3
"""Layers of flash-linear-attention beside our mixers, pair by pair, and their table.

    python3 tools/peers/peers.py run -o out/fla gla delta_net      # all pairs of fla.json without names
    python3 tools/peers/peers.py table out/fla/*/report.json       # Markdown; --json for programs

`run` goes on where an earlier one stopped: what is finished stays. tools/peers/README.md says what it needs.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).absolute().parent
SUITE = HERE / "fla.json"
sys.path.insert(0, str(HERE.parent / "reader"))
import mixerbench_reader  # noqa: E402

FINISHED = (0, 4)  # exit codes: all cells completed, some failed and have a reason
STOPPED = 75
# Choices of Triton's tuner are kept for later processes; README.md says what the check is.
ENVIRONMENT = {"TRITON_CACHE_AUTOTUNING": "1", "FLA_HOPPER_CHECK": "0"}


def pairs(suite):
    """{name of ours: (our configuration, theirs)}: the suite lists them in turn."""
    mixers = suite["sweep"]["grid"]["model.sequence_mixer"]
    return {ours["name"]: (ours, theirs) for ours, theirs in zip(mixers[::2], mixers[1::2], strict=True)}


def one_pair(suite, pair):
    return {**suite, "sweep": {"grid": {"model.sequence_mixer": list(pair)}}}


def commands(out):
    """Of one pair, in turn: steps operation by operation, alone, since the first use of their kernels tunes them; then
    the trainings, and steps in a graph."""
    yield ["bench", "--no-graph", "--jobs", "1", "-o", os.path.join(out, "eager")]
    yield ["run", "-o", os.path.join(out, "graph")]


def run(options):
    suite = json.loads(SUITE.read_text(encoding="utf-8"))
    known = pairs(suite)
    unknown = sorted(set(options.layers) - set(known))
    if unknown:
        raise SystemExit(f"error: no pair {', '.join(unknown)}; there are {', '.join(known)}")
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "suite.json")
        for layer in options.layers or known:
            with open(file, "w", encoding="utf-8") as opened:
                json.dump(one_pair(suite, known[layer]), opened)
            for command, *words in commands(options.out):
                left = int(end - time.monotonic())
                code = STOPPED
                if left > 0:
                    words += ["--plan", "merge", "--time-limit", str(left), *options.arguments]
                    code = execute([command, file, *words])
                if code not in FINISHED:
                    return code
    return 0


def execute(arguments):
    command = [sys.executable, "-m", "mixerbench", *arguments]
    with subprocess.Popen(command, env={**ENVIRONMENT, **os.environ}) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # which the program has got as well: it saves what runs
                continue


def mixer_of(cell):
    """The name that the suite has for it, and whether it is theirs."""
    mixer = cell.config["model"]["sequence_mixer"]
    return (mixer["module"].rpartition(":")[2], True) if mixer["name"] == "python" else (mixer["name"], False)


class Side:
    """What reports say about one mixer."""

    def __init__(self):
        self.accuracies = {}  # by run: accuracies of its segments
        self.steps = {"graph": {}, "eager": {}}  # ms by run
        self.reasons = {}  # by what did not complete
        self.parameters = None

    def read(self, cell):
        self.parameters = (cell.json["model_facts"] or {}).get("num_parameters", self.parameters)
        what = "step" if cell.kind == "throughput" else "training"
        if cell.state != "completed":
            self.reasons[what] = f"{cell.state}: {cell.reason}"
        for row in [*cell.timings(), *cell.accuracy()]:
            if row["state"] != "completed":
                self.reasons[what] = f"{row['state']}: {row['reason']}"
            elif what == "step":
                self.steps[row["execution"]][cell.run_id] = row["median"]
            else:
                self.accuracies.setdefault(cell.run_id, []).append(row["accuracy"])

    def accuracy(self):
        found = [statistics.fmean(values) for values in self.accuracies.values()]
        return statistics.fmean(found) if found else None

    def step(self, execution):
        found = list(self.steps[execution].values())
        return statistics.median(found) if found else None

    def facts(self):
        return {
            "num_parameters": self.parameters,
            "accuracy": self.accuracy(),
            "num_seeds": len(self.accuracies),
            "eager_ms": self.step("eager"),
            "graph_ms": self.step("graph"),
            "failures": self.reasons,
        }


def rows(cells):
    """A dict for each pair of which the cells know something, in the order of the suite."""
    suite = json.loads(SUITE.read_text(encoding="utf-8"))
    names = {ours: theirs["module"].rpartition(":")[2] for ours, (_, theirs) in pairs(suite).items()}
    sides = {}
    for cell in cells:
        sides.setdefault(mixer_of(cell), Side()).read(cell)
    for ours, theirs in names.items():
        if (ours, False) in sides or (theirs, True) in sides:
            yield {
                "mixer": ours,
                "layer": theirs,
                "theirs": sides.get((theirs, True), Side()).facts(),
                "ours": sides.get((ours, False), Side()).facts(),
            }


def machines(cells):
    """What the cells ran on, for the line below the table."""
    environments = [cell.environment for cell in cells if cell.environment]  # none: not finished
    return sorted({(found.get("gpu") or {}).get("name") or found["cpu"]["model"] for found in environments})


def percent(side):
    return "–" if side["accuracy"] is None else f"{100 * side['accuracy']:.1f} % ({side['num_seeds']})"


def milliseconds(value):
    return "–" if value is None else f"{value:.2f}"


def times(theirs, ours):
    return "–" if theirs is None or ours is None else f"{theirs / ours:.1f}"


def markdown(found, where):
    lines = [
        "| layer | accuracy: theirs | ours | ms a step: theirs, operation by operation | theirs, in our graph "
        "| ours, in a graph | theirs / ours, both in a graph |",
        "|---|---|---|---|---|---|---|",
    ]
    reasons = []
    for row in found:
        theirs, ours = row["theirs"], row["ours"]
        cells = [row["mixer"], percent(theirs), percent(ours), milliseconds(theirs["eager_ms"])]
        cells += [milliseconds(theirs["graph_ms"]), milliseconds(ours["graph_ms"])]
        cells += [times(theirs["graph_ms"], ours["graph_ms"])]
        lines.append("| " + " | ".join(cells) + " |")
        for whose in ("theirs", "ours"):
            reasons += [f"- {row['mixer']}, {whose}, {what}: {why}" for what, why in row[whose]["failures"].items()]
    return "\n".join([*lines, "", f"Measured on: {', '.join(where)}.", *[""] * bool(reasons), *reasons])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="trains and times pairs")
    runs.add_argument("layers", nargs="*", metavar="LAYER", help="names of our mixers; all without one")
    runs.add_argument("-o", "--out", default="out/fla")
    runs.add_argument("--seconds", type=int, default=24 * 3600, help="stop after so many; the same command goes on")
    runs.add_argument("--argument", dest="arguments", action="append", default=[], metavar="OPTION",
                      help="of mixerbench, such as --argument=--seeds=1")
    tables = verbs.add_parser("table", help="the table of reports")
    tables.add_argument("reports", nargs="+", metavar="REPORT")
    tables.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.verb == "run":
        return run(options)
    try:
        cells = [cell for path in options.reports for cell in mixerbench_reader.read(path).cells]
    except (mixerbench_reader.FormatError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    found = list(rows(cells))
    print(json.dumps(found, indent=2) if options.json else markdown(found, machines(cells)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
