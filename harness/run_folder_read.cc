// SPDX-License-Identifier: Apache-2.0
#include "harness/run_folder_read.h"

#include <algorithm>

#include "base/error.h"
#include "reports/atomic_file.h"
#include "reports/result_json.h"

namespace mixerbench::harness {

std::vector<reports::CellResult> LoadAllResults(const std::filesystem::path& out) {
  const auto cells = out / "cells";
  if (!std::filesystem::is_directory(cells)) {
    throw Error(ExitCode::kBadInput,
                out.string() + ": no cells folder; give the output folder of a run");
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(cells)) {
    const auto path = entry.path() / "result.json";
    if (std::filesystem::exists(path)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<reports::CellResult> results;
  for (const auto& path : paths) {
    results.push_back(
        reports::ParseCell(reports::ReadFile(path.string(), kMaxResultBytes), path.string()));
  }
  return results;
}

}  // namespace mixerbench::harness
