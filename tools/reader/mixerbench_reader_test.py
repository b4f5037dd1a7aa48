"""The reader against committed reports. SPDX-License-Identifier: Apache-2.0"""

import io
import json
import os
import sys
import tempfile
import unittest
import warnings

READER, *REPORTS = sys.argv[1:]
sys.argv[1:] = []
sys.path.insert(0, os.path.dirname(os.path.abspath(READER)))
sys.dont_write_bytecode = True
import mixerbench_reader as mb  # noqa: E402

MAX_LINES = 200


def with_failed_seed(path):
    """The report of `path` with the first training diverged, as the program summarises it."""
    report = mb.read(path)
    failed = next(cell for cell in report.cells if cell.kind == "train")
    failed.state, failed.json["accuracy_by_length"] = "diverged", []
    (group,) = [g for g in report.groups if g["group_id"] == failed.group_id]
    seed = group["aggregate"]["seeds"].index(failed.seed)
    for row in group["aggregate"]["accuracy_by_length"]:
        row["per_seed"][seed], row["imputed"][seed] = row["chance"], True
        row["mean"] = sum(row["per_seed"]) / len(row["per_seed"])
    return report


class ReaderTest(unittest.TestCase):
    def test_it_stays_short(self):
        with open(READER, encoding="utf-8") as file:
            self.assertLessEqual(len(file.readlines()), MAX_LINES)

    def test_every_committed_report(self):
        self.assertTrue(REPORTS)
        for path in REPORTS:
            report = mb.read(path)
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            self.assertEqual(len(report.cells), len(document["cells"]))
            self.assertEqual(sum(report.states().values()), len(report.cells))
            self.assertTrue(report.is_complete())
            self.assertEqual(len(report.timings()), sum(len(c["throughput"]) for c in document["cells"]))
            for row in report.accuracy():
                self.assertAlmostEqual(row["accuracy"], row["num_correct"] / row["num_scored"])

    def test_means_are_those_of_the_cells(self):
        for path in REPORTS:
            report = mb.read(path)
            fresh = {cell.group_id for cell in report.cells if cell.phase == "report"}
            scores = {}
            for cell in report.cells:
                if cell.kind != "train" or (cell.phase == "selection" and cell.group_id in fresh):
                    continue
                for row in cell.json["accuracy_by_length"]:
                    if row["slice"] is None:
                        key = (cell.name, json.dumps(row["axes"], sort_keys=True))
                        scores.setdefault(key, []).append(row["accuracy"])
            means = report.mean_accuracy()
            self.assertEqual(means.keys(), scores.keys())
            for key, values in scores.items():
                self.assertAlmostEqual(means[key], sum(values) / len(values), places=12)

    def test_a_failed_seed_without_rows_counts_as_chance(self):
        report = with_failed_seed(REPORTS[0])
        (key, mean), *_ = report.mean_accuracy().items()
        failed = next(cell for cell in report.cells if cell.state == "diverged")
        rows = [row for cell in report.cells if cell.name == failed.name
                for row in cell.json["accuracy_by_length"]
                if row["slice"] is None and json.dumps(row["axes"], sort_keys=True) == key[1]]
        self.assertEqual(key[0], failed.name)
        values = [row["accuracy"] for row in rows] + [rows[0]["chance"]]
        self.assertAlmostEqual(mean, sum(values) / len(values), places=12)

    def test_cells_without_groups_have_no_means(self):
        report = mb.read(REPORTS[0])
        with self.assertRaisesRegex(mb.FormatError, "cells without groups"):
            mb.Report("cells", report.cells, [], None).mean_accuracy()

    def test_groups_of_one_name_are_not_mixed(self):
        report = mb.read(REPORTS[0])
        trained = [group for group in report.groups if group["kind"] == "train"]
        trained[1]["cell"] = trained[0]["cell"]
        for summary in (report.groups_by_cell, report.mean_accuracy):
            with self.assertRaisesRegex(mb.FormatError, "the name of several groups"):
                summary()

    def test_groups_have_a_kind(self):
        report = mb.read(REPORTS[0])
        kinds = [group["kind"] for group in report.groups]
        self.assertEqual(set(kinds), {"train", "throughput"})
        for kind in set(kinds):
            self.assertEqual(len(report.groups_by_cell(kind)), kinds.count(kind))

    def test_an_older_version_warns(self):
        for path in REPORTS:
            with open(path, encoding="utf-8") as file:
                minor = int(json.load(file)["schema_version"].split(".")[1])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                mb.read(path)
            self.assertEqual(len(caught), 1 if minor < 3 else 0, path)

    def test_an_axis_takes_no_other_column(self):
        cell = mb.read(REPORTS[0]).cells[-1]
        row = {**cell.json["accuracy_by_length"][0], "axes": {"variant": "copy", "length": 8}}
        cell.json["accuracy_by_length"] = [row]
        (read,) = cell.accuracy()
        self.assertEqual((read["variant"], read["axis.variant"], read["length"]), (cell.variant, "copy", 8))

    def test_csv_has_every_row(self):
        report = mb.read(REPORTS[0])
        text = io.StringIO()
        mb.write_csv(report.accuracy(slices=True), text)
        self.assertEqual(text.getvalue().count("\n"), len(report.accuracy(slices=True)) + 1)

    def test_csv_has_no_formulas(self):
        text = io.StringIO()
        mb.write_csv([{"=A1": "=1+1", "name": "+x", "reason": "\t@y", "low": -1.5, "axes": {"-": 1}, "why": None},
                      {"name": "-"}], text)
        self.assertEqual(text.getvalue(), "'=A1,name,reason,low,axes,why\n"
                                          "'=1+1,'+x,'\t@y,-1.5,\"{\"\"-\"\": 1}\",\n"
                                          ",'-,,,,\n")

    def test_a_folder_of_cells(self):
        with open(REPORTS[0], encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        with tempfile.TemporaryDirectory() as out:
            for i, cell in enumerate(cells):
                os.makedirs(f"{out}/cells/{i:04}")
                with open(f"{out}/cells/{i:04}/result.json", "w", encoding="utf-8") as file:
                    json.dump(cell, file)
            self.assertEqual(len(mb.read(out).cells), len(cells))

    def test_what_is_wrong_is_refused(self):
        for text in ("{", "[]", '{"schema_version": "2.0.0", "kind": "sweep"}', '{"a": 1, "a": 2}',
                     '{"schema_version": "1.0.0", "kind": "other"}', '{"schema_version": NaN}',
                     '{"schema_version": "1.4.0", "kind": "sweep"}'):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(text)
                file.flush()
                with self.assertRaises(mb.FormatError, msg=text):
                    mb.read(file.name)


if __name__ == "__main__":
    unittest.main()
