"""The options in docs/CLI.md against what --help says. SPDX-License-Identifier: Apache-2.0"""

import re
import unittest

from program import ProgramTest

PAGE = "docs/CLI.md"


def options_in(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[a-z])(?![\w-])", text))


def rows_of(page):
    """The options of each command in the page's table of them."""
    rows = {}
    for line in page.split("\n## Options\n")[1].split("\n## ")[0].splitlines():
        row = re.fullmatch(r"\| (.*?) \|(.*)\|", line)
        if not row:
            continue
        commands, options = row.groups()
        for name in re.findall(r"`([^`]+)`", commands):
            rows["" if name == "mixerbench" else name] = options_in(options)
    return rows


class OptionsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        with open(PAGE, encoding="utf-8") as file:
            self.page = file.read()

    def options_of_help(self):
        """By command; of those that have commands of their own only `mixerbench` itself has options."""
        options, paths = {}, [[]]
        while paths:
            path = paths.pop()
            text = self.expect(0, *path, "--help").stdout
            own = re.findall(r"^  (-[^ {\n]+)", text, re.MULTILINE)
            options[" ".join(path)] = {name for group in own for name in group.split(",")} - {"-h", "--help"}
            commands = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.MULTILINE)
            for command in re.findall(r"^  (\S+)", commands.group(1), re.MULTILINE) if commands else []:
                paths.append([*path, command])
        return options

    def test_the_table_has_every_option_of_every_command_and_no_other(self):
        rows = rows_of(self.page)
        help_options = self.options_of_help()
        self.assertGreater(len(help_options), 20)
        for command, options in help_options.items():
            if command in ("mixer", "core"):
                self.assertEqual(options, set())
                continue
            self.assertEqual(sorted(rows[command]), sorted(options), command)
        self.assertEqual(set(rows) - set(help_options), set())

    def test_no_option_stands_anywhere_on_the_page_that_no_command_has(self):
        known = set().union(*self.options_of_help().values()) | {"--help"}
        foreign = {"--partition"} | self.left_out()  # sbatch's
        self.assertEqual({o for o in options_in(self.page) if o.startswith("--")} - known - foreign, set())

    def left_out(self):
        """The page names them to say that no command has them."""
        named = options_in(self.page.split("\n## What is left out\n")[1].split("\n## ")[0])
        return named & {"--allow-comments", "--color", "--config", "--resume", "--rules", "--trust", "-c", "-v"}

    def test_what_is_left_out_is_not_there(self):
        self.assertEqual(len(self.left_out()), 8)
        known = set().union(*self.options_of_help().values())
        self.assertEqual(self.left_out() & known, set())
        self.assertNotIn("--dtype", self.options_of_help()["run"])
        refused = self.expect(2, "validate", "quickstart", "--set", "task.seq_len=64").stderr
        self.assertIn("unknown parameter 'seq_len'; known: vocab_size, input_seq_len", refused)

    def test_what_the_program_does_not_have_is_found(self):
        rows = rows_of("\n## Options\n\n| command | options |\n|---|---|\n| `run` | `--out` (`-o`), `--gone` |\n\n## Next\n")
        self.assertEqual(rows, {"run": {"--out", "-o", "--gone"}})


if __name__ == "__main__":
    unittest.main()
