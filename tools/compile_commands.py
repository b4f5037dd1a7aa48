#!/usr/bin/env python3
"""Writes compile_commands.json for clangd and clang-tidy from Bazel's own compile actions.

Usage: tools/compile_commands.py [TARGET_PATTERN]    (default //...; build it first, so that
generated files exist)
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys


# Options of gcc that clang does not know.
GCC_ONLY = {"-fno-canonical-system-headers", "-Wno-free-nonheap-object"}


def bazel(*arguments):
    return subprocess.run(
        ["bazel", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def entries(actions, workspace, execution_root):
    """One entry per source file; the test and the program of a file compile it alike."""
    by_file = {}
    for action in actions:
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        path = os.path.join(workspace, source)
        by_file[source] = {
            "directory": execution_root,
            "file": path if os.path.exists(path) else os.path.join(execution_root, source),
            "arguments": [argument for argument in arguments if argument not in GCC_ONLY],
        }
    return [by_file[source] for source in sorted(by_file)]


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else "//..."
    workspace = bazel("info", "workspace").strip()
    execution_root = bazel("info", "execution_root").strip()
    graph = json.loads(bazel("aquery", 'mnemonic("CppCompile", %s)' % pattern, "--output=jsonproto"))
    commands = entries(graph["actions"], workspace, execution_root)
    target = os.path.join(workspace, "compile_commands.json")
    with open(target, "w", encoding="utf-8") as out:
        json.dump(commands, out, indent=1)
        out.write("\n")
    print("%s: %d files" % (target, len(commands)))


if __name__ == "__main__":
    main()
