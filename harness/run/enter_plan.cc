// SPDX-License-Identifier: Apache-2.0
#include "harness/run/enter_plan.h"

#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "harness/device/device.h"
#include "harness/run/kept_trainings.h"
#include "harness/run/merge_plan.h"
#include "harness/run/plan.h"
#include "harness/run/run_folder.h"
#include "harness/run/run_plan.h"
#include "harness/run/verdict_outputs.h"
#include "harness/suite/suite_text.h"

namespace mixerbench::harness {
namespace {

// What entering a suite in a plan that is there does to cells of the same trainings.
struct TestedOtherwise {
  std::size_t num_dropped = 0;                 // cells that left the plan
  std::vector<reports::CellResult> trainings;  // of the old plan, that new cells share
};

TestedOtherwise Changed(const Plan& old, const Plan& plan) {
  TestedOtherwise changed;
  std::set<std::string> before, now, new_trainings;
  for (const reports::CellResult& cell : old.cells) before.insert(cell.run_id);
  for (const reports::CellResult& cell : plan.cells) {
    now.insert(cell.run_id);
    if (!before.contains(cell.run_id)) new_trainings.insert(cell.training_id);
  }
  for (const reports::CellResult& cell : old.cells) {
    if (cell.training_id.empty() || !new_trainings.contains(cell.training_id)) continue;
    changed.num_dropped += now.contains(cell.run_id) ? 0 : 1;
    if (cell.kind == NameOf(CellKind::kTrain)) changed.trainings.push_back(cell);
  }
  return changed;
}

}  // namespace

at::Device DeviceOf(const RunOptions& options) {
  const at::Device device = ParseDevice(options.gpus.empty() ? options.device : "cuda");
  if (options.cell.require_device_cores && device.is_cpu()) {
    throw ConfigError("--require-device-cores",
                      "this run is on the CPU, where no core has device code; use --device cuda");
  }
  return device;
}

Suite ReadSuite(const RunOptions& options, at::Device device, const Registries& registries) {
  SuiteOverrides overrides = options.overrides;
  overrides.device_type = device.is_cuda() ? "cuda" : "cpu";
  Suite suite = ParseSuite(ReadSuiteText(options.suite), overrides, registries);
  if (options.throughput_only) {
    std::erase_if(suite.cells, [](const Cell& cell) { return cell.kind != CellKind::kThroughput; });
    if (suite.cells.empty()) {
      throw ConfigError("/throughput", "the suite measures no speed; add a throughput section");
    }
  }
  return suite;
}

void CheckEntry(const std::filesystem::path& out, const Suite& suite, const RunOptions& options,
                const Registries& registries) {
  RequireNotInTheWay(options.outputs, out);
  RequireNotInTheWay("--log-file", options.log_file, out);
  if (!std::filesystem::exists(out)) return;
  RequireOnlyOurs(out);
  MergePlan(ReadPlan(out), suite, options.plan, registries, out);
}

std::vector<std::string> EnterPlan(const std::filesystem::path& out, const Suite& suite,
                                   const RunOptions& options, const Registries& registries) {
  const FolderLock lock(out);
  const std::optional<Plan> old = ReadPlan(out);
  Plan plan = MergePlan(old, suite, options.plan, registries, out);
  for (reports::CellResult& cell : plan.cells) cell.reason.clear();  // why an earlier run left it
  WritePlan(out, plan);
  std::vector<std::string> said;
  if (!old) return said;
  const TestedOtherwise changed = Changed(*old, plan);
  if (changed.num_dropped > 0) {
    said.push_back(suite.name + ": " + Counted(changed.num_dropped, "cell") +
                   " of the plan give way to others that test the same trainings; their results "
                   "stay in the folder, and --plan merge keeps both");
  }
  const std::string why = WhyTrainedAgain(out, changed.trainings, options.cell.is_strict);
  if (!why.empty()) said.push_back(suite.name + ": " + why);
  return said;
}

}  // namespace mixerbench::harness
