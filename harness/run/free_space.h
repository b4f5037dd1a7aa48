// Bytes that a file system still takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace mixerbench::harness {

// The folder itself, or the nearest one above it that exists.
std::filesystem::path NearestFolder(const std::filesystem::path& folder);

// For this user, where `folder` lies or would lie; nothing when the system does not say.
std::optional<std::int64_t> FreeSpace(const std::filesystem::path& folder);

}  // namespace mixerbench::harness
