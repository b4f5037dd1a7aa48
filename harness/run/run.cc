// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "harness/device/device.h"
#include "harness/run/device_time.h"
#include "harness/run/disk_need.h"
#include "harness/run/enter_plan.h"
#include "harness/run/folder_report.h"
#include "harness/run/fresh_seeds.h"
#include "harness/run/kept_trainings.h"
#include "harness/run/log_file.h"
#include "harness/run/merge_plan.h"
#include "harness/run/plan.h"
#include "harness/run/run_folder.h"
#include "harness/run/run_plan.h"
#include "harness/run/scheduler.h"
#include "harness/run/stop_signals.h"
#include "harness/run/verdict_outputs.h"
#include "harness/training/memory_need.h"
#include "io/json.h"
#include "io/text.h"
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
  plan.max_device_s = options.max_device_s;
  plan.retry = options.retry;
  plan.on_oom = options.on_oom;
  plan.quiet = options.quiet;
  plan.worker_command = options.worker_command;
  if (device.is_cpu()) {
    const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
    plan.devices.assign(static_cast<std::size_t>(options.jobs > 0 ? options.jobs : cores), "cpu");
    return plan;
  }
  plan.devices = options.gpus.empty() ? std::vector{device.str()} : ParseGpus(options.gpus);
  plan.cells_per_worker = options.jobs > 0 ? options.jobs : kCellsPerGpu;
  return plan;
}

void PrintCells(const std::vector<Cell>& cells, const Shard& shard, const CellResults& results,
                std::ostream& stream) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string state = results[i]                 ? std::string(NameOf(results[i]->state))
                              : InShard(cells[i], shard) ? "to run"
                                                         : "other shard";
    stream << cells[i].run_id.substr(0, 16) << "  " << state << "  " << Label(cells[i]) << "\n";
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

ExitCode StoppedEarly() {
  std::cerr << "stopped; finished cells are saved, the same command continues\n";
  return ExitCode::kStoppedEarly;
}

// Cells that are worked on together, and what is known of them.
struct Batch {
  std::vector<Cell> cells;
  Shard shard;
  CellResults results = CellResults(cells.size());
};

// A suite in its folder: what it sweeps, then the fresh seeds of what that chose.
class SuiteRun {
 public:
  // The options and registries must outlive it; `log` may be nullptr.
  SuiteRun(const RunOptions& options, const Registries& registries, LogFile* log, at::Device device,
           Suite suite)
      : options_(options),
        registries_(registries),
        log_(log),
        device_(device),
        suite_(std::move(suite)),
        workers_(PlanWorkers(options, device)),
        out_(options.out.empty() ? "out/" + suite_.name : options.out) {
    workers_.log = log;
  }

  ExitCode PrintPlan() {
    const bool is_new = !std::filesystem::exists(out_);
    if (!is_new) folder_.emplace(out_);
    const auto old = is_new ? std::nullopt : ReadPlan(out_);
    const Plan plan = MergePlan(old, suite_, options_.plan, registries_, out_);  // may refuse
    Batch sweep{suite_.cells, options_.shard};
    Batch second = BatchOf(FindFreshSeeds(plan, out_, registries_));
    // With --json stdout has the report as it stands, where what is to run is planned: a line, as a
    // collection prints several.
    std::ostream& people = options_.outputs.json ? std::cerr : std::cout;
    std::string text = Print(sweep, people);
    if (!fresh_text_.empty()) {
      Print(second, people);
      text += "; then " + fresh_text_;
    }
    people << text << MemoryOf(sweep) << DiskOf(sweep) << "\n";
    if (options_.outputs.json) {
      std::cout << io::DumpJson(reports::SweepToValue(ReportOf(out_, plan))) << "\n";
    }
    return ExitCode::kOk;
  }

  ExitCode Run(std::chrono::steady_clock::time_point start) {
    const VerdictOutputs& outputs = options_.outputs;
    RequireNotInTheWay(outputs, out_);
    RequireWritable(outputs, out_);
    const ExitCode code = options_.CodeOf(RunCells(start));
    if (options_.outputs.AnyWanted()) WriteVerdicts(options_.outputs, {ReportOf(out_)}, {}, code);
    return code;
  }

