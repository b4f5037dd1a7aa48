"""The reader against committed reports. SPDX-License-Identifier: Apache-2.0"""

import io
import json
import os
import sys
import tempfile
import unittest

READER, *REPORTS = sys.argv[1:]
sys.argv[1:] = []
sys.path.insert(0, os.path.dirname(os.path.abspath(READER)))
sys.dont_write_bytecode = True
import mixerbench_reader as mb  # noqa: E402

MAX_LINES = 200


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

    def test_means_are_those_of_the_report(self):
        for path in REPORTS:
            report = mb.read(path)
            means = report.mean_accuracy()
            for name, aggregate in report.groups_by_cell().items():
                for row in aggregate["accuracy_by_length"]:
                    if row["slice"] is None and row["mean"] is not None:
                        key = (name, json.dumps(dict(sorted(row["axes"].items()))))
                        self.assertAlmostEqual(means[key], row["mean"], places=12)

    def test_groups_of_one_name_are_not_pooled(self):
        report = mb.read(REPORTS[0])
        trained = [cell for cell in report.cells if cell.kind == "train"]
        trained[-1].name, trained[-1].group_id = trained[0].name, "sha256:other"
        with self.assertRaisesRegex(mb.FormatError, "the name of several groups"):
            report.mean_accuracy()

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
