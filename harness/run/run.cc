// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "harness/device/device.h"
#include "harness/run/folder_report.h"
#include "harness/run/log_file.h"
#include "harness/run/merge_plan.h"
#include "harness/run/plan.h"
#include "harness/run/run_folder.h"
#include "harness/run/run_plan.h"
#include "harness/run/scheduler.h"
#include "harness/run/stop_signals.h"
#include "harness/suite/suite.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

// "all" or "0,2": the GPUs by their numbers.
std::vector<std::string> ParseGpus(const std::string& text) {
  std::vector<std::string> devices;
  if (text == "all") {
    for (int i = 0; i < CountGpus(); ++i) devices.push_back("cuda:" + std::to_string(i));
    if (devices.empty()) ParseDevice("cuda");  // says why there is none
    return devices;
  }
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    devices.push_back(ParseDevice("cuda:" + item).str());
  }
  return devices;
}

// Cells at once on a GPU unless --jobs says otherwise: more gained nothing on the largest current
// GPU and need memory (docs/PERFORMANCE.md). A cell that lacks memory beside others is tried again
// alone.
constexpr std::int64_t kCellsPerGpu = 4;

// Where workers run and how many cells each has at once. CPU workers have one thread and one cell,
// so that their number changes no result.
SchedulerOptions PlanWorkers(const RunOptions& options, at::Device device) {
  SchedulerOptions plan;
  plan.cell = options.cell;
  plan.stall_timeout_s = options.stall_timeout_s;
  plan.time_limit_s = options.time_limit_s;
  plan.retry = options.retry;
  plan.quiet = options.quiet;
  plan.worker_program = options.worker_program;
  if (device.is_cpu()) {
    const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
    plan.devices.assign(static_cast<std::size_t>(options.jobs > 0 ? options.jobs : cores), "cpu");
    return plan;
  }
  plan.devices = options.gpus.empty() ? std::vector{device.str()} : ParseGpus(options.gpus);
  plan.cells_per_worker = options.jobs > 0 ? options.jobs : kCellsPerGpu;
  return plan;
}

void PrintCells(const std::vector<Cell>& cells, const CellResults& results) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string state = results[i] ? std::string(NameOf(results[i]->state)) : "to run";
    std::cout << cells[i].run_id.substr(0, 16) << "  " << state << "  " << Label(cells[i]) << "\n";
  }
}

// Finished results that may stand; what is damaged is reported and runs again.
void LoadResults(const RunFolder& folder, const std::vector<Cell>& cells, RetryPolicy retry,
                 const CellOptions& options, CellResults& results) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (results[i]) continue;
    std::string problem;
    auto result = folder.LoadResult(cells[i], &problem);
    if (!problem.empty()) std::cerr << "warning: " << problem << "\n";
    if (result && Reusable(*result, retry, options)) results[i] = std::move(result);
  }
}

// Enters the cells of the suite in the plan of the folder.
void UpdatePlan(const std::filesystem::path& out, const Suite& suite, PlanPolicy policy,
                const Registries& registries) {
  const FolderLock lock(out);
  WritePlan(out, MergePlan(ReadPlan(out), suite, policy, registries, out));
}

// Completed, and not, of the cells that have a result now.
ExitCode CountStates(const std::filesystem::path& out, const CellResults& results) {
  std::size_t completed = 0, failed = 0;
  for (const auto& result : results) {
    if (!result) continue;
    ++(result->state == reports::CellState::kCompleted ? completed : failed);
  }
  std::cerr << "done: " << completed << " completed, " << failed << " not -> "
            << std::filesystem::absolute(out / "report.json").string() << "\n";
  return failed == 0 ? ExitCode::kOk : ExitCode::kCellsFailed;
}

void SayAtStart(const std::string& text, bool quiet, LogFile* log) {
  if (!quiet) std::cerr << text << "\n";
  if (quiet && log != nullptr) log->Write(text);
}

