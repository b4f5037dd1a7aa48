// The reports of a run folder, made from its finished cells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/value.h"
#include "reports/result.h"

namespace mixerbench::harness {

// Writes report.json, report.md and report.html.
void WriteReports(const std::filesystem::path& out, const std::string& name, const Value& config,
                  const std::vector<reports::CellResult>& cells);

}  // namespace mixerbench::harness
