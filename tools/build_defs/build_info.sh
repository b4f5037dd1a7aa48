#!/usr/bin/env bash
# build_info.sh STATUS_FILE: the source of base/build_info.h for what workspace_status.sh said. No
# file, or one without a commit: nothing is known.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

value_of() { sed -n "s/^STABLE_GIT_$1 //p" -- "${status:-/dev/null}"; }

status=${1:-}
commit=$(value_of COMMIT)
dirty=$(value_of DIRTY)
[[ -n $commit ]] || dirty=
cat <<END
#include "base/build_info.h"

namespace mixerbench {
std::string_view GitCommit() { return "$commit"; }
std::optional<bool> GitDirty() { return ${dirty:-std::nullopt}; }
}  // namespace mixerbench
END
