"""The faults still fit the sources. SPDX-License-Identifier: Apache-2.0"""

import pathlib
import unittest

import plant_on_gpu


class PlantOnGpuTest(unittest.TestCase):
    def test_each_fault_has_its_place(self):
        for fault in plant_on_gpu.FAULTS:
            with self.subTest(fault):
                path, text = plant_on_gpu.planted(fault, pathlib.Path.cwd())
                self.assertNotEqual(path.read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    unittest.main()
