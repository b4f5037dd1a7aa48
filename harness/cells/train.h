// Trains one cell and scores it. Everything that can go wrong inside becomes a state of the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "harness/device/gpu_monitor.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

struct Progress {
  std::int64_t step = 0;
  std::int64_t num_steps = 0;  // at most; early stopping may end sooner
  std::optional<double> validation_accuracy;
};

// How a cell runs. Nothing here changes its results.
struct RunControl {
  std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;  // then kTimeout
  // Asked between steps: true saves the state and ends the cell as kInterrupted.
  std::function<bool()> stop_requested = nullptr;
  // Where checkpoints lie; empty: none are read or written.
  std::filesystem::path checkpoint_folder = {};
  double checkpoint_interval_s = 60;
  // Where final weights lie (training/weights.h); empty: none are read or written. Larger ones than
  // this are not kept.
  std::filesystem::path weights_folder = {};
  std::int64_t max_weight_bytes = 0;
  // Every scored position of test segment K is written to "items-K" and this in item_folder:
  // ".jsonl" or ".jsonl.zst". Empty: none are written.
  std::string item_suffix = {};
  std::filesystem::path item_folder = {};
  GpuMonitor gpu = {};  // that the cell runs on; says why what is timed is slow
  // Joules that this attempt has used so far; nothing: not known.
  std::function<std::optional<double>()> energy_j = [] { return std::nullopt; };
  bool use_graphs = true;             // on a GPU
  bool require_device_cores = false;  // a core without device code makes the cell unsupported
};

// Called after every logging interval and every evaluation batch.
using ProgressCallback = std::function<void(const Progress&)>;

// A training cell: learning curve, evaluation of every test segment, model facts. Continues from
// the newest intact checkpoint, or goes straight to the test segments when weights of the same
// training are kept; either gives the bits of a cell that ran in one go.
// `wall_s` and `energy_j` of the result hold what earlier attempts spent. Never throws for
// divergence, lack of memory, timeouts or unsupported sizes: those are states. A loss that is not
// finite is noticed up to 100 steps late, but the state names its step. Other exceptions become
// kError with their message.
reports::CellResult RunTrainCell(const Cell& cell, at::Device device, const Registries& registries,
                                 const RunControl& control, const ProgressCallback& progress);

}  // namespace mixerbench::harness
