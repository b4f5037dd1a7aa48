"""Starting the program under test. SPDX-License-Identifier: Apache-2.0"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None

# Seconds on one core: two mixers, two seeds, a speed curve of two lengths.
TINY_SUITE = {
    "schema_version": "1.0",
    "name": "tiny",
    "task": {
        "name": "mqar",
        "vocab_size": 64,
        "noise": "zero",
        "train": {"input_seq_len": [16, 24], "num_kv_pairs": [2, 3], "num_examples": 64},
        "validation": {"num_examples": 32},
        "test": {"input_seq_len": [16, 32], "num_kv_pairs": [2, 3], "num_examples": 40},
    },
    "model": {"backbone": "zoology", "d_model": 16, "n_layers": 2},
    "train": {"recipe": "zoology", "lr": 0.003, "batch_size": 16, "num_epochs": 3},
    "sweep": {
        "grid": {"model.sequence_mixer": [{"name": "attention"}, {"name": "delta_net"}]}
    },
    "seeds": {"count": 2},
    "throughput": {"seq_len": [16, 32], "batch_size": 2, "num_samples": 3},
}


def tiny_suite():
    return copy.deepcopy(TINY_SUITE)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def run_program(self, *arguments, environment=None):
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder.name,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def expect(self, code, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stderr}")
        return result
