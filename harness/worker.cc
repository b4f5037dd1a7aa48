// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/prctl.h>

#include "base/error.h"
#include "harness/checkpoint.h"
#include "harness/device.h"
#include "harness/environment.h"
#include "harness/run.h"
#include "harness/throughput.h"
#include "harness/train.h"
#include "reports/atomic_file.h"
#include "reports/json.h"
#include "reports/result_json.h"

namespace mixerbench::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxCellBytes = std::size_t{16} << 20;

volatile std::sig_atomic_t stop_requested = 0;  // set by the handler, read between steps

void RequestStop(int) { stop_requested = 1; }

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Value ProgressToValue(const Progress& progress) {
  Object object = {{"step", progress.step}, {"num_steps", progress.num_steps}};
  if (progress.validation_accuracy) object["validation_accuracy"] = *progress.validation_accuracy;
  return object;
}

// Runs the cell described in `folder` and writes its result there, unless it was interrupted.
reports::CellState RunCell(const std::filesystem::path& folder, at::Device device,
                           const WorkerOptions& options, const Registries& registries) {
  const auto config_path = (folder / "config.json").string();
  const Cell cell =
      CellFromValue(reports::ParseJson(reports::ReadFile(config_path, kMaxCellBytes)));
  const std::string started = UtcNow();
  const auto start = Clock::now();
  RunControl control;
  control.stop_requested = [] { return stop_requested != 0; };
  control.use_graphs = options.use_graphs;
  if (options.checkpoint_interval_s > 0) {
    control.checkpoint_folder = folder;
    control.checkpoint_interval_s = options.checkpoint_interval_s;
  }
  if (options.cell_timeout_s > 0) {
    control.deadline = start + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(options.cell_timeout_s));
  }
  std::ofstream events(folder / "events.jsonl", std::ios::app);
  const auto emit = [&](Object event) {
    event["elapsed_s"] = std::chrono::duration<double>(Clock::now() - start).count();
    events << reports::DumpJson(event) << std::endl;
  };
  emit({{"event", "start"}, {"started", started}});
  auto last_shown = start - std::chrono::hours(1);
  const ProgressCallback progress = [&](const Progress& p) {
    constexpr auto kInterval = std::chrono::milliseconds(250);
    if (Clock::now() - last_shown < kInterval) return;
    last_shown = Clock::now();
    const Value value = ProgressToValue(p);
    std::cout << "progress " << reports::DumpJson(value) << std::endl;
    emit(value.as_object());
  };
  SetNumerics(cell.train.dtype == Dtype::kTf32);
  const auto run = cell.kind == CellKind::kTrain ? RunTrainCell : RunThroughputCell;
  reports::CellResult result = run(cell, device, registries, control, progress);
  if (result.state == reports::CellState::kInterrupted) {
    emit({{"event", "end"}, {"state", std::string(NameOf(result.state))}});
    return result.state;
  }
  result.run_id = "sha256:" + cell.run_id;
  result.group_id = "sha256:" + cell.group_id;
  result.name = cell.name;
  result.seed = cell.seed;
  result.kind = cell.kind == CellKind::kTrain ? "train" : "throughput";
  result.partial = cell.limited;
  Value config = CellToValue(cell);
  for (const char* key : {"run_id", "group_id", "data_hash", "seed", "name"}) {
    config.as_object().erase(key);  // stand beside it
  }
  result.config = config;
  result.environment = DescribeEnvironment(device, cell.train.dtype);
  result.data_hash = cell.data_hash;
  result.started = started;
  result.wall_s += std::chrono::duration<double>(Clock::now() - start).count();
  reports::WriteFileAtomically((folder / "result.json").string(), reports::DumpCell(result));
  if (result.state == reports::CellState::kCompleted) CheckpointFolder::RemoveAll(folder);
  emit({{"event", "end"}, {"state", std::string(NameOf(result.state))}});
  return result.state;
}

}  // namespace

int WorkerMain(const WorkerOptions& options, const Registries& registries) {
  // The parent decides what an interrupt means; a worker never outlives it.
  std::signal(SIGINT, SIG_IGN);
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP}) std::signal(signal, RequestStop);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const at::Device device = ParseDevice(options.device);
  for (std::string folder; std::getline(std::cin, folder);) {
    const reports::CellState state = RunCell(folder, device, options, registries);
    if (state == reports::CellState::kInterrupted) {
      std::cout << "interrupted" << std::endl;
      return static_cast<int>(ExitCode::kStoppedEarly);
    }
    std::cout << "done" << std::endl;
    // After a failure on a GPU the context may be poisoned: let the parent start a fresh process.
    if (device.is_cuda() &&
        (state == reports::CellState::kError || state == reports::CellState::kOom)) {
      return 0;
    }
  }
  return 0;
}

}  // namespace mixerbench::harness
