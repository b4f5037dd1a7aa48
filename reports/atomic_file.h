// Files that are there completely or not at all, and reading with a size limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace mixerbench::reports {

// Replaces `path` by `bytes`: a temporary file in the same folder, fsync, rename, fsync of the
// folder (Pillai et al., OSDI '14). After a crash the old file or the new one is there. The folder
// must exist. Errors: Error(kOutput) naming the path and the cause; the old file is intact, the
// temporary is gone.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);

// The bytes of a regular file. Errors: Error(kBadInput) naming the path and the cause, also for a
// file above `max_bytes` or anything that is no regular file (a pipe would block).
std::string ReadFile(const std::filesystem::path& path,
                     std::size_t max_bytes = std::size_t{512} << 20);

}  // namespace mixerbench::reports
