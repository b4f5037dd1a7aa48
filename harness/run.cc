// SPDX-License-Identifier: Apache-2.0
#include "harness/run.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <iostream>
#include <memory>
#include <poll.h>
#include <thread>
#include <unistd.h>

#include "harness/checkpoint.h"
#include "harness/device.h"
#include "harness/progress_line.h"
#include "harness/run_folder.h"
#include "harness/worker_process.h"
#include "harness/write_reports.h"
#include "reports/atomic_file.h"
#include "reports/json.h"
#include "reports/result_json.h"

namespace mixerbench::harness {
namespace {

using Clock = std::chrono::steady_clock;

// A worker that is this late past its time limit hangs: it is killed.
constexpr double kHangGrace_s = 10;
// Workers that were asked to stop get this long to save their cells.
constexpr std::chrono::seconds kStopGrace{10};
constexpr int kPollInterval_ms = 200;

volatile std::sig_atomic_t stop_requested = 0;  // set by the handler, read by the loop

void RequestStop(int) {
  if (stop_requested) _exit(130);  // the second interrupt leaves at once
  stop_requested = 1;
}

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string Label(const std::string& name, const std::string& kind, std::uint64_t seed) {
  return name + (kind == "train" ? " seed " + std::to_string(seed) : " " + kind);
}

std::string Label(const Cell& cell) {
  return Label(cell.name, cell.kind == CellKind::kTrain ? "train" : "throughput", cell.seed);
}

bool Succeeded(const reports::CellResult& result) {
  return result.state == reports::CellState::kCompleted;
}

bool Reusable(const reports::CellResult& result, RetryPolicy retry) {
  if (result.state == reports::CellState::kInterrupted) return false;
  return retry == RetryPolicy::kNone || (retry == RetryPolicy::kFailed && Succeeded(result));
}

// A worker and the cell it works on.
struct Slot {
  std::unique_ptr<WorkerProcess> process;
  std::optional<std::size_t> cell;
  std::optional<CellLock> lock;
  Clock::time_point started;
  std::string progress;
};

class Scheduler {
 public:
  Scheduler(const RunOptions& options, std::string device, const RunFolder& folder,
            const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
            std::vector<std::optional<reports::CellResult>>& results)
      : options_(options),
        device_(std::move(device)),
        folder_(folder),
        cells_(cells),
        pending_(pending.begin(), pending.end()),
        results_(results),
        line_(options.quiet) {}

  // False when a signal ended it early.
  bool Run(std::int64_t jobs) {
    slots_.resize(static_cast<std::size_t>(
        std::min<std::int64_t>(jobs, static_cast<std::int64_t>(pending_.size()))));
    num_pending_ = pending_.size();
    while (!stop_requested) {
      for (Slot& slot : slots_) {
        if (!slot.cell) Assign(slot);
      }
      if (Idle() && pending_.empty()) return true;
      Wait();
      line_.Update(Status());
    }
    StopWorkers();
    return false;
  }

 private:
  bool Idle() const {
    return std::none_of(slots_.begin(), slots_.end(),
                        [](const Slot& s) { return s.cell.has_value(); });
  }

  // Gives the slot the next cell that no other process works on.
  void Assign(Slot& slot) {
    for (std::size_t tries = pending_.size(); tries > 0; --tries) {
      const std::size_t index = pending_.front();
      pending_.pop_front();
      const Cell& cell = cells_[index];
      folder_.PrepareCell(cell);
      auto lock = CellLock::TryAcquire(folder_.CellPath(cell));
      std::string problem;
      if (!lock) {
        pending_.push_back(index);  // another process has it; look again later
        continue;
      }
      // Another process may have finished it since this one looked.
      if (auto result = folder_.LoadResult(cell, &problem);
          result && Reusable(*result, options_.retry)) {
        Finish(index, std::move(*result));
        continue;
      }
      Start(slot, index, std::move(*lock));
      return;
    }
  }

  void Start(Slot& slot, std::size_t index, CellLock lock) {
    const std::string folder = std::filesystem::absolute(folder_.CellPath(cells_[index])).string();
    std::error_code ignored;  // a stale result of a retried cell may or may not be there
    std::filesystem::remove(folder + "/result.json", ignored);
    if (options_.retry == RetryPolicy::kAll) CheckpointFolder::RemoveAll(folder);
    if (!slot.process || !slot.process->Send(folder)) {
      slot.process = std::make_unique<WorkerProcess>(WorkerArguments());
      slot.process->Send(folder);
    }
    slot.cell = index;
    slot.lock = std::move(lock);
    slot.started = Clock::now();
    slot.progress.clear();
  }

