// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/prctl.h>

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

// Runs the cell described in `folder` and writes its result there.
reports::CellState RunCell(const std::filesystem::path& folder, at::Device device, double timeout_s,
                           const Registries& registries) {
  const auto config_path = (folder / "config.json").string();
  const Cell cell =
      CellFromValue(reports::ParseJson(reports::ReadFile(config_path, kMaxCellBytes)));
  const std::string started = UtcNow();
  const auto start = Clock::now();
  RunLimits limits;
  if (timeout_s > 0) {
    limits.deadline = start + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(timeout_s));
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
  reports::CellResult result = run(cell, device, registries, limits, progress);
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
  result.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  reports::WriteFileAtomically((folder / "result.json").string(), reports::DumpCell(result));
  emit({{"event", "end"}, {"state", std::string(NameOf(result.state))}});
  return result.state;
}

}  // namespace

int WorkerMain(const std::string& device_name, double cell_timeout_s,
               const Registries& registries) {
  // The parent decides what an interrupt means; a worker never outlives it.
  std::signal(SIGINT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const at::Device device = ParseDevice(device_name);
  for (std::string folder; std::getline(std::cin, folder);) {
    const reports::CellState state = RunCell(folder, device, cell_timeout_s, registries);
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
