#!/usr/bin/env bash
# gpu_results.sh PROGRAMS OUT PART...: makes the files of results/h200 anew, on a GPU machine.
#
# PROGRAMS is a folder of tools/package.sh. A part is `tests` or one of them by its name (`engine_test`),
# `golden` (samples of the CUDA generator), `python` (mixers in Python; PROGRAMS/site holds the wheel),
# `peers` and `parity` (beside it those of tools/peers/README.md), `conformance`, `sanitizers`, `cores`, `operations`,
# `starts`, `calibration` (the gate), `planted` (its faults; gate/trial/README.md), `leaderboard`, `nightly` (the collections) or the name of a suite;
# OUT/h200 gets what is committed, OUT/runs and OUT/logs the rest. A part that fails is named at the end, and the others
# still run. With TIME_LIMIT in the environment the whole ends after so many seconds: tests that run then
# fail, what runs cells saves them, later parts are not begun, and the same command with the same OUT goes
# on. Every GPU is used, or those of CUDA_VISIBLE_DEVICES; give each to one such command alone, since
# processes on one GPU wait for each other. See docs/GPU.md.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

if (($# < 3)); then
  echo "usage: tools/gpu_results.sh PROGRAMS OUT PART..." >&2
  exit 2
fi
programs=$(readlink -f -- "$1")
root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd -P)
mkdir -p -- "$2/h200" "$2/runs" "$2/logs"
out=$(readlink -f -- "$2")
shift 2
readonly root programs out
readonly time_limit_s=${CONFORMANCE_TIME_LIMIT:-190} shards_per_gpu=11
if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
  IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
else
  mapfile -t devices < <(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)
fi
readonly devices gpus=${#devices[@]}
readonly end=${TIME_LIMIT:+$((SECONDS + TIME_LIMIT))} saving_s=30  # which a run of cells may take at its end

# left: seconds that a part may take from now on.
left() { echo $((end - saving_s > SECONDS ? end - saving_s - SECONDS : 1)); }

# limited COMMAND...: ends it in time.
limited() {
  if [[ -n $end ]]; then timeout --kill-after=10 "$(left)" "$@"; else "$@"; fi
}

# run_cells_of FOLDER WORD...: its program, which stops and saves in time. What is committed are reports, so no weights are kept.
run_cells_of() { "$1/mixerbench" "${@:2}" --keep-weights none ${end:+--time-limit "$(left)"}; }
run_cells() { run_cells_of "$programs" "$@"; }

# share N: threads for each of N processes side by side.
share() { echo $((($(nproc) + $1 - 1) / $1)); }

run_test() {  # run_test NAME: its last line is the count
  OMP_NUM_THREADS=$(share 6) limited "$programs/$1" --durations yes >"$out/logs/$1.txt" 2>&1
  local status=$?
  printf '%s: %s\n' "$1" "$(grep -E 'All tests passed|assertions:' "$out/logs/$1.txt" || tail -n 1 "$out/logs/$1.txt")"
  return "$status"
}

# gpu_test by itself, since it takes all memory to see what lack of it does.
run_tests() {
  local name pid pids=() status=0
  for name in core_gpu_test operations_test first_backward_test linear_recurrence_gpu_test dplr_gpu_test mesa_gpu_test sila_gpu_test engine_test; do
    run_test "$name" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  run_test gpu_test || status=1
  return "$status"
}

# Each process gets its share of a GPU's memory.
run_conformance() {
  local shards=$((gpus * shards_per_gpu)) shard folder=$out/runs/conformance
  mkdir -p -- "$folder" "$out/h200/conformance"
  export PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.075
  for ((shard = 0; shard < shards; ++shard)); do
    OMP_NUM_THREADS=$(share "$shards") CUDA_VISIBLE_DEVICES=${devices[shard % gpus]} \
      "$programs/conformance" -o "$folder" --shard "$shard/$shards" \
      --time-limit "$time_limit_s" >"$out/logs/conformance-$shard.txt" 2>&1 &
  done
  wait
  unset PYTORCH_CUDA_ALLOC_CONF
  "$programs/conformance" -o "$out/h200/conformance" --merge "$folder"/conformance-*-of-"$shards".json
}

run_benchmark() {  # run_benchmark PROGRAM FILE
  mkdir -p -- "$(dirname -- "$out/h200/$2")"
  limited "$programs/$1" >"$out/h200/$2" 2>&1
}

# run_python_test DEVICE NAME.CLASS.TEST: with a log of its own.
run_python_test() {
  local name=${2%%.*} log=$out/logs/$2.txt status=0
  CUDA_VISIBLE_DEVICES=$1 PYTHONPATH=$programs/site:$root/tests/python MIXERBENCH_TEST_DEVICE=cuda \
    limited python3 "$root/tests/python/$name.py" "$programs/site/mixerbench/libmixerbench_engine.so" "${2#*.}" \
    >"$log" 2>&1 || status=1
  printf '%s: %s\n' "$2" "$(tail -n 1 "$log")"
  return "$status"
}

# The package that is tested is that of PROGRAMS/site, as installed by pip --target from tools/wheel.sh. Most of a
# test's time is the start of programs: several side by side on each GPU.
run_python() {
  local name tests=() i running=0 status=0
  for name in program_test api_test; do
    mapfile -t -O "${#tests[@]}" tests < <(awk -F'[ (]+' -v name="$name" \
      '/^class / { class = $2 } /^    def test_/ { print name "." class "." $3 }' "$root/tests/python/$name.py")
  done
  ((${#tests[@]})) || return 1
  for ((i = 0; i < ${#tests[@]}; ++i, ++running)); do
    if ((running == gpus * 6)); then
      wait -n || status=1
      ((--running))
    fi
    run_python_test "${devices[i % gpus]}" "${tests[i]}" &
  done
  for (( ; running; --running)); do wait -n || status=1; done
  return "$status"
}

# The table has the pairs that are done in the place of what is committed of them.
run_peers() (
  peers=$root/tools/peers folder=$out/runs/peers found=$out/h200/peers status=0 onto=()
  mkdir -p -- "$found"
  cd -- "$root" || return
  export PYTHONPATH=$programs/site
  [[ -f results/h200/peers/peers.json ]] && onto=(--onto results/h200/peers/peers.json)
  python3 "$peers/peers.py" run --gpus "$(IFS=,; echo "${devices[*]}")" -o "$folder" ${end:+--seconds "$(left)"} \
    >"$out/logs/peers.txt" 2>&1 || status=1
  python3 "$peers/peers.py" table "${onto[@]}" "$folder"/*/*/report.json >"$found/peers.md" || status=1
  python3 "$peers/peers.py" table --json "${onto[@]}" "$folder"/*/*/report.json >"$found/peers.json" || status=1
  return "$status"
)

# By two variants of each kernel in bf16, in which it trains, and in fp32, which takes a closer look: to compile all of
# them takes many minutes.
run_parity() {
  local dtype status=0
  mkdir -p -- "$out/h200/peers"
  for dtype in bf16 fp32; do
    PYTHONPATH=$programs/site limited python3 "$root/tools/peers/parity.py" --device cuda --dtype "$dtype" --variants 2 \
      2>"$out/logs/parity-$dtype.txt" | { sed -u 2q && sort; } >"$out/h200/peers/parity-$dtype.md" || status=1
  done
  return "$status"
}

# The checkout that holds this script is the one that PROGRAMS were made from.
run_golden() {
  mkdir -p -- "$out/h200/golden"
  "$programs/device_golden_check" "$root/tests/golden/tasks.sha256" 2>&1 | tee "$out/h200/golden/device_golden_check.txt"
}

run_sanitizers() {
  local tool name log status=0
  mkdir -p -- "$out/h200/sanitizers"
  for tool in memcheck racecheck; do
    : >"$out/h200/sanitizers/$tool.txt"
    for name in core_gpu_test dplr_gpu_test mesa_gpu_test sila_gpu_test; do
      log=$out/logs/$name-$tool.txt
      # Without caching every tensor is an allocation of its own, beyond which the tool sees.
      PYTORCH_NO_CUDA_MEMORY_CACHING=1 limited \
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$programs/$name" '[sanitizer]' >"$log" 2>&1 || status=1
      { echo "$name"; tail -n 4 -- "$log"; } | tee -a "$out/h200/sanitizers/$tool.txt"
    done
  done
  return "$status"
}

# Whether many cells that begin at once disturb each other.
run_starts() {
  python3 "$root/tests/soak/starts.py" "$programs/mixerbench" --suite resona-mqar-small --jobs 12 --device cuda --starts 12
}

# What a gate may compare a candidate with.
run_nightly() {
  local status=0 folder
  run_cells run collection nightly -o "$out/runs/nightly" --gpus all --jobs 12 >"$out/logs/nightly.txt" 2>&1 || status=$?
  tail -n 1 "$out/logs/nightly.txt"
  for folder in "$out/runs/nightly"/*/; do
    mkdir -p -- "$out/h200/nightly/$(basename -- "$folder")"
    cp -- "$folder"/report.{json,md} "$out/h200/nightly/$(basename -- "$folder")/" || return
  done
  return "$status"
}

run_suite() {  # run_suite NAME
  local options=(run "$1" --gpus all --jobs 4)
  case $1 in
    step-time | mixers-step-time) options=(bench "$1" --device cuda) ;;
    selcopy-* | resona-* | induction-* | mad-small) options=(run "$1" --gpus all --jobs 8) ;;
    mixers | mqar-iclr24-64x4) options=(run "$1" --gpus all --jobs 12) ;;
  esac
  run_cells "${options[@]}" -o "$out/runs/$1" >"$out/logs/$1.txt" 2>&1
  local status=$?
  tail -n 1 "$out/logs/$1.txt"
  mkdir -p -- "$out/h200/$1"
  cp -- "$out/runs/$1"/report.{json,md} "$out/h200/$1/" || return
  return "$status"
}

# The noise of this runner, by one build twice: what docs/GATE.md, "Calibrate a runner", says. The verdict
# names the two folders as they are given.
run_calibration() (
  mkdir -p -- "$out/h200/gate"
  cd -- "$out/runs" || return
  for side in base again; do
    run_cells run "$root/docs/ci/gate-suite.json" -o "calibration/$side" >"$out/logs/calibration-$side.txt" 2>&1 || return
  done
  limited "$programs/mixerbench" compare calibration/base calibration/again --measure "$root/docs/ci/gate-suite.json" \
    --pairs calibration/pairs --self --calibration "$out/h200/gate/calibration" \
    --verdict "$out/h200/gate/aa.json" --markdown "$out/h200/gate/aa.md" >"$out/logs/calibration.txt" 2>&1
  status=$?
  tail -n 1 "$out/logs/calibration.txt"
  return "$status"
)

# What the gate says of PROGRAMS/decay and PROGRAMS/slow, beside PROGRAMS: 1 of each. Calibrated first, in this sitting or an earlier one.
run_planted() (
  local suite=$root/docs/ci/gate-suite.json calibration=$root/results/h200/gate/calibration fault code status=0
  [[ -d $out/h200/gate/calibration ]] && calibration=$out/h200/gate/calibration
  mkdir -p -- "$out/h200/gate"
  cd -- "$out/runs" || return
  run_cells run "$suite" -o gate/base >"$out/logs/planted-base.txt" 2>&1 || return
  for fault in decay slow; do
    run_cells_of "$programs/$fault" run "$suite" -o "gate/$fault" >"$out/logs/planted-$fault.txt" 2>&1 || return
    code=0
    limited "$programs/mixerbench" compare gate/base "gate/$fault" --measure "$suite" --pairs "gate/pairs-$fault" \
      --base-program "$programs/mixerbench" --new-program "$programs/$fault/mixerbench" --calibration "$calibration" \
      --verdict "$out/h200/gate/$fault.json" --markdown "$out/h200/gate/$fault.md" >>"$out/logs/planted-$fault.txt" 2>&1 || code=$?
    echo "$fault: exit code $code"
    ((code == 1)) || status=1
  done
  return "$status"
)

# Its cells fill many megabytes, so what is ranked is kept and not they. A sitting that ends before the
# collection does ranks the tasks that are done; fails while some are missing. The report of its first
# task is that of the suite `mixers`. Tokens per second are those of mixers-step-time, of this sitting or
# as committed.
run_leaderboard() {
  local folder format status=0 finished=() speed=$out/h200/mixers-step-time
  run_cells run collection leaderboard -o "$out/runs/leaderboard" --gpus all --jobs 12 \
    >"$out/logs/leaderboard.txt" 2>&1 || status=$?
  tail -n 1 "$out/logs/leaderboard.txt"
  for folder in "$out/runs/leaderboard"/*/; do
    "$programs/mixerbench" leaderboard "$folder" --format json >/dev/null 2>&1 && finished+=("$folder")
  done
  ((${#finished[@]})) || return 1
  [[ -d $speed ]] || speed=$root/results/h200/mixers-step-time
  [[ -d $speed ]] && finished+=("$speed")
  mkdir -p -- "$out/h200/leaderboard"
  for format in json md html; do
    "$programs/mixerbench" leaderboard "${finished[@]}" --format "$format" >"$out/h200/leaderboard/leaderboard.$format" || return
  done
  mkdir -p -- "$out/h200/mixers"
  cp -- "$out/runs/leaderboard/mqar"/report.{json,md} "$out/h200/mixers/" || return
  return "$status"
}

((gpus)) || { echo "gpu_results.sh: no GPU here" >&2; exit 7; }
failed=()
for part in "$@"; do
  if [[ -n $end ]] && ((end - saving_s <= SECONDS)); then
    echo "$part: no time left"
    failed+=("$part")
    continue
  fi
  start=$SECONDS
  case $part in
    tests | golden | python | peers | parity | conformance | sanitizers | starts | calibration | planted | leaderboard | nightly) "run_$part" ;;
    *_test) run_test "$part" ;;
    cores) run_benchmark core_device_benchmark cores/core_device_benchmark.txt ;;
    operations) run_benchmark operations_benchmark fused/fused_benchmark.txt ;;
    *) run_suite "$part" ;;
  esac || failed+=("$part")
  echo "$part: $((SECONDS - start)) s"
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
