"""A finished cell runs again to the same bits, and what cannot be compared is said.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import unittest

from program import ProgramTest, tiny_suite


class ReproTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("suite.json", tiny_suite())
        run = ["run", "suite.json", "--device", "cpu", "-o", "out", "--seeds", "1"]
        self.expect(0, *run, "--set", "train.num_epochs=1")
        os.mkdir(self.path("tmp"))

    def repro(self, code, *arguments):
        result = self.run_program("repro", *arguments, environment={"TMPDIR": self.path("tmp")})
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(os.listdir(self.path("tmp")), [], "something was left")
        return result

    def cells(self, kind):
        cells = self.read_json("out/report.json")["cells"]
        return [c["identity"] for c in cells if c["identity"]["kind"] == kind]

    def test_same_bits_with_weights_and_without(self):
        before = sorted(glob.glob(self.path("out/**"), recursive=True))
        answer = self.repro(0, "out", "mqar/delta_net seed 0").stdout
        self.assertEqual(answer, "mqar/delta_net seed 0: the same to the bit\n")
        run_id = self.cells("train")[0]["run_id"]
        answer = json.loads(self.repro(0, "out", run_id[:20], "--json", "-q").stdout)
        self.assertEqual((answer["run_id"], answer["verdict"]), (run_id, "same"))
        self.assertEqual((answer["differences"], answer["weights"]), ([], []))
        self.assertEqual(before, sorted(glob.glob(self.path("out/**"), recursive=True)))
        for weights in glob.glob(self.path("out/weights/*")):
            os.remove(weights)
        self.assertIn("no weights to compare", self.repro(0, "out", run_id).stdout)

    def test_damaged_weights_are_not_compared(self):
        for path in glob.glob(self.path("out/weights/*")):
            with open(path, "ab") as file:
                file.write(b"x")
        run_id = self.cells("train")[0]["run_id"]
        self.assertIn("no weights to compare", self.repro(0, "out", run_id).stdout)

    def test_what_cannot_run_again(self):
        speed = self.cells("throughput")[0]["run_id"]
        self.assertIn("measures speed", self.repro(2, "out", speed).stderr)
        self.assertIn("no cell of out", self.repro(2, "out", "mqar/gla seed 0").stderr)
        self.assertEqual(self.repro(3, "nowhere", "0123").stderr.count("\n"), 1)
        run_id = self.cells("train")[0]["run_id"]
        os.remove(self.path(f"out/cells/{run_id[7:23]}/result.json"))
        self.assertIn("is interrupted", self.repro(6, "out", run_id).stderr)


if __name__ == "__main__":
    unittest.main()
