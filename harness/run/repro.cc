// SPDX-License-Identifier: Apache-2.0
#include "harness/run/repro.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/determinism.h"
#include "harness/device/device.h"
#include "harness/run/folder_report.h"
#include "harness/run/kept_trainings.h"
#include "harness/run/merge_plan.h"
#include "harness/run/plan.h"
#include "harness/run/result_difference.h"
#include "harness/run/run_folder.h"
#include "harness/run/scheduler.h"
#include "harness/run/stop_signals.h"
#include "harness/suite/identity.h"
#include "harness/training/weights.h"
#include "io/json.h"
#include "io/tensor_file.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

constexpr std::size_t kLeastDigits = 4;  // of a run id, to name a cell by
constexpr std::size_t kMaxShown = 20;    // differences, in the answer for people

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "mixerbench-repro-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw Error(ExitCode::kOutput, pattern + ": " + std::strerror(errno));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // what stays is in the folder for temporary files
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool IsNamed(const CellResult& cell, const std::string& name) {
  const std::string_view digits = DigitsOf(name);
  return LabelOf(cell) == name ||
         (digits.size() >= kLeastDigits && DigitsOf(cell.run_id).starts_with(digits));
}

// The stored result of the cell that the user named.
CellResult FindStored(const fs::path& out, const std::string& name) {
  const std::optional<Plan> plan = ReadPlan(out);
  std::vector<CellResult> cells = plan ? plan->cells : ReportOf(out).cells;
  std::erase_if(cells, [&](const CellResult& cell) { return !IsNamed(cell, name); });
  if (cells.empty()) {
    throw ConfigError(name, "no cell of " + out.string() +
                                "; `status` lists them: give the first digits of an id, or a name");
  }
  if (cells.size() > 1) {
    throw ConfigError(name, std::to_string(cells.size()) + " cells of " + out.string() +
                                ", such as '" + LabelOf(cells[0]) + "' and '" + LabelOf(cells[1]) +
                                "'; give more digits of the id");
  }
  return RowOf(out, cells.front());
}

// Times, and what lack of memory or time did, are no functions of a cell.
void RequireRepeatable(const CellResult& stored) {
  if (stored.kind == NameOf(CellKind::kThroughput)) {
    throw ConfigError(LabelOf(stored),
                      "measures speed, which no two runs share; `compare "
                      "--measure` compares the speed of builds");
  }
  if (stored.state == CellState::kCompleted || stored.state == CellState::kDiverged) return;
  throw Error(ExitCode::kMissing, LabelOf(stored) + ": is " + std::string(NameOf(stored.state)) +
                                      "; only completed and diverged cells can be compared");
}

// The cell as this program plans it.
Cell PlanStored(const CellResult& stored, const Registries& registries) {
  try {
    Cell cell = PlanAgain(stored, registries);
    CellIdentifier(registries).Identify(cell);
    return cell;
  } catch (const std::exception& error) {
    throw Error(ExitCode::kMissing, LabelOf(stored) +
                                        ": its code is another, this program cannot "
                                        "plan it (" +
                                        error.what() + ")");
  }
}

at::Device DeviceFor(const Cell& cell, const std::string& wanted) {
  const at::Device device = ParseDevice(wanted.empty() ? cell.device_type : wanted);
  if (device.is_cuda() == (cell.device_type == "cuda")) return device;
  throw ConfigError("--device", "the cell ran on " + cell.device_type + ", got '" + wanted + "'");
}

// Nothing when it was stopped.
std::optional<CellResult> RunAgain(const Cell& cell, at::Device device, const fs::path& out,
                                   bool is_strict, const ReproOptions& options,
                                   const Registries& registries) {
  const RunOptions defaults;
  SchedulerOptions how;
  how.devices = {device.str()};
  how.cell.checkpoint_interval_s = 0;
  how.cell.is_strict = is_strict;
  how.stall_timeout_s = defaults.stall_timeout_s;
  how.quiet = options.quiet;
  how.worker_command = options.worker_command;
  const RunFolder folder(out);
  const std::vector<Cell> cells = {cell};
  std::vector<std::optional<CellResult>> results(1);
  const RunEnd end = Scheduler(how, registries.tasks, folder, cells, {0}, results).Run();
  return end == RunEnd::kFinished ? results.front() : std::nullopt;
}

// What a cell that trains nothing needs.
void CopyWeights(const fs::path& out, const CellResult& stored, bool is_strict,
                 const fs::path& out_again) {
  const WeightsFolder weights = WeightsOf(out, stored.training_id, is_strict);
  if (!weights.HasFile()) {
    throw Error(ExitCode::kMissing,
                LabelOf(stored) +
                    ": the weights of its training are not kept; run the suite again "
                    "with --keep-weights final");
  }
  weights.CopyTo(WeightsPath(out_again, is_strict));
}

// The tensors of kept weights, if their file is still there and whole.
std::optional<io::TensorFile> ReadWeights(const fs::path& out, const CellResult& cell) {
  if (!cell.weights) return std::nullopt;
  return ReadKeptWeights(WeightsPath(out, WasStrict(cell)), DigitsOf(cell.weights->sha256));
}

// What two runs of the cell have to say of each other.
struct Comparison {
  std::vector<Difference> result = {};
  bool has_weights = false;               // of both
  std::vector<std::string> weights = {};  // parameters that differ
  std::vector<Difference> code, data, environment;

