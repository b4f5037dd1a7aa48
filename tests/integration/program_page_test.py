"""What the program says of itself: its manual page and its versions.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
import unittest

from program import PROGRAM, ProgramTest


def options_of(text):
    """The names in the tags of a page's paragraphs."""
    return {name for tag in re.findall(r"^\.TP\n(.*)", text, re.MULTILINE) for name in re.findall(r"\\fB(-[^\\]\S*?)\\fR", tag.replace("\\-", "-"))}


class ProgramPageTest(ProgramTest):
    def commands_of_help(self):
        """{path: options} of every command."""
        options, paths = {}, [[]]
        while paths:
            path = paths.pop()
            text = self.expect(0, *path, "--help").stdout
            own = re.findall(r"^  (-[^ {\n]+)", text, re.MULTILINE)
            options[" ".join(["mixerbench", *path])] = {name for group in own for name in group.split(",")}
            commands = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.MULTILINE)
            for command in re.findall(r"^  (\S+)", commands.group(1), re.MULTILINE) if commands else []:
                paths.append([*path, command])
        return options

    def test_the_manual_page_has_every_option_of_every_command(self):
        page = self.expect(0, "man").stdout
        head, *sections = re.split(r"^\.SS ", page, flags=re.MULTILINE)
        found = {"mixerbench": options_of(head)}
        for section in sections:
            name = re.match(r"\\fB(.*?)\\fR", section).group(1).replace("\\-", "-")
            found[name] = options_of(section)
        self.assertEqual(found, self.commands_of_help())
        self.assertIn("One of: merge, replace.", page)
        self.assertIn("Also by \\fBMIXERBENCH_DEVICE\\fR.", page)

    def test_the_manual_page_is_roff(self):
        page = self.expect(0, "man").stdout
        known = (".TH ", ".SH ", ".SS ", ".TP")
        for line in page.splitlines():
            self.assertTrue(line and (not line.startswith((".", "'")) or line.startswith(known)), line)
            self.assertEqual(re.sub(r"\\(f[BIR]|e|-|&)", "", line).count("\\"), 0, line)

    def test_versions_name_every_library_that_the_programs_load(self):
        version = json.loads(self.expect(0, "version", "--json").stdout)
        prefixes = tuple(file for library in version["libraries"] for file in library["files"])
        self.assertTrue(all(library["licence"] for library in version["libraries"]))
        loaded = set()
        for program in (PROGRAM, os.path.join(os.path.dirname(PROGRAM), "mixerbench-engine")):
            output = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            loaded |= {os.path.basename(line.split()[0]) for line in output.splitlines()}
        self.assertTrue(any(name.startswith("libtorch") for name in loaded), loaded)
        self.assertEqual([name for name in loaded if not name.startswith(prefixes + ("linux-vdso",))], [])

    def test_schema_versions_are_those_of_the_schemas(self):
        version = json.loads(self.expect(0, "version", "--json").stdout)
        self.assertEqual(set(version["schema_versions"]), {"cell", "comparison", "dataset", "leaderboard", "report", "score"})
        self.expect(0, "generate", "mqar/tiny", "-o", "d.npy")
        self.assertEqual(version["schema_versions"]["dataset"], self.read_json("d.npy.manifest.json")["schema_version"])
        self.assertEqual(set(version["build_flags"]), {"assertions", "cuda", "cxx_standard", "sanitizer"})


if __name__ == "__main__":
    unittest.main()
