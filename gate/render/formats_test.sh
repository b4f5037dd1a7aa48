#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Judges the outputs of a comparison, and the JUnit form of a run, with programs of others: JUnit with xmllint and a schema that
# is stricter than Ant's and Jenkins's, JSON with Python's jsonschema, the page with Python's parser.
# Needs Debian's libxml2-utils and python3-jsonschema; fails without them.
# Arguments: the program, the schema of JUnit, the schema of a comparison.
set -euo pipefail
outputs=${TEST_TMPDIR:?}/outputs
mkdir -p "$outputs"
"$1" "$outputs"

for file in "$outputs"/*.xml; do
  xmllint --noout --nonet --schema "$2" "$file"
done

/usr/bin/python3 - "$outputs" "$3" <<'PYTHON'
import html.parser
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

import jsonschema

folder, schema_file = map(pathlib.Path, sys.argv[1:])
schema = json.loads(schema_file.read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


VOID = {"meta", "input", "br", "link"}


class Page(html.parser.HTMLParser):
    """Elements that open and close in order, and what could act."""

    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.problems = [], 0, []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name.startswith("on") or name == "style" or (value or "").lower().startswith("javascript:"):
                self.problems.append(f"<{tag} {name}>")
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> out of order")


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


for name in ("example", "hostile"):
    document = json.loads((folder / f"{name}.json").read_text(), parse_constant=refuse_constant)
    errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(document)]
    check(not errors, f"{name}.json against its schema: {errors[:3]}")
    check(len(document["rows"]) >= 15, f"{name}.json has rows")
    for broken in ({**document, "exit_code": 3}, {k: v for k, v in document.items() if k != "rows"}):
        check(not validator.is_valid(broken), "the schema refuses what it should")

    suites = xml.etree.ElementTree.parse(folder / f"{name}.xml").getroot()
    cases = suites.findall(".//testcase")
    check(len(cases) == len(document["rows"]), f"{name}.xml has a case per row")
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        stated = sum(int(suite.get(attribute)) for suite in suites)
        check(stated == len(suites.findall(f".//{tag}")), f"{name}.xml counts its {attribute}")
    check(any(c.find("failure") is not None for c in cases), f"{name}.xml has failures")

    suites = xml.etree.ElementTree.parse(folder / f"{name}-run.xml").getroot()
    check(len(suites.findall(".//testcase")) == 9, f"{name}-run.xml has a case per cell")
    for tag, number in (("failure", 0), ("error", 4), ("skipped", 4)):
        check(len(suites.findall(f".//{tag}")) == number, f"{name}-run.xml has {number} {tag}")

    page = Page()
    page.feed((folder / f"{name}.html").read_text())
    check(not page.problems and not page.open, f"{name}.html: {page.problems[:3]} {page.open[:3]}")
    check(page.scripts <= 1, f"{name}.html has its own script alone")

    for form in ("md", "txt"):
        text = (folder / f"{name}.{form}").read_text()
        check(not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text), f"{name}.{form} has no control characters")
    check("<script>" not in (folder / f"{name}.md").read_text(), f"{name}.md has no markup of others")
print("all formats hold")
PYTHON
