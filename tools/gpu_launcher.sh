#!/usr/bin/env bash
# Starts bin/<own name> with the libtorch of the machine it stands on. Made by tools/package.sh.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd -P)

# Finding torch's folder does not import it: that would cost seconds.
torch=$(python3 -c '
import importlib.util
spec = importlib.util.find_spec("torch")
print(spec.submodule_search_locations[0] if spec else "")
' 2>/dev/null) || torch=
if [[ ! -e $torch/lib/libtorch_cuda.so ]]; then
  echo "mixerbench: python3 has no torch with CUDA; put one that has first in PATH" >&2
  exit 7
fi

libraries=$here/lib:$torch/lib
for folder in "$torch"/../nvidia/*/lib; do
  [[ ! -d $folder ]] || libraries+=:$folder
done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/bin/$(basename -- "${BASH_SOURCE[0]}")" "$@"
