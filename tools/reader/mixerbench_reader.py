"""Reads what mixerbench writes, with the standard library alone: report.json, result.json, run folders.

    import mixerbench_reader as mb
    report = mb.read("out")                       # a run folder, a report.json or a result.json
    for row in report.accuracy():                 # a dict for each (cell, segment)
        print(row["mixer"], row["seed"], row.get("input_seq_len"), row["accuracy"])

Every reader ignores members that it does not know, and refuses another major schema version.
SPDX-License-Identifier: Apache-2.0
"""

import collections
import csv
import json
import os
import sys
import warnings

SCHEMA_MAJOR = 1
MISSING = ("planned", "interrupted")  # no result yet
OLD = ("1.0.", "1.1.", "1.2.")  # with other rules for some values


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
    if version.startswith(OLD):  # without the path, so that a folder of cells warns once
        warnings.warn(f"schema {version}: ci_items, ci_seeds, effective_length and peak_memory_bytes "
                      "follow the rules before 1.3, see docs/REPORT_SCHEMA.md")
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

    def accuracy(self, slices=False):
        return [row for cell in self.cells for row in cell.accuracy(slices)]

    def curves(self):
        return [point for cell in self.cells for point in cell.curve()]

    def timings(self):
        return [row for cell in self.cells for row in cell.timings()]

    def taps(self):
        return [row for cell in self.cells for row in cell.taps()]

    def states(self):
        """How many cells ended how."""
        return dict(collections.Counter(cell.state for cell in self.cells))

    def is_complete(self):
        return (not any(cell.state in MISSING or cell.partial for cell in self.cells)
                and not any(reseed["unplanned"] for reseed in self.reseeds))

    def groups_by_cell(self, kind="train"):
        """Summaries over seeds by cell name: solve_rate, accuracy_by_length, steps_to_threshold.

        Of a setting that reports fresh seeds, those of these: their group comes last."""
        groups = {}
        for group in self.groups:
            if group["kind"] == kind:
                known = groups.setdefault(group["cell"], group)
                if known["group_id"] != group["group_id"]:
                    raise FormatError(f"{group['cell']}: the name of several groups; see `groups`")
                groups[group["cell"]] = group
        return {name: group["aggregate"] for name, group in groups.items()}

    def mean_accuracy(self):
        """{(cell name, axes as text): mean over seeds}; a failed seed counts as chance.

        Of the test segments of trainings, as the report summarises them (`groups_by_cell`)."""
        if self.cells and not self.groups:
            raise FormatError(f"{self.name}: cells without groups; `mixerbench report OUT "
                              "--format json` summarises them")
        return {(name, json.dumps(row["axes"], sort_keys=True)): row["mean"]
                for name, aggregate in self.groups_by_cell().items()
                for row in aggregate["accuracy_by_length"]
                if row["slice"] is None and row["mean"] is not None}


def read(path):
    """A run folder, a report.json, or the result.json of one cell."""
    report = os.path.join(path, "report.json")
    if os.path.isdir(path) and not os.path.exists(report):
        folder = os.path.join(path, "cells")
        if not os.path.isdir(folder):
            raise FormatError(f"{path}: no report.json and no cells")
        files = [os.path.join(folder, name, "result.json") for name in sorted(os.listdir(folder))]
        return Report(os.path.basename(os.path.abspath(path)),
                      [Cell(_load(file)) for file in files if os.path.exists(file)], [], None)
    document = _load(report if os.path.isdir(path) else path)
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


def _csv_field(value):
    """As in the program's CSV: text that a spreadsheet would run as a formula gets a ' in front."""
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    is_formula = isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@"))
    return "'" + value if is_formula else value


def write_csv(rows, file):
    """Rows of dicts as CSV; columns in order of appearance, nested values as JSON."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_csv_field, columns))
    writer.writerows([_csv_field(row.get(column, "")) for column in columns] for row in rows)


def main(arguments):
    tables = {name: getattr(Report, name) for name in ("accuracy", "curves", "timings", "taps")}
    if len(arguments) != 2 or arguments[0] not in tables:
        sys.exit(f"usage: mixerbench_reader.py {'|'.join(tables)} FOLDER_OR_FILE > table.csv")
    try:
        write_csv(tables[arguments[0]](read(arguments[1])), sys.stdout)
    except (FormatError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
