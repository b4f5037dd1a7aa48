#!/usr/bin/env bash
# The source tree keeps the rules, and the checker sees each of them broken.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

checker=$PWD/tests/layering/source_rules.sh
tree=$(dirname -- "$(readlink -f WORKSPACE)")
failures=0

if ! "$checker" "$tree"; then
  echo "FAILED: the source tree breaks the rules above"
  failures=1
fi

# breaks FILE TEXT MESSAGE: a tree that holds only FILE with TEXT gives MESSAGE; no FILE but this one
# is needed to make the checker fail.
breaks() {
  local bad output
  bad=$(mktemp -d)
  mkdir -p -- "$bad/$(dirname -- "$1")"
  printf '%b' "$2" >"$bad/$1"
  if output=$("$checker" "$bad") || [[ $output != *"$3"* ]]; then
    echo "FAILED: $1 with '$2' must give '$3', gave '$output'"
    failures=1
  fi
  rm -rf -- "$bad"
}

spdx='// SPDX-License-Identifier: Apache-2.0\n'
breaks harness/a.cc "$spdx#include <torch/torch.h>\n" "torch/torch.h is banned"
breaks kernels/blocks.cu "$spdx#include <ATen/core/Tensor.h>\n" "no torch in device code"
breaks kernels/a.cuh "$spdx # include \"c10/util/Half.h\"\n" "no torch in device code"
breaks kernels/a.cu "${spdx}int row = blockIdx.y;\n" "at most 65,535 blocks"
breaks kernels/a.cuh "${spdx}int step = gridDim.z;\n" "at most 65,535 blocks"
breaks tasks/a.h "$spdx#include <torch/csrc/x.h>\n" "no torch in tasks/"
breaks reports/a.cc "$spdx#include <c10/core/Device.h>\n" "no torch in tasks/"
breaks base/a.h "$spdx#include <ATen/ops/add.h>\n" "no torch in tasks/"
breaks harness/a.cc "$spdx#include <nlohmann/json.hpp>\n" "the JSON library"
breaks harness/a.cc "int a;\n" "SPDX"
breaks tools/a.py "a = 1\n" "SPDX"
breaks mixerbench "#!/bin/sh\n" "SPDX"
breaks tasks/mqar/mqar.cc "$spdx" "no mqar.md"
breaks models/mixers/gla/readme.md "" "no gla.md"

twice=$(mktemp -d)
for file in a b; do
  printf '%s' '// SPDX-License-Identifier: Apache-2.0
namespace mixerbench::base {
enum class Kind { kOne };
}
' >"$twice/$file.h"
done
if output=$("$checker" "$twice") || [[ $output != "a.h: mixerbench::base::Kind: a type of this name"*b.h* ]]; then
  echo "FAILED: a type of two headers must be named, gave '$output'"
  failures=1
fi
rm -rf -- "$twice"

with_build=$(mktemp -d)
mkdir -p -- "$with_build/kernels/linear_attention/gla"
touch -- "$with_build/kernels/linear_attention/gla/gla.md" "$with_build/kernels/linear_attention/gla/BUILD"
if "$checker" "$with_build" >/dev/null; then
  echo "FAILED: a unit with a BUILD file must be refused"
  failures=1
fi

exit "$failures"
