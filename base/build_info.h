// Where the program was built from. Known to stamped builds (`bazel build --stamp`, ./mixerbench,
// tools/package.sh) of a git checkout; in other builds it would make every test depend on the
// commit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace mixerbench {

std::string_view GitCommit();    // empty: not known
std::optional<bool> GitDirty();  // sources had changes that were not committed

}  // namespace mixerbench
