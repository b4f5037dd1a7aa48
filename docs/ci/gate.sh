#!/usr/bin/env bash
# gate.sh BASE NEW OUT [SUITE]: smoke, gate and summary for two checkouts of this project, in at most
# ten minutes of one GPU (the builds come on top). The verdict is in OUT/verdict; its files name the
# sides "base" and "new" and tell no path of this machine. The exit code is that of `compare`
# (docs/GATE.md): 0 pass, 1 regression, 5 inconclusive, 6 missing or not comparable; 75 out of time, and
# the same command continues; 2 wrong arguments, 8 OUT cannot be made; else as in docs/CLI.md.
#
# MIXERBENCH_DEVICE  cuda[:i], cpu or auto (default); a CPU needs a smaller SUITE
# GATE               preset or file of settings (default nightly)
# GATE_MINUTES       limit of everything after the builds (default 10)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

say() { printf '== %s\n' "$*" >&2; }
die() {  # die CODE MESSAGE
  printf 'gate.sh: %s\n' "$2" >&2
  exit "$1"
}

if (($# < 3 || $# > 4)); then
  sed -n '2,/^# SPDX/{/^# SPDX/!s/^# \{0,1\}//p}' -- "$0" >&2
  exit 2
fi
for checkout in "$1" "$2"; do
  [[ -x $checkout/mixerbench ]] || die 2 "$checkout: no checkout of this project, which has ./mixerbench"
done
base_program=$(cd -- "$1" && pwd)/mixerbench
new_program=$(cd -- "$2" && pwd)/mixerbench
# Files of the caller, who is elsewhere from here on; other words are built-in names.
whole() { if [[ -f $1 ]]; then realpath -- "$1"; else printf '%s\n' "$1"; fi; }
suite=$(whole "${4:-$2/docs/ci/gate-suite.json}")
gate=$(whole "${GATE:-nightly}")
export MIXERBENCH_DEVICE=${MIXERBENCH_DEVICE:-auto}
[[ -z ${GITHUB_STEP_SUMMARY:-} ]] || GITHUB_STEP_SUMMARY=$(realpath -m -- "$GITHUB_STEP_SUMMARY")
mkdir -p -- "$3/verdict" || die 8 "$3: cannot be made"
cd -- "$3"

# The entry script of a checkout is its program: it builds on first use.
say "building"
"$base_program" version >&2
"$new_program" version >&2

deadline=$((SECONDS + 60 * ${GATE_MINUTES:-10}))
# Runs a command for what is left of the time; 75 when there is none, or when it ends meanwhile.
in_time() {
  local left=$((deadline - SECONDS)) code=0
  ((left > 0)) || { say "out of time before: $*"; return 75; }
  timeout --signal=TERM --kill-after=30 "$left" "$@" || code=$?
  # 124 is timeout's own code, 137 that of a command which did not end in the 30 s after.
  ((code == 124 || (code == 137 && SECONDS >= deadline))) || return "$code"
  say "out of time in: $*"
  return 75
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
  run_cells "${!program}" run "$suite" --seeds 1 -o "smoke-$side" -q
done
in_time "$new_program" compare smoke-base smoke-new --gate smoke \
  --verdict verdict/smoke.json --junit verdict/smoke.xml \
  ${GITHUB_STEP_SUMMARY:+--github-summary} || {
  code=$?
  say "smoke failed with exit code $code: the gate is not run"
  exit "$code"
}

say "gate: seeds, then pairs of processes"
for side in base new; do
  program=${side}_program
  run_cells "${!program}" run "$suite" -o "$side" -q
done
in_time "$new_program" compare base new --gate "$gate" \
  --base-program "$base_program" --top-up --measure "$suite" --pairs pairs \
  --verdict verdict/verdict.json --html verdict/compare.html \
  --markdown verdict/compare.md --junit verdict/gate.xml \
  ${GITHUB_STEP_SUMMARY:+--github-summary}