 private:
  // Leaves a report of how far it came, whatever it returns.
  ExitCode RunCells(std::chrono::steady_clock::time_point start) {
    workers_.time_limit_start = options_.started.value_or(start);
    Batch sweep{suite_.cells, options_.shard};
    const bool is_new = !std::filesystem::exists(out_);
    if (is_new) RequireSpace(sweep);  // nothing is written when it lacks
    folder_.emplace(out_);
    if (!is_new) RequireDeviceTime(sweep);
    for (const std::string& text : EnterPlan(out_, suite_, options_, registries_)) {
      SayAtStart(text, options_.quiet, log_);
    }
    if (const RunEnd end = Work(sweep, ""); end != RunEnd::kFinished) return EndEarly(end, sweep);
    // Any shard that finds a choice trains for it: nobody knows which of them is the last.
    Batch second = BatchOf(PlanFreshSeeds(out_, registries_));
    if (!second.cells.empty()) {
      const RunEnd end = Work(second, ", " + fresh_text_);
      if (end != RunEnd::kFinished) return EndEarly(end, second);
    }
    WriteReports(out_);
    return Conclude({&sweep, &second});
  }

  // Of this command's settings, and says which there are.
  Batch BatchOf(FreshSeeds fresh) {
    std::set<std::string> groups;
    for (const Cell& cell : suite_.cells) groups.insert(cell.group_id);
    std::erase_if(fresh.cells, [&](const Cell& cell) { return !groups.contains(cell.group_id); });
    if (!options_.throughput_only) fresh_text_ = FreshSeedsText(fresh.reseeds);
    num_open_ = std::count_if(fresh.reseeds.begin(), fresh.reseeds.end(),
                              [](const auto& reseed) { return reseed.group_id.empty(); });
    return Batch{std::move(fresh.cells), Shard{}};
  }

  std::string SummaryOf(const Batch& batch) const {
    return Summarize(batch.cells, FindPending(batch.cells, batch.shard, batch.results),
                     batch.results, workers_.devices.size(), workers_.cells_per_worker);
  }

  // "; memory at least 64 MiB for mqar/gla/lr=0.01, 256 MiB for 4 like it at once, of 79.1 GiB".
  std::string MemoryOf(const Batch& batch) const {
    const auto pending = FindPending(batch.cells, batch.shard, batch.results);
    const auto largest = FindLargest(batch.cells, pending, device_, registries_);
    if (!largest) return "";
    // On the CPU all workers share one memory.
    const auto slots = (device_.is_cpu() ? workers_.devices.size() : 1) *
                       static_cast<std::size_t>(workers_.cells_per_worker);
    const auto at_once = std::min(slots, pending.size());
    return "; memory at least " + io::FormatBytes(largest->bytes) + " for " + largest->name +
           (at_once > 1
                ? ", " + io::FormatBytes(largest->bytes * static_cast<std::int64_t>(at_once)) +
                      " for " + std::to_string(at_once) + " like it at once"
                : "") +
           ", of " + io::FormatBytes(static_cast<std::int64_t>(TotalMemory(device_)));
  }

  DiskNeed DiskNeedOf(const Batch& batch) const {
    const auto slots =
        workers_.devices.size() * static_cast<std::size_t>(workers_.cells_per_worker);
    return EstimateDisk(batch.cells, FindPending(batch.cells, batch.shard, batch.results), slots,
                        options_.cell, device_, out_, registries_);
  }

  // "; disk 5 MiB to 12 MiB (results 3 MiB, ...), of 20 GiB free".
  std::string DiskOf(const Batch& batch) const {
    const DiskNeed need = DiskNeedOf(batch);
    if (need.total() == 0) return "";
    const auto free = options_.free_space(out_);
    return "; disk " + DescribeDisk(need) +
           (free ? ", of " + io::FormatBytes(*free) + " free" : "");
  }

  // Refuses what cannot fit in the file system, and says once when it may not.
  void RequireSpace(const Batch& batch) {
    const auto free = options_.free_space(out_);
    if (!free) return;
    const DiskNeed need = DiskNeedOf(batch);
    const auto have = static_cast<double>(*free);
    const std::string text = out_.string() + ": needs " + DescribeDisk(need) + ", and " +
                             io::FormatBytes(*free) + " are free";
    if (need.least() > have) {
      throw Error(ExitCode::kOutput,
                  text + "; make room, choose another -o or --keep-weights none");
    }
    if (2 * need.total() > have && !std::exchange(said_space_, true)) {
      std::cerr << "warning: " << text << "\n";
    }
  }

