#!/usr/bin/env bash
# package.sh [-o FOLDER] [TARGET...]: a folder that runs on a GPU machine without Bazel or a network.
#
# Builds the program and each TARGET (say //tests/gpu:core_gpu_test) with --config=cuda, strips them
# and adds the shared libraries that the machine may lack. There, FOLDER/mixerbench, or FOLDER/<name of a
# target>, finds that machine's libtorch and starts the program. See docs/GPU.md.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd -P)
readonly root

fail() {
  printf 'package.sh: %s\n' "$1" >&2
  exit 1
}

out=$root/.gpu
while getopts o: option; do
  case $option in
    o) out=$(readlink -f -- "$OPTARG") ;;
    *) fail "usage: tools/package.sh [-o FOLDER] [TARGET...]" ;;
  esac
done
shift $((OPTIND - 1))
cd -- "$root"

[[ ! -e $out || -x $out/mixerbench || -z $(ls -A -- "$out") ]] ||
  fail "$out holds something else; remove it or name another folder with -o"

targets=(//harness:mixerbench //harness:mixerbench-engine "$@")
bazel build --config=cuda --stamp "${targets[@]}" >&2
built=$(bazel info --config=cuda bazel-bin 2>/dev/null)

# System libraries that every Linux has, and those that come with libtorch and the driver (cuda,
# cudart, cublas, cudnn, ..., nccl, nvrtc, nvJitLink, ...), wherever this machine found them.
readonly present='^(ld-linux|lib(c|m|dl|rt|util|resolv|pthread|stdc\+\+|gcc_s))[-.]|^lib(cu|nccl|nv)|/external/torch/'

rm -rf -- "$out"
mkdir -p -- "$out/bin" "$out/lib"
for target in "${targets[@]}"; do
  path=${target#//}
  program=$built/${path/://}
  name=$(basename -- "$program")
  [[ -x $program && -f $program ]] || fail "$target is no program"
  strip -o "$out/bin/$name" -- "$program"
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | { grep -vE "$present" || true; } |
    while read -r _ library; do cp -L -- "$library" "$out/lib/"; done
  cp -- tools/gpu_launcher.sh "$out/$name"
done

printf '%s: %s MiB, %s programs\n' "$out" "$(du -sm -- "$out" | cut -f1)" "${#targets[@]}"
