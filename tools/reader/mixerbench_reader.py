"""Reads what mixerbench writes, with the standard library alone: report.json, result.json, run folders.

    import mixerbench_reader as mb
    report = mb.read("out")                       # a run folder, a report.json or a result.json
    for row in report.accuracy():                 # a dict for each (cell, segment)
        print(row["mixer"], row["seed"], row.get("input_seq_len"), row["accuracy"])

Every reader ignores members that it does not know, and refuses another major schema version.
SPDX-License-Identifier: Apache-2.0
"""

import csv
import json
import os
import sys

SCHEMA_MAJOR = 1
FAILED = ("diverged", "oom", "timeout", "error")  # ran and failed: accuracy counts as chance
MISSING = ("planned", "interrupted")  # no result yet


class FormatError(ValueError):
    """The file is not what it should be; the message names it."""


def _load(path):
    def unique(pairs):
        found = {}
        for key, value in pairs:
            if key in found:
                raise FormatError(f"{path}: the key {key!r} stands there twice")
            found[key] = value
        return found

    def no_constant(name):
        raise FormatError(f"{path}: {name} is no JSON")

    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file, object_pairs_hook=unique, parse_constant=no_constant)
        except json.JSONDecodeError as error:
            raise FormatError(f"{path}: {error}") from error
    version = str(document.get("schema_version", "")) if isinstance(document, dict) else ""
    if version.split(".")[0] != str(SCHEMA_MAJOR):
        raise FormatError(f"{path}: schema {version or 'unknown'}, this reads {SCHEMA_MAJOR}.x")
    return document


class Cell:
    """One cell: `json` is the document, the rest are short ways to its parts."""

    def __init__(self, document):
        self.json = document
        identity = document["identity"]
        self.name, self.kind, self.seed = identity["cell"], identity["kind"], int(identity["seed"])
        self.run_id, self.group_id = identity["run_id"], identity["group_id"]
        self.phase = identity.get("phase")  # "selection", "report" or None
        self.task, self.mixer, self.variant = (self.name.split("/", 2) + ["", ""])[:3]
        self.state, self.reason = document["state"]["value"], document["state"]["reason"]
        self.config, self.environment = document["config"], document["environment"]
        self.solved, self.partial = document["solved"], document["partial"]

    def about(self):
        return {"task": self.task, "mixer": self.mixer, "variant": self.variant, "kind": self.kind,
                "phase": self.phase, "seed": self.seed, "cell_state": self.state, "run_id": self.run_id}

    def accuracy(self, slices=False):
        """Rows of whole segments; with `slices` the parts of them, too."""
        for row in self.json["accuracy_by_length"]:
            if row["slice"] is None or slices:
                yield self._with_axes(row)

    def _with_axes(self, row):
        about = {**self.about(), **{key: value for key, value in row.items() if key != "axes"}}
        axes = {f"axis.{axis}" if axis in about else axis: value for axis, value in row["axes"].items()}
        return {**self.about(), **axes, **about}

    def curve(self):
        for point in self.json["learning_curve"]:
            yield {**self.about(), **point}

    def timings(self):
        for row in self.json["throughput"]:
            yield {**self.about(), **row}

    def taps(self):
        """What taps recorded in a trained model; none in results before schema 1.8."""
        for row in self.json.get("taps", ()):
            yield self._with_axes(row)


class Report:
    """The cells of a run, and what they say together (`groups`; empty for a folder of cells)."""

    def __init__(self, name, cells, groups, config, reseeds=()):
        self.name, self.cells, self.groups, self.config = name, cells, groups, config
        self.reseeds = reseeds

    def _rows(self, of_cell):
        return [row for cell in self.cells for row in of_cell(cell)]

    def accuracy(self, slices=False):
        return self._rows(lambda cell: cell.accuracy(slices))

    def curves(self):
        return self._rows(Cell.curve)

    def timings(self):
        return self._rows(Cell.timings)

    def taps(self):
        return self._rows(Cell.taps)

    def states(self):
        """How many cells ended how."""
        count = {}
        for cell in self.cells:
            count[cell.state] = count.get(cell.state, 0) + 1
        return count

    def is_complete(self):
        return (not any(cell.state in MISSING or cell.partial for cell in self.cells)
                and not any(reseed["unplanned"] for reseed in self.reseeds))

    def groups_by_cell(self):
        """Summaries over seeds by cell name: solve_rate, accuracy_by_length, steps_to_threshold.

        Of a setting that reports fresh seeds, those of these: their group comes last."""
        return {group["cell"]: group["aggregate"] for group in self.groups}

    def mean_accuracy(self):
        """{(cell name, axes as text): mean over seeds}; a failed seed counts as chance.

        Of the test segments of trainings; of a setting that reports fresh seeds, over these."""
        sums, groups = {}, {}
        fresh = {cell.group_id for cell in self.cells if cell.phase == "report"}
        for cell in self.cells:
            if cell.kind != "train" or (cell.phase == "selection" and cell.group_id in fresh):
                continue
            if groups.setdefault(cell.name, cell.group_id) != cell.group_id:
                raise FormatError(f"{cell.name}: the name of several groups; see `groups`")
            for row in cell.json["accuracy_by_length"]:
                if row["slice"] is not None:
                    continue
                axes = dict(sorted(row["axes"].items()))
                failed = cell.state in FAILED or row["state"] in FAILED
                value = row["chance"] if failed else row["accuracy"]
                if value is not None:
                    sums.setdefault((cell.name, json.dumps(axes)), []).append(value)
        return {key: sum(values) / len(values) for key, values in sums.items()}


def read(path):
    """A run folder, a report.json, or the result.json of one cell."""
    if os.path.isdir(path):
        report = os.path.join(path, "report.json")
        if os.path.exists(report):
            return read(report)
        folder = os.path.join(path, "cells")
        if not os.path.isdir(folder):
            raise FormatError(f"{path}: no report.json and no cells")
        files = [os.path.join(folder, name, "result.json") for name in sorted(os.listdir(folder))]
        return Report(os.path.basename(os.path.abspath(path)),
                      [Cell(_load(file)) for file in files if os.path.exists(file)], [], None)
    document = _load(path)
    kind = document.get("kind")
    try:
        if kind == "sweep":
            return Report(document["name"], [Cell(cell) for cell in document["cells"]],
                          document["groups"], document["config"], document.get("reseeds", ()))
        if kind == "run":
            return Report(document["identity"]["cell"], [Cell(document)], [], None)
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: {error!r} is missing") from error
    raise FormatError(f"{path}: kind {kind!r} is neither a sweep nor a run")


def write_csv(rows, file):
    """Rows of dicts as CSV; columns in order of appearance, nested values as JSON."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([json.dumps(value) if isinstance(value, (dict, list)) else value
                         for value in (row.get(column, "") for column in columns)])


def main(arguments):
    tables = {"accuracy": Report.accuracy, "curves": Report.curves, "timings": Report.timings,
              "taps": Report.taps}
    if len(arguments) != 2 or arguments[0] not in tables:
        sys.exit(f"usage: mixerbench_reader.py {'|'.join(tables)} FOLDER_OR_FILE > table.csv")
    try:
        write_csv(tables[arguments[0]](read(arguments[1])), sys.stdout)
    except (FormatError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
