"""Starting the program under test. SPDX-License-Identifier: Apache-2.0"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from runs import tiny_suite  # noqa: E402,F401  # tests take it from here

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None


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