  bool IsSame() const { return result.empty() && weights.empty(); }
  bool HasOtherConditions() const { return !code.empty() || !data.empty() || !environment.empty(); }
};

void CompareWeights(const io::TensorFile& stored, const io::TensorFile& again,
                    Comparison& comparison) {
  comparison.has_weights = true;
  for (const auto& [name, tensor] : stored.tensors) {
    const auto found = again.tensors.find(name);
    if (found == again.tensors.end() || !(found->second == tensor)) {
      comparison.weights.push_back(name);
    }
  }
  for (const auto& [name, tensor] : again.tensors) {
    if (!stored.tensors.contains(name)) comparison.weights.push_back(name);
  }
}

Comparison Compare(const CellResult& stored, const fs::path& out, const CellResult& again,
                   const fs::path& out_again) {
  Comparison comparison{.result = FindResultDifferences(stored, again),
                        .code = FindDifferences(stored.code, again.code),
                        .data = FindDifferences(stored.data_hash, again.data_hash),
                        .environment = FindEnvironmentDifferences(stored, again)};
  const auto left = ReadWeights(out, stored);
  const auto right = ReadWeights(out_again, again);
  if (left && right) CompareWeights(*left, *right, comparison);
  return comparison;
}

std::string_view Verdict(const Comparison& comparison) {
  if (comparison.IsSame()) return "same";
  return comparison.HasOtherConditions() ? "not_comparable" : "different";
}

ExitCode CodeOf(const Comparison& comparison) {
  if (comparison.IsSame()) return ExitCode::kOk;
  return comparison.HasOtherConditions() ? ExitCode::kMissing : ExitCode::kNo;
}

Array ToArray(const std::vector<Difference>& differences) {
  Array array;
  for (const Difference& difference : differences) {
    array.push_back(Object{
        {"key", difference.key}, {"stored", difference.stored}, {"again", difference.again}});
  }
  return array;
}

void PrintJson(const CellResult& stored, const Comparison& comparison) {
  const Array weights(comparison.weights.begin(), comparison.weights.end());
  std::cout << io::DumpJson(Object{{"run_id", stored.run_id},
                                   {"cell", stored.name},
                                   {"seed", reports::SeedToValue(stored.seed)},
                                   {"verdict", Verdict(comparison)},
                                   {"differences", ToArray(comparison.result)},
                                   {"weights", comparison.has_weights ? Value(weights) : Value()},
                                   {"code", ToArray(comparison.code)},
                                   {"data", ToArray(comparison.data)},
                                   {"environment", ToArray(comparison.environment)}},
                            2);
}

void PrintDifferences(const char* what, const std::vector<Difference>& differences) {
  for (std::size_t i = 0; i < std::min(differences.size(), kMaxShown); ++i) {
    const auto& [key, stored, again] = differences[i];
    std::cout << "  " << what << " " << key << ": " << io::DumpJson(stored) << " -> "
              << io::DumpJson(again) << "\n";
  }
  if (differences.size() > kMaxShown) {
    std::cout << "  " << what << ": " << differences.size() - kMaxShown
              << " more, which --json has\n";
  }
}

void PrintText(const CellResult& stored, const Comparison& comparison) {
  std::cout << LabelOf(stored) << ": ";
  if (comparison.IsSame()) {
    std::cout << "the same to the bit"
              << (comparison.HasOtherConditions() ? ", under other conditions" : "");
  } else {
    std::cout << comparison.result.size() << " values and " << comparison.weights.size()
              << " parameters differ"
              << (comparison.HasOtherConditions() ? ", under other conditions: this says nothing"
                                                  : " under the same conditions");
  }
  std::cout << (comparison.has_weights ? "" : " (no weights to compare)") << "\n";
  PrintDifferences("result", comparison.result);
  for (const std::string& name : comparison.weights) std::cout << "  weights " << name << "\n";
  PrintDifferences("code", comparison.code);
  PrintDifferences("data", comparison.data);
  PrintDifferences("environment", comparison.environment);
}

}  // namespace

ExitCode Repro(const ReproOptions& options, const Registries& registries) {
  CatchStopSignals(OnInterrupt::kStop);
  const CellResult stored = FindStored(options.out, options.cell);
  RequireRepeatable(stored);
  const Cell cell = PlanStored(stored, registries);
  const at::Device device = DeviceFor(cell, options.device);
  const TemporaryFolder folder;
  if (NamesTraining(cell.kind)) CopyWeights(options.out, stored, WasStrict(stored), folder.path());
  const auto again = RunAgain(cell, device, folder.path(), WasStrict(stored), options, registries);
  if (!again) {
    std::cerr << "stopped; nothing was compared\n";
    return ExitCode::kStoppedEarly;
  }
  if (again->state != CellState::kCompleted && again->state != CellState::kDiverged) {
    std::cerr << "error: it ended " << NameOf(again->state) << " this time: " << again->reason
              << "\n";
    return ExitCode::kCellsFailed;
  }
  const Comparison comparison = Compare(stored, options.out, *again, folder.path());
  if (options.json) {
    PrintJson(stored, comparison);
  } else {
    PrintText(stored, comparison);
  }
  return CodeOf(comparison);
}

}  // namespace mixerbench::harness
