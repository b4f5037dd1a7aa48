"""What stands behind the code hashes of the real program (tools/build_defs/code_hash.py has the rules,
and a test of its own). SPDX-License-Identifier: Apache-2.0
"""

import sys
import unittest

UNIT_FOLDERS = ["models/mixers", "models/backbones", "tasks"]


def read_listing(path):
    """{unit: set of files} of one code_hashes.txt."""
    units = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("  "):
                files.add(line.strip())
            else:
                files = units.setdefault(line.split()[0], set())
    return units


HARNESS, *LISTINGS = [read_listing(path) for path in sys.argv[1:]]
sys.argv[1:] = []
MIXERS = LISTINGS[0]


def sources_below(folder, files):
    return {f for f in files if f.startswith(folder + "/") and f.endswith(".cc")}


class CodeClosureTest(unittest.TestCase):
    def test_every_unit_has_its_own_sources_and_no_test(self):
        for folder, units in zip(UNIT_FOLDERS, LISTINGS):
            self.assertTrue(units)
            for unit, files in units.items():
                self.assertTrue(sources_below(f"{folder}/{unit}", files), unit)
                self.assertFalse([f for f in files if f.endswith("_test.cc")], unit)

    def test_no_unit_has_the_sources_of_another(self):
        for folder, units in zip(UNIT_FOLDERS, LISTINGS):
            for unit, files in units.items():
                for other in units.keys() - {unit}:
                    self.assertFalse(sources_below(f"{folder}/{other}", files), f"{unit}, {other}")

    def test_a_mixer_has_the_cores_it_calls_and_no_others(self):
        def cores(mixer):
            parts = (f.split("/") for f in MIXERS[mixer])
            return {p[-2] for p in parts if p[0] == "kernels" and p[-1] == f"{p[-2]}_reference.cc"}

        self.assertEqual(cores("base_conv"), set())
        self.assertEqual(cores("hybrid"), set())
        self.assertEqual(len(cores("attention")), 1)
        self.assertEqual(len(cores("gla")), 1)
        self.assertNotEqual(cores("attention"), cores("gla"))

    def test_training_has_no_unit(self):
        files = HARNESS["training"]
        for expected in ["optimizer.cc", "trainer.cc", "train.cc", "evaluate.cc", "throughput.cc"]:
            self.assertTrue([f for f in files if f.endswith("/" + expected)], expected)
        for folder, units in zip(UNIT_FOLDERS, LISTINGS):
            for unit in units:
                self.assertFalse(sources_below(f"{folder}/{unit}", files), unit)


if __name__ == "__main__":
    unittest.main()
