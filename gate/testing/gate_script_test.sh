#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/ci/gate.sh with checkouts whose program writes down how it was started: what it passes on, and
# with which code it ends. Argument: the script.
set -euo pipefail
script=$(realpath "$1")
work=${TEST_TMPDIR:?}/gate
mkdir -p "$work/a" "$work/b"
cd "$work"

cat > a/mixerbench <<'PROGRAM'
#!/bin/bash
printf '%s|%s|%s|%s\n' "$(basename "$(dirname "$0")")" "$PWD" "${GITHUB_STEP_SUMMARY:-}" "$*" >> "$CALLS"
[[ $* == *"${SLOW_AT:-never}"* ]] && exec sleep 60
[[ $* == *"${FAIL_AT:-never}"* ]] && exit "$FAIL_WITH"
exit 0
PROGRAM
chmod +x a/mixerbench
cp a/mixerbench b/mixerbench
echo '{}' > suite.json
echo '{}' > gate.json
export CALLS=$work/calls

# gate CODE [NAME=VALUE...] -- ARGUMENTS: must end with that code; what it said is in `said`.
gate() {
  local want=$1 code=0 settings=()
  shift
  while [[ $1 != -- ]]; do settings+=("$1"); shift; done
  shift
  rm -f "$CALLS"
  env "${settings[@]}" "$script" "$@" >said 2>&1 || code=$?
  ((code == want)) || { echo "exit code $code instead of $want: ${settings[*]} $*"; cat said; exit 1; }
}
fail() { echo "$1"; cat said; cat "$CALLS" 2>/dev/null; exit 1; }

# Relative names of the caller arrive, and nothing that ends up in a verdict is a path of this machine.
gate 0 GATE=gate.json GITHUB_STEP_SUMMARY=job.md -- a b out suite.json
(($(grep -c "|$work/out|$work/job.md|compare " "$CALLS") == 2)) || fail "two verdicts, from within OUT"
grep -q "|compare base new --gate $work/gate.json --base-program $work/a/mixerbench --top-up --measure $work/suite.json --pairs pairs " "$CALLS" || fail "the gate"
grep -q "|compare smoke-base smoke-new --gate smoke " "$CALLS" || fail "smoke"
grep -q "^a|.*|run $work/suite.json -o base -q" "$CALLS" || fail "the seeds of base"
grep -q "^b|.*|run $work/suite.json -o new -q" "$CALLS" || fail "the seeds of new"
gate 0 -- a b out builtin
grep -q "|run builtin -o base -q" "$CALLS" || fail "a built-in name stays one"

gate 0 FAIL_AT=run FAIL_WITH=4 -- a b out suite.json  # cells that failed are results
for code in 1 5 6; do
  gate "$code" FAIL_AT="compare base new" FAIL_WITH="$code" -- a b out suite.json
  gate "$code" FAIL_AT="compare smoke" FAIL_WITH="$code" -- a b out suite.json
done
gate 137 FAIL_AT="-o base" FAIL_WITH=137 -- a b out suite.json  # killed, but not for the time

# Out of time, before and within a command.
gate 75 GATE_MINUTES=0 -- a b out suite.json
sed 's/60 \* /1 * /' "$script" > quick.sh  # seconds in place of minutes
chmod +x quick.sh
script=$work/quick.sh
gate 75 GATE_MINUTES=2 SLOW_AT="-o base" -- a b out suite.json
gate 75 GATE_MINUTES=2 SLOW_AT="compare base new" -- a b out suite.json
grep -q "out of time in: .*compare base new" said || fail "where the time ended"

# What was asked for wrongly is no verdict.
gate 2 -- a b
grep -q "GATE_MINUTES" said || fail "usage has all settings"
grep -q "SPDX" said && fail "usage has the licence"
gate 2 -- nowhere b out
(($(wc -l < said) == 1)) || fail "one line"
gate 2 -- a suite.json out
touch file
gate 8 -- a b file/out suite.json
echo "gate.sh passes on what it should"
