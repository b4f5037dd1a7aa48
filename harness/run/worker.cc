// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <limits>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "harness/cells/analyse_cell.h"
#include "harness/cells/evaluate_cell.h"
#include "harness/cells/run_cell.h"
#include "harness/cells/throughput.h"
#include "harness/cells/train.h"
#include "harness/device/determinism.h"
#include "harness/device/device.h"
#include "harness/device/energy_shares.h"
#include "harness/device/gpu_monitor.h"
#include "harness/python/watch.h"
#include "harness/run/environment.h"
#include "harness/run/log_file.h"
#include "harness/run/plan.h"
#include "harness/run/run.h"
#include "harness/run/run_folder.h"
#include "harness/run/stop_signals.h"
#include "harness/suite/identity.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

constexpr int kUnusable = 3;  // exit status of a worker whose device no longer works
constexpr int kPollInterval_ms = 100;
// When memory lacks, the kernel shall kill a worker and not who speaks of it (-1000 to 1000).
constexpr int kFirstToGo = 500;

Value ProgressToValue(const Progress& progress) {
  Object object = {{"step", progress.step}, {"num_steps", progress.num_steps}};
  if (progress.validation_accuracy) object["validation_accuracy"] = *progress.validation_accuracy;
  return object;
}

decltype(&RunTrainCell) RunnerOf(CellKind kind) {
  switch (kind) {
    case CellKind::kTrain:
      return RunTrainCell;
    case CellKind::kThroughput:
      return RunThroughputCell;
    case CellKind::kEvaluate:
      return RunEvaluateCell;
    case CellKind::kAnalyse:
      return RunAnalyseCell;
  }
  Require(false, "a kind of cell that nobody runs");
  return nullptr;
}

// What the parent asks for: "ID" or "ID BATCH_SIZE".
struct Job {
  std::filesystem::path folder;
  std::int64_t batch_size = 0;  // to train with instead of the cell's; 0: the cell's
};

Job ParseJob(const std::filesystem::path& cells, const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return {cells / line};
  return {cells / line.substr(0, space), std::stoll(line.substr(space + 1))};
}

class Worker {
 public:
  Worker(const WorkerOptions& options, const Registries& registries)
      : device_(ParseDevice(options.device)),
        cells_(options.cells),
        options_(options.cell),
        registries_(registries),
        identifier_(registries),
        gpu_(GpuMonitor::At(PciBusId(device_))) {
    WarmUp(device_);
  }

  // Works on cells, each in a thread of its own, until the input ends or a stop is requested.
  // Returns when the last cell has ended.
  void Serve(int input) {
    std::vector<std::future<void>> jobs;  // which are waited for when this ends
    std::string text;
    while (!StopRequested()) {
      RemoveEnded(jobs);
      pollfd descriptor{input, POLLIN, 0};  // a signal may have come to another thread
      if (poll(&descriptor, 1, kPollInterval_ms) <= 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t count = read(input, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(count));
      for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        jobs.push_back(std::async(std::launch::async, &Worker::Work, this,
                                  ParseJob(cells_, text.substr(0, end))));
        text.erase(0, end + 1);
      }
    }
  }