  std::vector<std::string> WorkerArguments() const {
    const WorkerOptions& worker = options_.worker;
    std::vector<std::string> arguments = {"worker",
                                          "--device",
                                          device_,
                                          "--cell-timeout",
                                          std::to_string(worker.cell_timeout_s),
                                          "--checkpoint-interval",
                                          std::to_string(worker.checkpoint_interval_s)};
    if (!worker.use_graphs) arguments.emplace_back("--no-graph");
    return arguments;
  }

  // Asks the workers to save their cells and waits until they have ended.
  void StopWorkers() {
    for (Slot& slot : slots_) {
      if (slot.cell) slot.process->AskToStop();
    }
    const auto deadline = Clock::now() + kStopGrace;
    while (!Idle() && Clock::now() < deadline) Wait();
  }

  void Wait() {
    std::vector<pollfd> descriptors;
    for (const Slot& slot : slots_) {
      if (slot.cell) descriptors.push_back({slot.process->read_descriptor(), POLLIN, 0});
    }
    poll(descriptors.data(), descriptors.size(), kPollInterval_ms);
    std::size_t next = 0;
    for (Slot& slot : slots_) {
      if (!slot.cell) continue;
      if (descriptors[next++].revents != 0) Hear(slot);
      if (slot.cell) CheckHang(slot);
    }
  }

  void Hear(Slot& slot) {
    const auto lines = slot.process->ReadLines();
    if (!lines) {
      const std::string end = slot.process->WaitAndDescribe();
      slot.process.reset();
      Collect(slot, reports::CellState::kError, "the worker process " + end);
      return;
    }
    for (const std::string& text : *lines) {
      if (text == "done") {
        Collect(slot, reports::CellState::kError, "the worker wrote no result");
        return;
      }
      if (text == "interrupted") {
        slot.process->WaitAndDescribe();
        slot.process.reset();
        Collect(slot, reports::CellState::kInterrupted, "a signal stopped it; its state is saved");
        return;
      }
      if (text.starts_with("progress ")) slot.progress = text.substr(9);
    }
  }

  void CheckHang(Slot& slot) {
    const double timeout_s = options_.worker.cell_timeout_s;
    if (timeout_s <= 0 || Seconds(Clock::now() - slot.started) < timeout_s + kHangGrace_s) return;
    slot.process->Kill();
    slot.process.reset();
    Collect(slot, reports::CellState::kTimeout, "the worker did not answer within its time limit");
  }

  // Takes the result that the worker left, or makes one that says why there is none.
  void Collect(Slot& slot, reports::CellState state, const std::string& reason) {
    const std::size_t index = *slot.cell;
    const Cell& cell = cells_[index];
    std::string problem;
    auto result = folder_.LoadResult(cell, &problem);
    if (!result) {
      result.emplace();
      result->run_id = "sha256:" + cell.run_id;
      result->group_id = "sha256:" + cell.group_id;
      result->name = cell.name;
      result->seed = cell.seed;
      result->kind = cell.kind == CellKind::kTrain ? "train" : "throughput";
      result->state = state;
      result->reason = problem.empty() ? reason : reason + "; " + problem;
      result->config = CellToValue(cell);
      result->data_hash = cell.data_hash;
      result->wall_s = Seconds(Clock::now() - slot.started);
      reports::WriteFileAtomically((folder_.CellPath(cell) / "result.json").string(),
                                   reports::DumpCell(*result));
    }
    slot.cell.reset();
    slot.lock.reset();
    worked_s_ += result->wall_s;
    ++num_worked_;
    Finish(index, std::move(*result));
  }

  void Finish(std::size_t index, reports::CellResult result) {
    ++num_finished_;
    std::string text = "[" + std::to_string(num_finished_) + "/" + std::to_string(num_pending_) +
                       "] " + Label(result.name, result.kind, result.seed) + ": " +
                       std::string(NameOf(result.state));
    if (!result.reason.empty()) text += " (" + result.reason + ")";
    for (const auto& row : result.accuracy) {
      if (!row.slice.empty() || !row.accuracy) continue;
      char accuracy[16];
      std::snprintf(accuracy, sizeof accuracy, " %.3f", *row.accuracy);
      text += accuracy;
    }
    line_.Print(text + ", " + std::to_string(result.step) + " steps, " +
                FormatDuration(result.wall_s));
    results_[index] = std::move(result);
  }

