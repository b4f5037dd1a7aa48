#!/usr/bin/env bash
# layering_test.sh FORBIDDEN PRESENT: FORBIDDEN lists targets that a layer reaches and may not;
# PRESENT lists the layer's own targets in the program.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

if [[ ! -s $2 ]]; then
  echo "no target of this layer is part of the program: the check below would prove nothing"
  exit 1
fi
if [[ -s $1 ]]; then
  echo "this layer may not depend on (docs/ARCHITECTURE.md):"
  cat -- "$1"
  exit 1
fi
