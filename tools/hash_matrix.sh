#!/usr/bin/env bash
# hash_matrix.sh [BAZEL_STARTUP_OPTION...]: the samples of every preset are the same bytes whatever
# made them. Builds //tasks:golden_hashes with g++ and clang, each at -O0 and -O3, and runs every
# build with 1 to 8 threads, cutting the samples into 1, 3 and 7 shards in turn; each output must be
# tests/golden/tasks.sha256. Of texts every build must give tests/golden/text.sha256. The CUDA row of
# the matrix is //tasks:device_golden_check.
#
# Takes minutes; the builds go to an output base of their own, so that no other build is disturbed:
#
#   tools/hash_matrix.sh --output_base=/tmp/hash_matrix
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

golden=$PWD/tests/golden
shards=(1 3 7)
failures=0

for compiler in gcc clang; do
  for optimisation in -O0 -O3; do
    config=()
    [[ $compiler == gcc ]] || config=(--config=clang)
    bazel "$@" build "${config[@]}" --copt="$optimisation" //tasks:golden_hashes \
      //tasks/text:text_golden_hashes \
      --ui_event_filters=-info --show_result=0 --noshow_progress
    programs=$(bazel "$@" info "${config[@]}" bazel-bin 2>/dev/null)/tasks
    verdict=same
    if ! "$programs/text/text_golden_hashes" | cmp -s - "$golden/text.sha256"; then
      verdict=DIFFERENT
      failures=$((failures + 1))
    fi
    printf '%-6s %s  texts  %s\n' "$compiler" "$optimisation" "$verdict"
    for threads in 1 2 3 4 5 6 7 8; do
      pieces=${shards[threads % 3]}
      verdict=same
      if ! "$programs/golden_hashes" "$threads" "$pieces" | cmp -s - "$golden/tasks.sha256"; then
        verdict=DIFFERENT
        failures=$((failures + 1))
      fi
      printf '%-6s %s  %d threads  %d shards  %s\n' \
        "$compiler" "$optimisation" "$threads" "$pieces" "$verdict"
    done
  done
done
((failures == 0))
