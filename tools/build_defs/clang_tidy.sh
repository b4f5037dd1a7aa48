#!/usr/bin/env bash
# clang_tidy.sh REPORT CLANG_TIDY CONFIG SOURCE FLAG...: what clang-tidy says of SOURCE goes to REPORT, and to
# stderr when it finds something; then this fails.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
report=$1 tidy=$2 config=$3 source=$4
shift 4
if ! "$tidy" --quiet --config-file="$config" --warnings-as-errors='*' "$source" -- "$@" >"$report" 2>/dev/null; then
  cat -- "$report" >&2
  exit 1
fi
