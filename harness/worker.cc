// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <vector>

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

constexpr int kUnusable = 3;  // exit status of a worker whose device no longer works

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

class Worker {
 public:
  Worker(at::Device device, double cell_timeout_s, const Registries& registries)
      : device_(device), cell_timeout_s_(cell_timeout_s), registries_(registries) {
    WarmUp(device);
  }

  // Works on cells, each in a thread of its own, until the input ends.
  void Serve(std::istream& input) {
    std::vector<std::jthread> threads;
    for (std::string folder; std::getline(input, folder);) {
      threads.emplace_back([this, folder = std::filesystem::path(folder)] {
        const reports::CellState state = RunCell(folder);
        // After a failed kernel every call fails: let the parent start a fresh process.
        if (state == reports::CellState::kError && !DeviceWorks(device_)) std::_Exit(kUnusable);
        Say("done " + folder.filename().string());
      });
    }
  }

 private:
  // Runs the cell described in `folder` and writes its result there.
  reports::CellState RunCell(const std::filesystem::path& folder) {
    const Value config = reports::ParseJson(
        reports::ReadFile(folder / "config.json", reports::JsonLimits{}.max_bytes));
    const Cell cell = CellFromValue(config, registries_.tasks);
    const std::string started = UtcNow();
    const auto start = Clock::now();
    RunLimits limits;
    if (cell_timeout_s_ > 0) {
      limits.deadline = start + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(cell_timeout_s_));
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
      Say("progress " + folder.filename().string() + " " + reports::DumpJson(value));
      emit(value.as_object());
    };
    SetNumerics(cell.train.dtype == Dtype::kTf32);
    const StreamScope stream(device_);
    const auto run = cell.kind == CellKind::kTrain ? RunTrainCell : RunThroughputCell;
    reports::CellResult result = run(cell, device_, registries_, limits, progress);
    result.environment = DescribeEnvironment(device_, cell.train.dtype);
    result.started = started;
    result.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
    reports::WriteFileAtomically(folder / "result.json", reports::DumpCell(result));
    emit({{"event", "end"}, {"state", std::string(NameOf(result.state))}});
    return result.state;
  }

  void Say(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::cout << line << std::endl;
  }

  at::Device device_;
  double cell_timeout_s_;
  const Registries& registries_;
  std::mutex mutex_;  // of stdout
};

}  // namespace

int WorkerMain(const std::string& device, double cell_timeout_s, const Registries& registries) {
  // The parent decides what an interrupt means; a worker never outlives it.
  std::signal(SIGINT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Worker(ParseDevice(device), cell_timeout_s, registries).Serve(std::cin);
  return 0;
}

}  // namespace mixerbench::harness
