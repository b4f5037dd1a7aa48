#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Judges the examples of write_examples with Python's jsonschema, a second implementation.
# Needs Debian's python3-jsonschema; fails without it.
# Arguments: the program, the schemas of a cell, a report, a leaderboard, a score and a data set.
set -euo pipefail
examples="${TEST_TMPDIR:?}/examples"
"$1" "${examples}"
exec /usr/bin/python3 - "${examples}" "${@:2}" <<'PYTHON'
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    sys.exit("python3-jsonschema is not installed: apt-get install python3-jsonschema")

folder, *files = map(pathlib.Path, sys.argv[1:])
cell, report, leaderboard, score, dataset = (json.loads(file.read_text()) for file in files)
for schema in (cell, report, leaderboard, score, dataset):
    jsonschema.Draft7Validator.check_schema(schema)
resolver = jsonschema.RefResolver("", report, store={"cell-1.schema.json": cell})
validators = {
    "cell": jsonschema.Draft7Validator(cell),
    "report": jsonschema.Draft7Validator(report, resolver=resolver),
    "leaderboard": jsonschema.Draft7Validator(leaderboard),
    "score": jsonschema.Draft7Validator(score),
    "dataset": jsonschema.Draft7Validator(dataset),
}
wrong = 0
judged = {"valid": 0, "invalid": 0}
for file in sorted(folder.glob("*/*/*.json")):
    expected = file.parent.name
    found = "valid" if validators[file.parent.parent.name].is_valid(json.loads(file.read_text())) else "invalid"
    judged[found] += 1
    if found != expected:
        wrong += 1
        print(f"{file.name}: expected {expected}, found {found}")
print(judged)
if wrong or judged["valid"] < 10 or judged["invalid"] < 43:
    sys.exit(1)
PYTHON
