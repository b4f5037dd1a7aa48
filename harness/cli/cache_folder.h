// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace mixerbench::harness {

// Of this program, in the user's cache: $XDG_CACHE_HOME/mixerbench, else ~/.cache/mixerbench. It
// may not exist yet.
std::filesystem::path CacheFolder();

}  // namespace mixerbench::harness
