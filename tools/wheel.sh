#!/usr/bin/env bash
# wheel.sh [-o FOLDER] [--config=cuda]: a wheel of the Python package with the engine in it (docs/PYTHON.md).
#
# Any Python from 3.10 on installs it beside torch 2.11.0. The shared libraries that a machine may lack lie in the wheel; the machine's own go
# before them. With --config=cuda it has the device code and runs on CPUs too.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

readonly torch=2.11.0
root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd -P)
readonly root

out=$root/out/wheel
config=()
while (($#)); do
  case $1 in
    -o) out=$(readlink -m -- "$2") && shift 2 ;;
    --config=*) config=("$1") && shift ;;
    *) echo "usage: tools/wheel.sh [-o FOLDER] [--config=cuda]" >&2 && exit 2 ;;
  esac
done

cd -- "$root"
bazel build --stamp "${config[@]}" //harness:libmixerbench_engine.so >&2
engine=$(bazel info "${config[@]}" bazel-bin 2>/dev/null)/harness/libmixerbench_engine.so

# What every Linux has, and what comes with torch and the driver.
readonly present='^(ld-linux|lib(c|m|dl|rt|util|resolv|pthread|stdc\+\+|gcc_s))[-.]|^lib(cu|nccl|nv)|/external/torch/'

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT
cp -r -- python/mixerbench "$stage/"
rm -rf -- "$stage/mixerbench/__pycache__"
chmod -R u+w -- "$stage"
strip -o "$stage/mixerbench/libmixerbench_engine.so" -- "$engine"
mkdir "$stage/mixerbench/lib"
ldd "$engine" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | { grep -vE "$present" || true; } |
  while read -r _ library; do cp -L -- "$library" "$stage/mixerbench/lib/"; done
cp -- LICENSE docs/PYTHON.md "$stage/"

mkdir -p -- "$out"
python3 tools/write_wheel.py "$stage" "$torch" "$out"
