// What a run folder is for: every cell that was asked for, finished or not (OUT/sweep.json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "io/atomic_file.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

struct Plan {
  std::string name;
  Value config;                            // of the suite
  std::vector<reports::CellResult> cells;  // kPlanned: identity and config alone
};

// Nothing when the folder has no plan: it is new, or was written by a version before 1.3 of the
// schema, whose sweep.json is the suite. Throws Error(kBadInput) for a damaged one, and
// for one that cannot be read.
std::optional<Plan> ReadPlan(const std::filesystem::path& out);

void WritePlan(const std::filesystem::path& out, const Plan& plan);

// "mqar/gla/lr=0.01 seed 2", "mqar/gla/lr=0.01 seed 2 evaluate", "mqar/gla throughput": a cell for
// people.
std::string LabelOf(const reports::CellResult& cell);
std::string LabelOf(const std::string& name, std::string_view kind, std::uint64_t seed);

// The hexadecimal digits of "sha256:<digits>", or of what has no prefix; a view of `id`.
std::string_view DigitsOf(std::string_view id);

// "OUT/cells/<first digits of the run id>"; `run_id` with or without "sha256:".
std::filesystem::path CellFolder(const std::filesystem::path& out, const std::string& run_id);

// "OUT/weights", where final weights lie (training/weights.h), and those of strict trainings in a
// folder of it: no file says in which mode it was trained.
std::filesystem::path WeightsPath(const std::filesystem::path& out, bool is_strict);

// The right to change the plan or the reports of a folder, given back at the end of the object or
// of the process. Waits for whoever has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& out);

 private:
  io::Descriptor file_;
};

}  // namespace mixerbench::harness
