#!/usr/bin/env bash
# source_rules.sh [ROOT]: the rules on source text that no compiler checks (CONTRIBUTING.md). Prints
# one line for each violation; exit 1 when there is one.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd -- "${1:-.}"

violations=0
# violation MESSAGE: one for each line of stdin.
violation() {
  local line
  while IFS= read -r line; do
    printf '%s: %s\n' "$line" "$1"
    violations=$((violations + 1))
  done
}

# sources NAME_PATTERN...: files of our folders whose name matches one of the patterns.
sources() {
  local tests=() pattern
  for pattern in "$@"; do tests+=(-o -name "$pattern"); done
  find . \( -path './.?*' -type d -o -path './bazel-*' -o -path ./out \) -prune \
    -o -type f \( "${tests[@]:1}" \) -print | sed 's|^\./||' | LC_ALL=C sort
}

# including REGEX: of the files on stdin, "FILE:LINE" of every #include whose target matches.
including() {
  xargs -r -d '\n' grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($1)" |
    cut -d: -f1,2 || true
}

cpp=('*.cc' '*.h' '*.cu' '*.cuh')
torch='torch/|ATen/|c10/'

violation "torch/torch.h is banned: include the narrowest header" \
  < <(sources "${cpp[@]}" | including 'torch/torch\.h')
violation "no torch in device code: it costs 9 s and more per file through nvcc" \
  < <(sources '*.cu' '*.cuh' | including "$torch")
# Parts that stride over the batch and blocks of columns are few; what is as many as sequences and
# heads is along x, where a grid has 2^31 - 1 blocks.
few_along_y='^kernels/(rope/rotary|linear/column_sum)\.cu$'
violation "a grid has at most 65,535 blocks along y and z: put sequences and heads along x" \
  < <(sources '*.cu' '*.cuh' | grep -vE "$few_along_y" |
    xargs -r -d '\n' grep -HnE '(blockIdx|gridDim)\.[yz]\b' | cut -d: -f1,2 || true)
violation "no torch in tasks/, reports/, gate/, io/ and base/" \
  < <(sources "${cpp[@]}" | grep -E '^(tasks|reports|gate|io|base)/' | including "$torch")
violation "the JSON library is used in io/json.cc alone" \
  < <(sources "${cpp[@]}" | grep -vxF io/json.cc | including 'nlohmann/')
violation "no line 'SPDX-License-Identifier: Apache-2.0'" \
  < <({
    sources "${cpp[@]}" '*.sh' '*.py' '*.bzl'
    for script in mixerbench .ci/run tools/hooks/*; do [[ ! -f $script ]] || echo "$script"; done
  } | xargs -r -d '\n' grep -L 'SPDX-License-Identifier: Apache-2\.0')

# Types by namespace, "NAMESPACE::TYPE FILE": no compiler sees two headers in one unit that differ.
types() {
  xargs -r -d '\n' awk '
    FNR == 1 { space = "" }
    /^namespace [A-Za-z_:0-9]+ \{/ { space = $2 }
    /^(enum class|struct|class) [A-Z][A-Za-z0-9_]*( final)?( :[^;]*)? *\{/ {
      name = $1 == "enum" ? $3 : $2
      sub(/:$/, "", name)
      print space "::" name, FILENAME
    }' | LC_ALL=C sort -u
}
violation "a type of this name and namespace stands in another header too" \
  < <(sources '*.h' '*.cuh' | types | awk '$1 == last { print file ": " $1; print $2 ": " $1 } { last = $1; file = $2 }' |
    LC_ALL=C sort -u)

# A folder without its page does not exist for tools/build_defs/units.bzl, nor does one with a BUILD.
for layer in tasks kernels/attention kernels/linear_attention models/mixers models/backbones; do
  for folder in "$layer"/*/; do
    [[ -d $folder ]] || continue
    [[ $folder != kernels/linear_attention/scan/ ]] || continue  # no unit: what cores share
    name=$(basename -- "$folder")
    page=$folder$name.md
    if [[ -e ${folder}BUILD && -e $page ]]; then
      violation "a unit has no BUILD file: units.bzl would not see it" <<<"${folder}BUILD"
    elif [[ ! -e ${folder}BUILD && ! -e $page ]]; then
      violation "no $name.md: the unit would not be built" <<<"$folder"
    fi
  done
done

((violations == 0))
