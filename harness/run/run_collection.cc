// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_collection.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <optional>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/device.h"
#include "harness/run/collection_folder.h"
#include "harness/run/collection_report.h"
#include "harness/run/device_time.h"
#include "harness/run/enter_plan.h"
#include "harness/run/exit_order.h"
#include "harness/run/folder_report.h"
#include "harness/run/log_file.h"
#include "harness/run/merge_plan.h"
#include "harness/run/run.h"
#include "harness/run/run_folder.h"
#include "harness/run/verdict_outputs.h"
#include "harness/suite/collection.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/score/score.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {
namespace {

// What the other runs below `out` used of the budget.
double DeviceTimeBeside(const std::filesystem::path& item, const std::filesystem::path& out) {
  double sum = 0;
  if (!std::filesystem::is_directory(out)) return sum;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    if (entry.path() != item) sum += NotedDeviceTime(entry.path());
  }
  return sum;
}

// A suite of the collection and what its run is asked for.
struct ItemRun {
  RunOptions options;
  Suite suite;
};

// At its turn.
RunOptions OptionsOf(const ItemRun& run, const std::filesystem::path& out,
                     std::chrono::steady_clock::time_point start) {
  RunOptions options = run.options;
  if (!options.dry_run) options.outputs = {};  // they are of all suites
  options.started = start;
  if (options.max_device_s) *options.max_device_s -= DeviceTimeBeside(options.out, out);
  return options;
}

// Throws what any suite would throw at its turn, before one has trained for hours.
std::vector<ItemRun> CheckItems(const Collection& collection, const RunOptions& options,
                                const std::filesystem::path& out, const Registries& registries) {
  ParseItems(collection, options.overrides, registries);  // says all that is wrong with any
  const at::Device device = DeviceOf(options);
  std::vector<ItemRun> runs;
  for (const CollectionItem& item : collection.items) {
    ItemRun run{.options = options, .suite = {}};
    run.options.suite = item.suite;
    run.options.out = (out / item.name).string();
    run.options.overrides = OverridesOf(item, options.overrides);
    run.suite = ReadSuite(run.options, device, registries);
    CheckEntry(run.options.out, run.suite, run.options, registries);
    runs.push_back(std::move(run));
  }
  return runs;
}

// A suite that is not reached is then one whose cells are planned, and not one of which nobody
// knows.
void EnterPlans(const std::vector<ItemRun>& runs, const RunOptions& options,
                const Registries& registries) {
  std::optional<LogFile> log;  // as in each run later
  if (!options.log_file.empty()) log.emplace(options.log_file);
  for (const auto& [of_item, suite] : runs) {
    if (suite.cells.empty()) continue;  // the run says so
    const RunFolder folder(of_item.out);
    for (const std::string& text : EnterPlan(of_item.out, suite, of_item, registries)) {
      SayAtStart(text, options.quiet, log ? &*log : nullptr);
    }
    WriteReports(of_item.out);
  }
}

// A folder is for one collection: ranks of two would be mixed.
void CheckFolder(const std::filesystem::path& out, const Collection& collection) {
  if (!std::filesystem::exists(out / kCollectionFile)) return;
  const Value held =
      io::ParseJson(io::ReadFile((out / kCollectionFile).string(), io::JsonLimits{}.max_bytes));
  const Value* name = held.Find("name");
  if (name != nullptr && *name == Value(collection.name)) return;
  throw Error(ExitCode::kBadInput, out.string() + ": is for another collection; choose another -o");
}

}  // namespace

void CheckScore(const Collection& collection) {
  const auto rule = reports::ReadScoreRule(collection.config);
  if (!rule) return;
  reports::RequireSuites(*rule, collection.items | ranges::views::transform(&CollectionItem::name) |
                                    ranges::to<std::vector>());
}

void CheckNumSettings(const Collection& collection, const std::vector<Suite>& suites) {
  const auto rule = reports::ReadScoreRule(collection.config);
  if (!rule) return;
  std::vector<reports::ScoreInput> inputs;
  for (std::size_t i = 0; i < suites.size(); ++i) {
    auto planned =
        suites[i].cells | ranges::views::transform(PlannedCell) | ranges::to<std::vector>();
    inputs.push_back(
        {collection.items[i].name,
         reports::MakeSweepReport(suites[i].name, suites[i].config, std::move(planned))});
  }
  reports::RequireNumSettings(*rule, inputs);
}

ExitCode RunCollection(const RunOptions& options, const Registries& registries) {
  const auto start = std::chrono::steady_clock::now();
  const Collection collection = ReadCollection(options.suite);
  const std::filesystem::path out = options.out.empty() ? "out/" + collection.name : options.out;
  CheckFolder(out, collection);
  CheckScore(collection);
  std::vector<ItemRun> runs = CheckItems(collection, options, out, registries);
  if (!options.dry_run) {
    RequireWritable(options.outputs, out);
    std::filesystem::create_directories(out);
    io::WriteFileAtomically((out / kCollectionFile).string(), io::DumpJson(collection.config, 2));
    EnterPlans(runs, options, registries);
  }
  const auto end = [&](ExitCode code) {
    if (!options.dry_run) WriteCollectionVerdicts(options.outputs, out, code);
    return code;
  };
  ExitCode worst = ExitCode::kOk;
  for (ItemRun& run : runs) {
    if (options.dry_run) {
      (options.outputs.json ? std::cerr : std::cout) << run.suite.name << "\n";
    }
    const ExitCode code = Run(OptionsOf(run, out, start), std::move(run.suite), registries);
    if (!options.dry_run) WriteScore(out);
    if (code == ExitCode::kStoppedEarly) return end(code);
    worst = First(worst, code);
  }
  return end(worst);
}

}  // namespace mixerbench::harness
