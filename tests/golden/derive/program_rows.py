"""Rows as the program under test generates them. The program is the first argument of the test.

SPDX-License-Identifier: Apache-2.0
"""

import functools
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv.pop(1))
IGNORE = -100


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


@functools.cache
def facts(*arguments):
    """The answer of `list` or `describe`."""
    return json.loads(run(*arguments, "--json"))


def settings_of(options):
    """--set for each option."""
    for name, value in options.items():
        yield f"--set={name}={json.dumps(value) if isinstance(value, bool) else value}"


def lines_of(folder, part):
    for entry in part["files"]:
        with open(os.path.join(folder, entry["name"]), encoding="utf-8") as file:
            yield from map(json.loads, file)


def parts_of(what, count, labels="scored", **flags):
    """The manifest of a data set, and for each of its parts the entry there and the rows.

    Rows are read when they are asked for, before the next part."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        out = os.path.join(folder, "rows.jsonl")
        flags = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        run("generate", *what, "--count", str(count), "--labels", labels, "-o", out, *flags)
        with open(out + ".manifest.json", encoding="utf-8") as file:
            manifest = json.load(file)
        for part in manifest["parts"]:
            yield manifest, part, lines_of(folder, part)


def rows_of(task, count, split="train", seed=1, **options):
    """Rows 0 .. count-1 of a task."""
    lines = run("generate", task, *settings_of(options), "--count", str(count), "--split", split, "--seed", str(seed))
    return [json.loads(line) for line in lines.splitlines()]
