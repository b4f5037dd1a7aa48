"""The completion script of bash, run by bash, against what --help says.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import unittest

from program import ProgramTest

# Completes the words that it is given as bash would, the last of them begun.
COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$(complete -p mixerbench | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


class CompletionTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("script", self.expect(0, "completion", "bash").stdout)

    def complete(self, *words):
        result = subprocess.run(
            ["bash", "-c", COMPLETE, "bash", self.path("script"), "mixerbench", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def help_of(self, path):
        """The commands and the options that --help lists."""
        sections = re.split(r"\n(?=[A-Z][a-z]+:)", self.expect(0, *path, "--help").stdout)
        commands, options = [], []
        for section in sections:
            if section.startswith("Subcommands:"):
                commands = re.findall(r"^  (\S+)", section, re.MULTILINE)
            if section.startswith("Options:"):
                names = re.findall(r"^  (-\S+)", section, re.MULTILINE)
                options = [name.split("{")[0] for group in names for name in group.split(",")]
        return commands, options

    def test_every_command_and_option_is_that_of_the_help(self):
        paths = [[]]
        while paths:
            path = paths.pop()
            commands, options = self.help_of(path)
            self.assertTrue(options, path)
            self.assertEqual(sorted(self.complete(*path, "-")), sorted(options), path)
            if commands:
                self.assertEqual(sorted(self.complete(*path, "")), sorted(commands))
            paths += [path + [command] for command in commands]
        self.assertNotIn("worker", self.complete(""))

    def test_values(self):
        self.assertEqual(self.complete("run", "--keep-weights", ""), ["none", "final"])
        self.assertEqual(self.complete("run", "--keep-weights", "=", "f"), ["final"])
        self.assertEqual(self.complete("report", "out", "--format", "="), self.complete("report", "--format", ""))
        self.assertEqual(self.complete("schema", "re"), ["report"])
        self.assertEqual(self.complete("describe", "coll"), ["collection"])
        self.assertIn("presets", self.complete("list", "--json", ""))

    def test_files_where_any_word_may_stand(self):
        for words in (
            ["run", ""],
            ["run", "--out", ""],
            ["run", "-s", "tr"],
            ["report", "--format", "md", ""],
            ["list", "tasks", ""],
            ["describe", "mixer", "gl"],
            ["no-command", ""],
        ):
            self.assertEqual(self.complete(*words), [], words)
        self.assertEqual(self.complete("run", "--out", "run", "--dry"), ["--dry-run"])

    def test_other_shells(self):
        for shell in ("zsh", "fish"):
            script = self.expect(0, "completion", shell).stdout
            for word in ("keep-weights", "none final", "leaderboard"):
                self.assertIn(word, script)
        self.assertIn("csh not in", self.expect(2, "completion", "csh").stderr)


if __name__ == "__main__":
    unittest.main()
