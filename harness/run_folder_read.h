// Reading the results of a run folder; writing is in run_folder.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "reports/result.h"

namespace mixerbench::harness {

inline constexpr std::size_t kMaxResultBytes = std::size_t{64} << 20;

// Every finished cell below OUT/cells, sorted by folder name. Throws Error(kBadInput).
std::vector<reports::CellResult> LoadAllResults(const std::filesystem::path& out);

}  // namespace mixerbench::harness
