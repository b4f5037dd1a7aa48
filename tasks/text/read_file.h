// Files that a user names, read whole within a limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace mixerbench::tasks {

// Throws Error(kBadInput) at `where` when the file cannot be read or has more than `max_bytes`.
std::string ReadTextFile(const std::string& path, std::size_t max_bytes, const std::string& where);

}  // namespace mixerbench::tasks
