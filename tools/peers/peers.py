#!/usr/bin/env python3
"""Layers of flash-linear-attention beside our mixers, pair by pair, and their table.

    python3 tools/peers/peers.py warm --gpus 0,1                     # compiles kernels, many layers at once
    python3 tools/peers/peers.py run --gpus 0,1 -o out/fla           # all pairs of fla.json, or those that are named
    python3 tools/peers/peers.py table out/fla/*/*/report.json       # Markdown; --json for programs
    python3 tools/peers/peers.py table --onto peers.json out/fla/*/*/report.json   # beside the rows of an earlier table

`run` goes on where an earlier one stopped: what is finished stays. tools/peers/README.md says what it needs.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).absolute().parent
SUITE = HERE / "fla.json"
sys.path.insert(0, str(HERE.parent / "reader"))
import mixerbench_reader  # noqa: E402

FINISHED = (0, 4)  # exit codes: all cells completed, some failed and have a reason
STOPPED = 75
# README.md says what the check is and how long variants of a kernel are timed. Choices of Triton's tuner are kept for
# later processes, those of kernels that were compiled and not timed are not.
CHECK = {"FLA_HOPPER_CHECK": "0"}
ALONE = {**CHECK, "TRITON_CACHE_AUTOTUNING": "1", "PEERS_TUNING_MS": "20"}
BESIDE_OTHERS = {**CHECK, "TRITON_CACHE_AUTOTUNING": "0", "FLA_CACHE_RESULTS": "0", "PEERS_TUNING_MS": "0"}
# One step and one batch of each kind, with the shapes that the suite has: all kernels, each once.
SHORT = {
    "task.train.num_examples": 256,
    "task.validation.num_examples": 256,
    "task.test.num_examples": 256,
    "train.num_epochs": 1,
    "throughput.num_samples": 3,
}


def read_suite():
    return json.loads(SUITE.read_text(encoding="utf-8"))


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


def named(suite, layers):
    """The pairs of the layers that are named, or all."""
    known = pairs(suite)
    unknown = sorted(set(layers) - set(known))
    if unknown:
        raise SystemExit(f"error: no pair {', '.join(unknown)}; there are {', '.join(known)}")
    return {layer: known[layer] for layer in layers or known}


def class_of(mixer):
    """The name of the class in fla_layers.py, of a mixer in Python."""
    return mixer["module"].rpartition(":")[2]


def chosen(options):
    """{name of ours: the suite of its pair} of the layers that are named, or of all."""
    suite = read_suite()
    return {layer: one_pair(suite, pair) for layer, pair in named(suite, options.layers).items()}


class Workers:
    """Takes jobs in turn, one at a time on each of the devices that are listed (None: whatever CUDA shows)."""

    def __init__(self, jobs, devices):
        self._jobs = queue.SimpleQueue()
        for job in jobs:
            self._jobs.put(job)
        self._code = 0
        self._threads = [threading.Thread(target=self._work, args=(device,)) for device in devices]

    def run(self):
        """0, or the exit code that ended the first job that could not be finished, after which none is begun."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive():
                try:
                    thread.join()
                except KeyboardInterrupt:  # which the program has got as well: it saves what runs
                    continue
        return self._code

    def _work(self, device):
        visible = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
        while not self._code:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            code = job(visible)
            if code not in FINISHED:
                self._code = self._code or code


def devices(options):
    return options.gpus.split(",") if options.gpus else [None]


def run(options):
    end = time.monotonic() + options.seconds

    def both_commands(layer, suite):
        def job(visible):
            for command, *words in commands(os.path.join(options.out, layer)):
                left = int(end - time.monotonic())
                if left <= 0:
                    return STOPPED
                words += ["--plan", "merge", "--time-limit", str(left), *options.arguments]
                code = execute(command, suite, words, {**ALONE, **os.environ, **visible})
                if code not in FINISHED:
                    return code
            return 0

        return job

    jobs = [both_commands(layer, suite) for layer, suite in chosen(options).items()]
    return Workers(jobs, devices(options)).run()


def warm(options):
    """Of what is measured here nothing is kept but the compiled kernels, in TRITON_CACHE_DIR."""
    words = ["--seeds", "1", "-q"]
    for path, value in SHORT.items():
        words += ["--set", f"{path}={value}"]

    def theirs_alone(suite):
        _, theirs = suite["sweep"]["grid"]["model.sequence_mixer"]
        suite = {**suite, "sweep": {"grid": {"model.sequence_mixer": [theirs]}}}

        def job(visible):
            with tempfile.TemporaryDirectory() as folder:
                return execute("run", suite, [*words, "-o", folder], {**os.environ, **BESIDE_OTHERS, **visible})

        return job

    jobs = [theirs_alone(suite) for suite in chosen(options).values()]
    lanes = [device for device in devices(options) for _ in range(options.jobs)]
    return Workers(jobs, lanes).run()