  std::string Status() const {
    std::string text =
        "[" + std::to_string(num_finished_) + "/" + std::to_string(num_pending_) + "]";
    for (const Slot& slot : slots_) {
      if (!slot.cell) continue;
      text += " " + Label(cells_[*slot.cell]);
      if (slot.progress.empty()) continue;
      const Value progress = reports::ParseJson(slot.progress);
      text += " step " + std::to_string(progress.Find("step")->as_int()) + "/" +
              std::to_string(progress.Find("num_steps")->as_int());
      if (const Value* accuracy = progress.Find("validation_accuracy")) {
        char number[16];
        std::snprintf(number, sizeof number, " val %.2f", accuracy->as_double());
        text += number;
      }
      text += ";";
    }
    if (num_worked_ > 0 && !slots_.empty()) {
      const double per_cell = worked_s_ / static_cast<double>(num_worked_);
      const double left = static_cast<double>(num_pending_ - num_finished_) * per_cell /
                          static_cast<double>(slots_.size());
      text += " eta " + FormatDuration(left);
    }
    return text;
  }

  const RunOptions& options_;
  std::string device_;
  const RunFolder& folder_;
  const std::vector<Cell>& cells_;
  std::deque<std::size_t> pending_;
  std::vector<std::optional<reports::CellResult>>& results_;
  ProgressLine line_;
  std::vector<Slot> slots_;
  std::size_t num_pending_ = 0;
  std::size_t num_finished_ = 0;
  std::size_t num_worked_ = 0;
  double worked_s_ = 0;
};

std::int64_t DefaultJobs(at::Device device) {
  if (device.is_cuda()) return 1;
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

void PrintPlan(const std::vector<Cell>& cells,
               const std::vector<std::optional<reports::CellResult>>& results) {
  std::size_t done = 0;
  double worked_s = 0;
  for (const auto& result : results) {
    if (!result) continue;
    ++done;
    worked_s += result->wall_s;
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string state = results[i] ? std::string(NameOf(results[i]->state)) : "to run";
    std::cout << cells[i].run_id.substr(0, 16) << "  " << state << "  " << Label(cells[i]) << "\n";
  }
  std::cout << cells.size() << " cells, " << done << " already done, " << cells.size() - done
            << " to run";
  if (done > 0 && done < cells.size()) {
    const double estimate =
        worked_s / static_cast<double>(done) * static_cast<double>(cells.size() - done);
    std::cout << "; about " << FormatDuration(estimate) << " of work, from the finished cells";
  }
  std::cout << "\n";
}

}  // namespace

ExitCode Run(const RunOptions& options, const Registries& registries) {
  const at::Device device = ParseDevice(options.worker.device);
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
  const std::filesystem::path out = options.out.empty() ? "out/" + suite.name : options.out;

  std::vector<std::optional<reports::CellResult>> results(suite.cells.size());
  std::vector<std::size_t> pending;
  if (options.dry_run && !std::filesystem::exists(out)) {
    PrintPlan(suite.cells, results);
    return ExitCode::kOk;
  }
  const RunFolder folder(out);
  for (std::size_t i = 0; i < suite.cells.size(); ++i) {
    std::string problem;
    auto result = folder.LoadResult(suite.cells[i], &problem);
    if (!problem.empty()) std::cerr << "warning: " << problem << "\n";
    if (result && Reusable(*result, options.retry)) {
      results[i] = std::move(result);
    } else {
      pending.push_back(i);
    }
  }
  if (options.dry_run) {
    PrintPlan(suite.cells, results);
    return ExitCode::kOk;
  }
  reports::WriteFileAtomically((out / "sweep.json").string(), reports::DumpJson(suite.config, 2));
  if (pending.empty()) {
    std::cerr << "nothing to do: all " << suite.cells.size() << " cells of '" << suite.name
              << "' are finished\n";
  } else {
    std::signal(SIGPIPE, SIG_IGN);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) std::signal(signal, RequestStop);
    const std::int64_t jobs = options.jobs > 0 ? options.jobs : DefaultJobs(device);
    Scheduler scheduler(options, device.str(), folder, suite.cells, pending, results);
    if (!scheduler.Run(jobs)) {
      std::cerr << "stopped; finished cells are saved, the same command continues\n";
      return ExitCode::kStoppedEarly;
    }
  }
  std::vector<reports::CellResult> cells;
  for (auto& result : results) cells.push_back(std::move(*result));
  WriteReports(out, suite.name, suite.config, cells);
  const auto failed =
      std::count_if(cells.begin(), cells.end(), [](const auto& cell) { return !Succeeded(cell); });
  std::cerr << "done: " << cells.size() - static_cast<std::size_t>(failed) << " completed, "
            << failed << " not -> " << std::filesystem::absolute(out / "report.json").string()
            << "\n";
  return failed == 0 ? ExitCode::kOk : ExitCode::kCellsFailed;
}

}  // namespace mixerbench::harness