 private:
  // A thread that nobody waited for keeps its stack, and a sweep has thousands of cells.
  static void RemoveEnded(std::vector<std::future<void>>& jobs) {
    std::erase_if(jobs, [](std::future<void>& job) {
      if (job.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
      job.get();
      return true;
    });
  }

  void Work(const Job& job) {
    const std::string id = job.folder.filename().string();
    try {
      const bool interrupted = !RunCell(job);
      Say((interrupted ? "interrupted " : "done ") + id);
    } catch (const std::exception& error) {
      const std::string reason = error.what();
      Say("failed " + id + " " + reason.substr(0, reason.find('\n')));
    }
  }

  // The cell described in `folder`, whose name its identity must give again: a file that was edited
  // describes another cell, and so does this program if it is not the one that planned it.
  Cell ReadCell(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "config.json";
    Cell cell = CellFromValue(io::ParseJson(io::ReadFile(path, io::JsonLimits{}.max_bytes)),
                              registries_.tasks);
    const std::lock_guard lock(identifier_mutex_);
    identifier_.Identify(cell);
    if (cell.run_id.starts_with(folder.filename().string())) return cell;
    throw Error(ExitCode::kBadInput,
                path.string() + ": describes another cell than the folder's; run again");
  }

  // The cell as if its suite had asked for this batch size: another experiment.
  Cell WithBatchSize(Cell cell, std::int64_t batch_size) {
    cell.train.batch_size = batch_size;
    const std::lock_guard lock(identifier_mutex_);
    identifier_.Identify(cell);
    return cell;
  }

  // Runs the cell described in the job's folder and writes its result there; false when it was
  // interrupted, which leaves none.
  bool RunCell(const Job& job) {
    const std::filesystem::path& folder = job.folder;
    const Cell planned = ReadCell(folder);
    const bool is_halved = job.batch_size > 0;
    const Cell cell = is_halved ? WithBatchSize(planned, job.batch_size) : planned;
    const std::string started = UtcNow();
    const auto start = Clock::now();
    EnergyShares::Share energy(energy_);
    const GpuState gpu_at_start = StateOf(gpu_);
    RunControl control;
    control.stop_requested = StopRequested;
    control.gpu = gpu_;
    control.energy_j = [&] { return energy.Joules(); };
    control.use_graphs = options_.use_graphs;
    control.require_device_cores = options_.require_device_cores;
    if (options_.timeout_s > 0) {
      control.deadline = start + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options_.timeout_s));
    }
    if (options_.checkpoint_interval_s > 0) {
      control.checkpoint_folder = CheckpointPath(folder, options_.is_strict, job.batch_size);
      std::filesystem::create_directories(control.checkpoint_folder);
      control.checkpoint_interval_s = options_.checkpoint_interval_s;
    }
    const std::int64_t kept_bytes = options_.weights_limit_mib << 20;
    // Other cells of the run need the weights of the training that was planned.
    const bool keeps_for_run = options_.keeps_weights_for_run && !is_halved;
    if (kept_bytes > 0 || keeps_for_run) {
      control.weights_folder = WeightsPath(cells_.parent_path(), options_.is_strict);
      control.max_weight_bytes =
          keeps_for_run ? std::numeric_limits<std::int64_t>::max() : kept_bytes;
    }
    if (!options_.log_items.empty()) {
      control.item_suffix = options_.log_items == "zstd" ? ".jsonl.zst" : ".jsonl";
      control.item_folder = folder;
    }
    std::ofstream events(folder / "events.jsonl", std::ios::app);
    const auto emit = [&](Object event) {
      event["elapsed_s"] = std::chrono::duration<double>(Clock::now() - start).count();
      events << io::DumpJson(event) << std::endl;
    };
    emit({{"event", "start"}, {"started", started}});
    auto last_shown = start - std::chrono::hours(1);
    const ProgressCallback progress = [&](const Progress& p) {
      constexpr auto kInterval = std::chrono::milliseconds(250);
      if (Clock::now() - last_shown < kInterval) return;
      last_shown = Clock::now();
      const Value value = ProgressToValue(p);
      Say("progress " + folder.filename().string() + " " + io::DumpJson(value));
      emit(value.as_object());
    };
    std::optional<PythonWatch> watch;
    if (RunsPython(cell)) watch.emplace(folder / kTracebackFile, WhenAsked::kEnds);
    SetNumerics(cell.train.dtype == Dtype::kTf32);
    if (options_.is_strict) BeStrict();
    reports::CellResult result = RunnerOf(cell.kind)(cell, device_, registries_, control, progress);
    const bool is_training = cell.kind == CellKind::kTrain;
    if (is_training && result.weights && result.weights->num_bytes > kept_bytes) {
      result.weights.reset();  // kept for this run alone
    }
    if (options_.is_strict) ExplainRefusal(result);
    if (is_halved) {
      result.run_id = ResultOf(planned).run_id;  // of the row that it is for
      result.halved_from = planned.train.batch_size;
    }
    emit({{"event", "end"}, {"state", std::string(NameOf(result.state))}});
    if (result.state == reports::CellState::kInterrupted) return false;
    result.environment = DescribeEnvironment(device_, cell.train.dtype, options_.is_strict, gpu_);
    result.machine = DescribeMachine(gpu_, gpu_at_start);
    result.started = started;
    AddSpent(SecondsSince(start), energy.Joules(), result);
    io::WriteFileAtomically(folder / "result.json", reports::DumpCell(result));
    if (result.state == reports::CellState::kCompleted) RemoveCheckpoints(folder);
    // After a failed kernel every call fails: let the parent start a fresh process.
    if (reports::EndedInError(result) && !DeviceWorks(device_)) std::_Exit(kUnusable);
    return true;
  }

  void Say(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::cout << line << std::endl;
  }

  at::Device device_;
  std::filesystem::path cells_;
  CellOptions options_;
  const Registries& registries_;
  CellIdentifier identifier_;
  std::mutex identifier_mutex_;
  GpuMonitor gpu_;
  EnergyShares energy_{[this] { return gpu_.EnergyJoules(); }};
  std::mutex mutex_;  // of stdout
};

// Standard input, out of reach of what runs here: code of a user, and what that starts, finds
// nothing there.
int KeepOrdersApart() {
  const int orders = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const io::Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (orders < 0 || dup2(nothing.get(), STDIN_FILENO) < 0) return STDIN_FILENO;
  return orders;
}

// Whether whoever was to send cells has died: nobody can write to the pipe any more.
bool IsOrphan(int input) {
  pollfd descriptor{input, POLLIN, 0};
  return poll(&descriptor, 1, 0) > 0 && (descriptor.revents & POLLHUP) != 0;
}

}  // namespace

int WorkerMain(const WorkerOptions& options, const Registries& registries) {
  CatchStopSignals(OnInterrupt::kIgnore);  // the parent decides what an interrupt means
  prctl(PR_SET_PDEATHSIG, SIGKILL);        // and its worker never outlives it
  const int orders = KeepOrdersApart();
  // Not even when it died before: another run may have begun the cell that it left in the pipe.
  if (IsOrphan(orders)) return static_cast<int>(ExitCode::kStoppedEarly);
  std::ofstream("/proc/self/oom_score_adj") << kFirstToGo;
  std::optional<LogFile> log;
  if (!options.log_file.empty()) log.emplace(options.log_file);
  Worker(options, registries).Serve(orders);
  return StopRequested() ? static_cast<int>(ExitCode::kStoppedEarly) : 0;
}

}  // namespace mixerbench::harness
