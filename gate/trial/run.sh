#!/usr/bin/env bash
# run.sh BASE_PROGRAM PLANTED_PROGRAM OUT: trains with every planted fault and refactor and prints the
# exit code of the gate for each: 1 is wanted for 1..20, 0 for 101..120. PLANTED_PROGRAM is a build of
# sources that plant.py rewrote.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(cd -- "$(dirname -- "$0")" && pwd)
mkdir -p -- "$3"
"$1" run "$here/suite.json" -o "$3/base" -q --device cpu >&2
for number in $(seq 1 20) $(seq 101 120); do
  MIXERBENCH_PLANTED=$number "$2" run "$here/suite.json" -o "$3/$number" -q --device cpu >&2
  code=0
  "$1" compare "$3/base" "$3/$number" --gate smoke >"$3/$number.txt" || code=$?
  printf '%s %s\n' "$number" "$code"
done
