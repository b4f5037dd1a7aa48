// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/cache_folder.h"

#include <cstdlib>

namespace mixerbench::harness {

std::filesystem::path CacheFolder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache != '\0') {
    return std::filesystem::path(cache) / "mixerbench";
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home ? home : "/") / ".cache" / "mixerbench";
}

}  // namespace mixerbench::harness
