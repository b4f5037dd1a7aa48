// SPDX-License-Identifier: Apache-2.0
#include "harness/run/free_space.h"

#include <algorithm>
#include <limits>
#include <system_error>

namespace mixerbench::harness {

namespace fs = std::filesystem;

fs::path NearestFolder(const fs::path& folder) {
  fs::path path = fs::absolute(folder);
  std::error_code error;
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::optional<std::int64_t> FreeSpace(const fs::path& folder) {
  std::error_code error;
  const std::uintmax_t bytes = fs::space(NearestFolder(folder), error).available;
  if (error) return std::nullopt;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min<std::uintmax_t>(bytes, kMost));
}

}  // namespace mixerbench::harness
