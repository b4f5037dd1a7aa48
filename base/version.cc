// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include "base/build_info.h"

namespace mixerbench {

Value ToolVersion() {
#ifdef NDEBUG
  constexpr const char* kBuild = "opt";
#else
  constexpr const char* kBuild = "debug";
#endif
  const std::string_view commit = GitCommit();
  const std::optional<bool> dirty = GitDirty();
  return Object{{"version", kVersion},
                {"build", kBuild},
                {"compiler", __VERSION__},
                {"git_commit", commit.empty() ? Value() : Value(std::string(commit))},
                {"git_dirty", dirty ? Value(*dirty) : Value()}};
}

}  // namespace mixerbench
