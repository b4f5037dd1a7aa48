#!/usr/bin/env bash
# gate.sh BASE NEW OUT [SUITE]: smoke, gate and summary for two checkouts of this project, in at most
# ten minutes of one GPU (the builds come on top). The verdict is in OUT/verdict; the exit code is
# that of `compare` (docs/GATE.md): 0 pass, 1 regression, 5 inconclusive, 6 missing or not comparable.
#
# MIXERBENCH_DEVICE  cuda[:i], cpu or auto (default)
# GATE               preset or file of settings (default nightly)
# GATE_MINUTES       limit of everything after the builds (default 10)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

if (($# < 3 || $# > 4)); then
  sed -n '2,9s/^# \{0,1\}//p' -- "$0" >&2
  exit 2
fi
base=$(cd -- "$1" && pwd)
new=$(cd -- "$2" && pwd)
mkdir -p -- "$3/verdict"
out=$(cd -- "$3" && pwd)
suite=${4:-$new/docs/ci/gate-suite.json}
device=${MIXERBENCH_DEVICE:-auto}
export MIXERBENCH_DEVICE=$device

say() { printf '== %s\n' "$*" >&2; }

# The entry script of a checkout is its program: it builds on first use.
say "building"
base_program=$base/mixerbench
new_program=$new/mixerbench
"$base_program" version >&2
"$new_program" version >&2

deadline=$((SECONDS + 60 * ${GATE_MINUTES:-10}))
# Runs a command for what is left of the time; 75 when there is none.
in_time() {
  local left=$((deadline - SECONDS))
  ((left > 0)) || { say "out of time before: $*"; return 75; }
  timeout --signal=TERM --kill-after=30 "$left" "$@"
}

# Cells that failed (4) are results too; they count as unsolved.
run_cells() {
  local code=0
  in_time "$@" >&2 || code=$?
  ((code == 0 || code == 4)) || exit "$code"
}

say "smoke: the first steps, loss by loss"
for side in base new; do
  program=${side}_program
  run_cells "${!program}" run "$suite" --seeds 1 -o "$out/smoke-$side" -q
done
in_time "$new_program" compare "$out/smoke-base" "$out/smoke-new" --gate smoke \
  --verdict "$out/verdict/smoke.json" --junit "$out/verdict/smoke.xml" \
  ${GITHUB_STEP_SUMMARY:+--github-summary} || {
  code=$?
  say "smoke failed with exit code $code: the gate is not run"
  exit "$code"
}

say "gate: seeds, then pairs of processes"
for side in base new; do
  program=${side}_program
  run_cells "${!program}" run "$suite" -o "$out/$side" -q
done
in_time "$new_program" compare "$out/base" "$out/new" --gate "${GATE:-nightly}" \
  --base-program "$base_program" --top-up --measure "$suite" --pairs "$out/pairs" \
  --verdict "$out/verdict/verdict.json" --html "$out/verdict/compare.html" \
  --markdown "$out/verdict/compare.md" --junit "$out/verdict/gate.xml" \
  ${GITHUB_STEP_SUMMARY:+--github-summary}
