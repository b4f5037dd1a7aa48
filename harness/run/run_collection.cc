// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_collection.h"

#include <chrono>
#include <filesystem>
#include <iostream>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>
#include <vector>

#include "harness/run/collection_report.h"
#include "harness/run/device_time.h"
#include "harness/run/run.h"
#include "harness/run/verdict_outputs.h"
#include "harness/suite/collection.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

// What the other suites of the collection used of its budget.
double DeviceTimeBeside(const CollectionItem& item, const std::filesystem::path& out) {
  double sum = 0;
  if (!std::filesystem::is_directory(out)) return sum;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    if (entry.path().filename() != item.name) sum += NotedDeviceTime(entry.path());
  }
  return sum;
}

RunOptions OptionsOf(const CollectionItem& item, const RunOptions& options,
                     const std::filesystem::path& out,
                     std::chrono::steady_clock::time_point start) {
  RunOptions of_item = options;
  if (!options.dry_run) of_item.outputs = {};  // they are of all suites
  of_item.started = start;
  of_item.suite = item.suite;
  of_item.out = (out / item.name).string();
  of_item.overrides = OverridesOf(item, options.overrides);
  if (of_item.max_device_s) *of_item.max_device_s -= DeviceTimeBeside(item, out);
  return of_item;
}

void CheckScore(const Collection& collection) {
  const auto rule = reports::ReadScoreRule(collection.config);
  if (!rule) return;
  reports::RequireSuites(*rule, collection.items | ranges::views::transform(&CollectionItem::name) |
                                    ranges::to<std::vector>());
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

ExitCode RunCollection(const RunOptions& options, const Registries& registries) {
  const auto start = std::chrono::steady_clock::now();
  const Collection collection = ReadCollection(options.suite);
  const std::filesystem::path out = options.out.empty() ? "out/" + collection.name : options.out;
  CheckFolder(out, collection);
  CheckScore(collection);
  // Everything that is wrong with a suite is found before another one has trained for hours.
  ParseItems(collection, options.overrides, registries);
  if (!options.dry_run) {
    RequireWritable(options.outputs, out);
    std::filesystem::create_directories(out);
    io::WriteFileAtomically((out / kCollectionFile).string(), io::DumpJson(collection.config, 2));
  }
  const auto end = [&](ExitCode code) {
    if (!options.dry_run) WriteCollectionVerdicts(options.outputs, out, code);
    return code;
  };
  ExitCode worst = ExitCode::kOk;
  for (const CollectionItem& item : collection.items) {
    if (options.dry_run) (options.outputs.json ? std::cerr : std::cout) << item.name << "\n";
    const ExitCode code = Run(OptionsOf(item, options, out, start), registries);
    if (!options.dry_run) WriteScore(out);
    if (code == ExitCode::kStoppedEarly) return end(code);
    if (code != ExitCode::kOk) worst = code;
  }
  return end(worst);
}

}  // namespace mixerbench::harness