  // Refuses what finished cells say will take longer than --max-gpu-hours leaves. Where none tells,
  // or when the time is used already, the run goes on and stops at the budget; of a collection,
  // whose suites share it, too.
  void RequireDeviceTime(Batch& batch) {
    if (!options_.max_device_s || options_.started) return;
    LoadResults(*folder_, batch.cells, options_.retry, options_.cell, batch.results);
    const auto left =
        EtaFrom(batch.cells, batch.results, workers_.devices.size(), workers_.cells_per_worker)
            .DeviceTime(
                WaitingOf(batch.cells, FindPending(batch.cells, batch.shard, batch.results)));
    const double used = NotedDeviceTime(out_);
    if (used >= *options_.max_device_s || used + left.seconds <= *options_.max_device_s) return;
    throw ConfigError("--max-gpu-hours",
                      "what is to run takes about " + FormatLeft(left) +
                          " of device time by the cells that are finished, and " +
                          FormatDuration(*options_.max_device_s - used) +
                          " are left; raise it or run a part, such as fewer --seeds");
  }

  std::string Print(Batch& batch, std::ostream& stream) const {
    if (folder_) {
      LoadResults(*folder_, batch.cells, options_.retry, options_.cell, batch.results);
    }
    PrintCells(batch.cells, batch.shard, batch.results, stream);
    return SummaryOf(batch);
  }

  // Runs what has no result.
  RunEnd Work(Batch& batch, const std::string& what) {
    LoadResults(*folder_, batch.cells, options_.retry, options_.cell, batch.results);
    const bool is_strict = options_.cell.is_strict;
    const std::string again = ForgetTrainingsWithoutWeights(
        out_, batch.cells, FindPending(batch.cells, batch.shard, batch.results), is_strict,
        batch.results);
    const auto pending = FindPending(batch.cells, batch.shard, batch.results);
    SayAtStart(suite_.name + what + ": " + SummaryOf(batch) +
                   KeptWeightsText(out_, batch.cells, pending, is_strict),
               options_.quiet, log_);
    if (!again.empty()) SayAtStart(suite_.name + what + ": " + again, options_.quiet, log_);
    RequireSpace(batch);
    if (pending.empty()) {
      const bool is_part = batch.shard.count > 1;
      std::cerr << "nothing to do: all "
                << (is_part ? "cells of this shard" : std::to_string(batch.cells.size()) + " cells")
                << " of '" << suite_.name << what << "' are finished\n";
      return RunEnd::kFinished;
    }
    WriteReports(out_);  // a run that is killed leaves no report of an earlier one that looks whole
    const RunEnd end =
        Scheduler(workers_, registries_.tasks, *folder_, batch.cells, pending, batch.results).Run();
    RemoveUsedWeights(out_, batch.cells, batch.results, options_.cell.weights_limit_mib << 20,
                      is_strict);
    return end;
  }

  ExitCode EndEarly(RunEnd end, const Batch& batch) const {
    if (end == RunEnd::kBudgetUsed) {
      const auto pending = FindPending(batch.cells, batch.shard, batch.results);
      const std::string reason = "not started: the device time of --max-gpu-hours is used";
      std::cerr << Counted(pending.size(), "cell") << " " << reason << ", "
                << FormatDuration(NotedDeviceTime(out_)) << " in this folder\n";
      ExplainMissing(batch.cells, pending, reason);
    }
    WriteReports(out_);
    return end == RunEnd::kBudgetUsed ? ExitCode::kMissing : StoppedEarly();
  }

  // In the plan, whose next run forgets it.
  void ExplainMissing(const std::vector<Cell>& cells, const std::vector<std::size_t>& missing,
                      const std::string& reason) const {
    std::set<std::string> ids;
    for (const std::size_t i : missing) ids.insert("sha256:" + cells[i].run_id);
    const FolderLock lock(out_);
    Plan plan = *ReadPlan(out_);
    for (reports::CellResult& cell : plan.cells) {
      if (ids.contains(cell.run_id)) cell.reason = reason;
    }
    WritePlan(out_, plan);
  }

