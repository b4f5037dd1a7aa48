#!/usr/bin/env bash
# run_with_torch.sh TORCH PACKAGES SCRIPT ARGS...: Python with the torch of this build, on the CPU.
#
# TORCH holds the unpacked wheel, PACKAGES what it imports. The wheel wants 2.7 GB of NVIDIA's libraries to be
# there; nothing of them is called on a CPU, so empty ones stand in for those that are missing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
torch=$1 packages=$2
shift 2

stubs=$(mktemp -d -p "$TEST_TMPDIR")
here=$torch/torch/lib:$(printf '%s:' "$torch"/nvidia/*/lib)
for library in "$torch"/torch/lib/libtorch_{cuda,nvshmem,python,cpu}.so "$torch"/torch/lib/libc10_cuda.so; do
  LD_LIBRARY_PATH=$here ldd "$library" | awk '$3 == "not" { print $1 }'
done | sort -u | while read -r name; do
  gcc -shared -x c - -o "$stubs/$name" -Wl,-soname,"$name" </dev/null
done
# Python binds all symbols at once, these libraries have none.
echo 'import os, sys; sys.setdlopenflags(os.RTLD_LAZY)' >"$stubs/sitecustomize.py"
LD_LIBRARY_PATH=$stubs PYTHONPATH=$PWD/python:$stubs:$torch:$packages PYTHONDONTWRITEBYTECODE=1 \
  PYTHONWARNINGS=ignore exec /usr/bin/python3 "$@"
