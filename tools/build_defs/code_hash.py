"""Hashes of the code behind each unit, comments and layout aside.

code_hash.py GRAPH SOURCE LISTING HEADER FUNCTION

GRAPH is the JSON that code_hash.bzl writes: {"units": {name: [label]}, "libraries": [{"label",
"lists_units", "files", "headers", "deps"}]}. SOURCE becomes a .cc file that defines FUNCTION, declared in HEADER; LISTING
the files behind each hash.

What a library uses of those that it links shows in its includes: without a header there is nothing to
call. Libraries without headers are linked for the sake of others' headers, so they count for whoever
links them. A library counts as a whole, its headers and its sources.
SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import json
import re
import sys

CODE = (".c", ".cc", ".cu", ".cuh", ".h")

_LITERAL = r"""(?:u8|[uUL])?(?:R"(?P<end>[^()\\\s]*)\([\s\S]*?\)(?P=end)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
# Leftmost match wins, so a comment inside a string is none, nor a quote inside a comment or a number.
_COMMENT = re.compile(rf"""(?P<kept>{_LITERAL}|[0-9][\w.']*)|//(?:\\\n|[^\n])*|/\*[\s\S]*?\*/|\\\n""")
_TOKEN = re.compile(
    r"""(?m:^[ \t]*\#.*$)|"""  # a directive, in which spaces can matter: `#define A (x)`
    + _LITERAL
    + r"""|\.?[0-9](?:[eEpP][+-]|[\w.'])*|[A-Za-z_$][\w$]*"""
    r"""|<=>|<<=|>>=|->\*|\.\.\.|::|->|\.\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\S"""
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def normalise(text):
    """The tokens of C++ source, one a line: what comments, line breaks and indentation do not change."""
    text = _COMMENT.sub(lambda match: match["kept"] or " ", text)
    tokens = (match.group() for match in _TOKEN.finditer(text))
    return "\n".join(" ".join(t.split()) if t.lstrip().startswith("#") else t for t in tokens)


def file_digest(path):
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(CODE):
        content = normalise(content.decode("utf-8")).encode("utf-8")
    return hashlib.sha256(content).hexdigest()


def read_includes(path):
    if not path.endswith(CODE):
        return []
    with open(path, encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


class Graph:
    """Libraries by label, and what each uses of the others."""

    def __init__(self, libraries, includes_of=read_includes):
        self.libraries = {library["label"]: library for library in libraries}
        self.includes_of = includes_of
        self.owners = {}  # of each header: a folder can offer one by several libraries
        for library in libraries:
            for header in library["headers"]:
                self.owners.setdefault(header, []).append(library["label"])
        self.reached = {}

    def reach(self, label):
        """All that a library links, itself included."""
        if label not in self.reached:
            self.reached[label] = {label}
            for dep in self.libraries[label]["deps"]:
                self.reached[label] |= self.reach(dep)
        return self.reached[label]

    def used(self, label):
        library = self.libraries[label]
        if library["lists_units"]:
            return
        yield from (dep for dep in library["deps"] if not self.libraries[dep]["headers"])
        for path in library["files"]:
            for include in self.includes_of(path):
                yield from (owner for owner in self.owners.get(include, []) if owner in self.reach(label))

    def closure(self, labels):
        """The libraries that the given ones use by any number of steps, themselves included."""
        found, pending = set(), list(labels)
        while pending:
            label = pending.pop()
            if label not in found:
                found.add(label)
                pending += self.used(label)
        return found

    def files(self, labels):
        return sorted({path for label in self.closure(labels) for path in self.libraries[label]["files"]})


def unit_digest(paths, digest=file_digest):
    lines = "".join(f"{digest(path)}  {path}\n" for path in paths)
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def write_source(hashes, header, function):
    namespace, _, name = function.rpartition("::")
    cases = [f'  if (unit == "{unit}") return "{digest}";' for unit, digest in sorted(hashes.items())]
    return "\n".join(
        [
            f'#include "{header}"',
            f"namespace {namespace} {{",
            f"std::string_view {name}(std::string_view unit) {{",
            *(cases or ["  (void)unit;"]),
            "  return {};",
            "}",
            f"}}  // namespace {namespace}",
            "",
        ]
    )


def main(graph_path, source_path, listing_path, header, function):
    with open(graph_path, encoding="utf-8") as file:
        graph_json = json.load(file)
    graph = Graph(graph_json["libraries"])
    digests = {}

    def digest(path):
        if path not in digests:
            digests[path] = file_digest(path)
        return digests[path]

    files = {unit: graph.files(labels) for unit, labels in graph_json["units"].items()}
    hashes = {unit: unit_digest(paths, digest) for unit, paths in files.items()}
    with open(source_path, "w", encoding="utf-8") as out:
        out.write(write_source(hashes, header, function))
    with open(listing_path, "w", encoding="utf-8") as out:
        for unit, paths in sorted(files.items()):
            out.write(f"{unit} {hashes[unit]}\n" + "".join(f"  {path}\n" for path in paths))


if __name__ == "__main__":
    main(*sys.argv[1:])