ExitCode StoppedEarly() {
  std::cerr << "stopped; finished cells are saved, the same command continues\n";
  return ExitCode::kStoppedEarly;
}

// `log` may be nullptr.
ExitCode RunSuite(const RunOptions& options, const Registries& registries, LogFile* log) {
  const auto start = std::chrono::steady_clock::now();
  CatchStopSignals(OnInterrupt::kStop);
  const at::Device device = ParseDevice(options.gpus.empty() ? options.device : "cuda");
  if (options.cell.require_device_cores && device.is_cpu()) {
    throw ConfigError("--require-device-cores",
                      "this run is on the CPU, where no core has device code; use --device cuda");
  }
  SuiteOverrides overrides = options.overrides;
  overrides.device_type = device.is_cuda() ? "cuda" : "cpu";
  Suite suite = ParseSuite(ReadSuiteText(options.suite), overrides, registries);
  if (options.throughput_only) {
    std::erase_if(suite.cells, [](const Cell& cell) { return cell.kind != CellKind::kThroughput; });
    if (suite.cells.empty()) {
      throw ConfigError("/throughput", "the suite measures no speed; add a throughput section");
    }
  }
  if (suite.cells.empty()) {
    throw Error(ExitCode::kNothingSelected, "the suite has no cells: sweep.exclude leaves none");
  }
  SchedulerOptions plan = PlanWorkers(options, device);
  plan.time_limit_start = options.started.value_or(start);
  plan.log = log;
  const std::filesystem::path out = options.out.empty() ? "out/" + suite.name : options.out;

  CellResults results(suite.cells.size());
  const auto summary = [&] {
    return Summarize(suite.cells, FindPending(suite.cells, options.shard, results), results,
                     plan.devices.size(), plan.cells_per_worker);
  };
  const auto print_plan = [&] {
    PrintCells(suite.cells, results);
    std::cout << summary() << "\n";
    return ExitCode::kOk;
  };
  if (StopRequested()) return StoppedEarly();
  if (options.dry_run && !std::filesystem::exists(out)) return print_plan();
  const RunFolder folder(out);
  if (options.dry_run) {
    MergePlan(ReadPlan(out), suite, options.plan, registries, out);  // may refuse
    LoadResults(folder, suite.cells, options.retry, options.cell, results);
    return print_plan();
  }
  UpdatePlan(out, suite, options.plan, registries);
  LoadResults(folder, suite.cells, options.retry, options.cell, results);
  SayAtStart(suite.name + ": " + summary(), options.quiet, log);
  const auto pending = FindPending(suite.cells, options.shard, results);
  if (pending.empty()) {
    std::cerr << "nothing to do: all "
              << (options.shard.count > 1 ? "cells of this shard of '"
                                          : std::to_string(suite.cells.size()) + " cells of '")
              << suite.name << "' are finished\n";
  } else {
    WriteReports(out);  // a run that is killed leaves no report of an earlier one that looks whole
    const bool finished =
        Scheduler(plan, registries.tasks, folder, suite.cells, pending, results).Run();
    if (!finished) {
      WriteReports(out);
      return StoppedEarly();
    }
  }
  WriteReports(out);
  if (options.shard.count > 1)
    LoadResults(folder, suite.cells, RetryPolicy::kNone, options.cell, results);
  if (const auto missing = std::count(results.begin(), results.end(), std::nullopt); missing > 0) {
    std::cerr << "this shard is done; " << missing << " of " << results.size()
              << " cells are left to others\n";
  }
  return CountStates(out, results);
}

}  // namespace

ExitCode Run(const RunOptions& options, const Registries& registries) {
  if (options.log_file.empty() || options.dry_run) return RunSuite(options, registries, nullptr);
  LogFile log(options.log_file);
  try {
    const ExitCode code = RunSuite(options, registries, &log);
    log.Write("exit code " + std::to_string(static_cast<int>(code)));
    return code;
  } catch (const std::exception& error) {
    log.Write(std::string("error: ") + error.what());
    throw;
  }
}

}  // namespace mixerbench::harness