  // Says what is left to others, and how the cells ended.
  ExitCode Conclude(const std::vector<Batch*>& batches) {
    std::size_t completed = 0, failed = 0, missing = 0, throttled = 0, all = 0;
    for (Batch* batch : batches) {
      if (batch->shard.count > 1) {
        LoadResults(*folder_, batch->cells, RetryPolicy::kNone, options_.cell, batch->results);
      }
      for (const auto& result : batch->results) {
        ++all;
        const bool is_complete = result && reports::IsWhole(*result);
        ++(!result ? missing : is_complete ? completed : failed);
        throttled += result && WasThrottled(*result);
      }
    }
    if (missing > 0) {
      std::cerr << "this shard is done; " << missing << " of " << all
                << " cells are left to others\n";
    }
    if (num_open_ > 0 && !fresh_text_.empty()) {
      std::cerr << "still to be chosen: " << fresh_text_
                << "; the same command goes on once the cells that choose are finished\n";
    }
    std::cerr << "done: " << completed << " completed, " << failed << " not -> "
              << std::filesystem::absolute(out_ / "report.json").string() << "\n";
    if (throttled > 0) {
      std::cerr << "the GPU was slowed down while " << throttled
                << " of the cells were timed, whose result says why; the same command times them "
                   "again\n";
      return ExitCode::kEnvironment;
    }
    return failed == 0 ? ExitCode::kOk : ExitCode::kCellsFailed;
  }

  const RunOptions& options_;
  const Registries& registries_;
  LogFile* log_;
  at::Device device_;
  Suite suite_;
  SchedulerOptions workers_;
  std::filesystem::path out_;
  std::optional<RunFolder> folder_;
  std::string fresh_text_;       // "1 chosen setting x 5 fresh seeds (...)"
  std::ptrdiff_t num_open_ = 0;  // competitions without a choice
  bool said_space_ = false;      // that disk space is scarce
};

// Where the run goes, before the suite was read, which may name it: then out/<any name>, if the log
// is meant to lie in one of these.
std::filesystem::path LikelyFolder(const RunOptions& options) {
  if (!options.out.empty()) return options.out;
  return std::filesystem::path("out") /
         std::filesystem::absolute(options.log_file).parent_path().filename();
}

using SuiteReader = std::function<Suite(at::Device)>;

// `log` may be nullptr.
ExitCode RunSuite(const RunOptions& options, const SuiteReader& read, const Registries& registries,
                  LogFile* log) {
  const auto start = std::chrono::steady_clock::now();
  CatchStopSignals(OnInterrupt::kStop);
  const at::Device device = DeviceOf(options);
  Suite suite = read(device);
  if (suite.cells.empty()) {
    const std::string problem = "the suite has no cells: sweep.exclude leaves none";
    const ExitCode code = options.CodeOf(ExitCode::kNothingSelected);
    if (code != ExitCode::kOk) throw Error(code, problem);
    std::cerr << problem << "\n";
    return code;
  }
  SuiteRun run(options, registries, log, device, std::move(suite));
  if (StopRequested()) return StoppedEarly();
  return options.dry_run ? run.PrintPlan() : run.Run(start);
}

ExitCode RunLogged(const RunOptions& options, const SuiteReader& read,
                   const Registries& registries) {
  if (options.log_file.empty() || options.dry_run) {
    return RunSuite(options, read, registries, nullptr);
  }
  const std::filesystem::path out = LikelyFolder(options);
  RequireNotInTheWay("--log-file", options.log_file, out);
  if (FolderOf(options.log_file) == FolderOf(out / "any")) {
    std::filesystem::create_directories(out);  // the log of a first run is there before its plan
  }
  LogFile log(options.log_file);
  try {
    const ExitCode code = RunSuite(options, read, registries, &log);
    log.Write("exit code " + std::to_string(static_cast<int>(code)));
    return code;
  } catch (const std::exception& error) {
    log.Write(std::string("error: ") + error.what());
    throw;
  }
}

}  // namespace

ExitCode Run(const RunOptions& options, const Registries& registries) {
  const auto read = [&](at::Device device) { return ReadSuite(options, device, registries); };
  return RunLogged(options, read, registries);
}

ExitCode Run(const RunOptions& options, Suite suite, const Registries& registries) {
  return RunLogged(
      options, [&](at::Device) { return std::move(suite); }, registries);
}

}  // namespace mixerbench::harness
