"""The commands of README.md, docs/CLI.md and docs/DATA.md that train nothing, run as they stand there.

SPDX-License-Identifier: Apache-2.0
"""

import json
import math
import os
import re
import shutil
import subprocess
import unittest

from program import PROGRAM, ProgramTest, tiny_suite
from safetensors_file import write_safetensors

TOKENIZER = os.path.abspath("tasks/text/data/sqtok.model")
RUNS_NOTHING = {"list", "describe", "generate", "export", "verify", "score", "mixer", "core", "slurm"}
SLOW = {"./mixerbench verify mqar"}  # twenty seconds; its presets one by one are tests of their own


def read(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


def blocks_of(page, language):
    """What its fences of this language hold."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    return [text for name, text in fences if name == language]


def commands_of(page):
    """The lines of its code blocks that start the program, without comments."""
    lines = [line for block in blocks_of(page, "") for line in block.replace("\\\n", " ").splitlines()]
    commands = [re.sub(r"\s+# .*", "", line).strip() for line in lines if line.startswith("./mixerbench ")]
    return [c for c in commands if (c.split()[1] in RUNS_NOTHING or "--dry-run" in c) and c not in SLOW]


class PageCommandsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.pages = {page: commands_of(page) for page in ("README.md", "docs/CLI.md", "docs/DATA.md")}
        os.symlink(PROGRAM, self.path("mixerbench"))

    def run_command(self, command):
        shell = ["bash", "-o", "pipefail", "-c", command]
        result = subprocess.run(shell, cwd=self.folder.name, capture_output=True, text=True, check=False)
        # A reader that has enough, as `head`, is no failure.
        self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")

    def run_page(self, page, at_least):
        self.assertGreaterEqual(len(self.pages[page]), at_least)
        for command in self.pages[page]:
            if " score " in command:
                self.write_responses()
            self.run_command(command)

    def write_responses(self):
        """To the page's own export: predictions a, b and pred; every file of references is a copy of it."""
        with open(self.path("niah.jsonl"), encoding="utf-8") as file:
            references = [json.loads(line) for line in file]
        for k, name in enumerate(("pred", "a0", "a1", "a2", "b0", "b1", "b2")):
            answers = ({"index": r["index"], "pred": r["answer"] if (r["index"] + k) % 3 else " none"} for r in references)
            self.write(name + ".jsonl", "".join(json.dumps(answer) + "\n" for answer in answers))
        for k in range(3):
            shutil.copy(self.path("niah.jsonl"), self.path(f"r{k}.jsonl"))

    def test_readme(self):
        self.run_page("README.md", 7)

    def test_command_line(self):
        self.write("sweep.json", tiny_suite())
        shapes = {"x": [2, 5, 64], "grad.y": [2, 5, 64], "param.decay_proj.weight": [32, 16],
                  "param.decay_proj.bias": [32], "param.in_proj.weight": [208, 64], "param.o_norm.weight": [32],
                  "param.o_proj.weight": [64, 64]}
        write_safetensors(self.path("in.safetensors"),
                          {name: (shape, [0.01] * math.prod(shape)) for name, shape in shapes.items()})
        self.run_page("docs/CLI.md", 7)

    def test_data(self):
        self.write("essays.txt", "".join(f"The {k} ships of the harbour sail at noon.\n" for k in range(2000)))
        shutil.copy(TOKENIZER, self.path("my.model"))
        self.run_page("docs/DATA.md", 11)
        (task_file,) = blocks_of("docs/DATA.md", "yaml")
        (data,) = re.findall(r"test: ([\w.-]+\.jsonl)", task_file)
        self.assertTrue(os.path.exists(self.path(data)), data)


if __name__ == "__main__":
    unittest.main()