def execute(command, suite, words, environment):
    """The exit code of `mixerbench COMMAND` on the content of a suite."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "suite.json")
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(suite, opened)
        return subprocess.call([sys.executable, "-m", "mixerbench", command, file, *words], env=environment)


def mixer_of(cell):
    """The name that the suite has for it, and whether it is theirs."""
    mixer = cell.config["model"]["sequence_mixer"]
    return (class_of(mixer), True) if mixer["name"] == "python" else (mixer["name"], False)


class Side:
    """What reports say about one mixer."""

    def __init__(self):
        self.machines = set()
        self.accuracies = {}  # by run: accuracies of its segments
        self.steps = {"graph": {}, "eager": {}}  # ms by run
        self.reasons = {}  # by what did not complete
        self.parameters = None

    def read(self, cell):
        if cell.environment:  # none: not finished
            self.machines.add((cell.environment.get("gpu") or {}).get("name") or cell.environment["cpu"]["model"])
        self.parameters = (cell.json["model_facts"] or {}).get("num_parameters", self.parameters)
        what = "step" if cell.kind == "throughput" else "training"
        if cell.state != "completed":
            self.reasons[what] = ": ".join(filter(None, (cell.state, cell.reason)))
        for row in [*cell.timings(), *cell.accuracy()]:
            if row["state"] != "completed":
                self.reasons[what] = f"{row['state']}: {row['reason']}"
            elif what == "step":
                self.steps[row["execution"]][cell.run_id] = row["median"]
            else:
                self.accuracies.setdefault(cell.run_id, []).append(row["accuracy"])

    def accuracy_by_seed(self):
        return sorted(statistics.fmean(values) for values in self.accuracies.values())

    def step(self, execution):
        found = list(self.steps[execution].values())
        return statistics.median(found) if found else None

    def facts(self):
        return {
            "num_parameters": self.parameters,
            "accuracy_by_seed": self.accuracy_by_seed(),
            "eager_ms": self.step("eager"),
            "graph_ms": self.step("graph"),
            "failures": self.reasons,
        }


def rows(cells):
    """A dict for each pair of which the cells know something, in the order of the suite."""
    names = {ours: class_of(theirs) for ours, (_, theirs) in pairs(read_suite()).items()}
    sides = {}
    for cell in cells:
        sides.setdefault(mixer_of(cell), Side()).read(cell)
    for ours, theirs in names.items():
        if (ours, False) in sides or (theirs, True) in sides:
            both = [sides.get(key, Side()) for key in ((theirs, True), (ours, False))]
            yield {
                "mixer": ours,
                "layer": theirs,
                "machines": sorted(both[0].machines | both[1].machines),
                "theirs": both[0].facts(),
                "ours": both[1].facts(),
            }


def onto(earlier, found):
    """The rows of an earlier table with those that were found, which take the place of rows of the same pair."""
    by_name = {row["mixer"]: row for row in [*earlier, *found]}
    return [by_name[name] for name in pairs(read_suite()) if name in by_name]


def measured_on(found):
    """The line below the table: the machine, or those of each row where they are not all the same."""
    of_machines = {}
    for row in found:
        of_machines.setdefault(", ".join(row["machines"]) or "no machine", []).append(row["mixer"])
    if len(of_machines) == 1:
        return f"Measured on: {', '.join(of_machines)}."
    return "Measured on: " + "; ".join(f"{where} ({', '.join(names)})" for where, names in of_machines.items()) + "."


def percent(side):
    """The mean over seeds and, in brackets, each seed's."""
    found = [100 * accuracy for accuracy in side["accuracy_by_seed"]]
    return f"{statistics.fmean(found):.1f} % ({', '.join(f'{accuracy:.1f}' for accuracy in found)})" if found else "–"


def milliseconds(value):
    return "–" if value is None else f"{value:.2f}"


def times(theirs, ours):
    return "–" if theirs is None or ours is None else f"{theirs / ours:.1f}"


def markdown(found):
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
    return "\n".join([*lines, "", measured_on(found), *[""] * bool(reasons), *reasons])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    warms = verbs.add_parser("warm", help="compiles the kernels of their layers, many at once")
    warms.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2),
                       help="layers at once on each GPU, by default half as many as there are cores")
    runs = verbs.add_parser("run", help="trains and times pairs")
    runs.add_argument("-o", "--out", default="out/fla", help="the folder, in which each pair has one")
    runs.add_argument("--seconds", type=int, default=24 * 3600, help="stop after so many; the same command goes on")
    runs.add_argument("--argument", dest="arguments", action="append", default=[], metavar="OPTION",
                      help="of mixerbench, such as --argument=--seeds=1")
    for verb in (warms, runs):
        verb.add_argument("layers", nargs="*", metavar="LAYER", help="names of our mixers; all without one")
        verb.add_argument("--gpus", metavar="LIST", help="such as 0,1: pairs on each of them, one at a time")
    tables = verbs.add_parser("table", help="the table of reports")
    tables.add_argument("reports", nargs="+", metavar="REPORT")
    tables.add_argument("--json", action="store_true")
    tables.add_argument("--onto", metavar="FILE", help="the JSON of an earlier table: its other rows stay")
    options = parser.parse_args()
    if options.verb != "table":
        return {"run": run, "warm": warm}[options.verb](options)
    try:
        cells = [cell for path in options.reports for cell in mixerbench_reader.read(path).cells]
        earlier = json.loads(pathlib.Path(options.onto).read_text(encoding="utf-8")) if options.onto else []
    except (mixerbench_reader.FormatError, OSError, json.JSONDecodeError) as error:
        raise SystemExit(f"error: {error}") from error
    found = onto(earlier, rows(cells))
    print(json.dumps(found, indent=2) if options.json else markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
