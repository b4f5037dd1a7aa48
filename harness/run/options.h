// What `run` and its workers are asked for. No torch here: the front program parses, the engine
// runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/run/free_space.h"
#include "harness/suite/overrides.h"

namespace mixerbench::harness {

enum class RetryPolicy {
  kNone,    // a finished cell stays as it is, whatever its state
  kFailed,  // every cell that did not complete runs again
  kAll,     // --fresh
};

// What to do with a training whose step does not fit in memory.
enum class OnOom {
  kFail,   // it ends as `oom`
  kHalve,  // it is trained with half the batch size, and half of that: another experiment
};

// What to do when a run folder has a plan with cells that this command does not ask for, and lacks
// some that it does.
enum class PlanPolicy {
  kRefuse,
  kMerge,    // the plan has the cells of both
  kReplace,  // the cells of the old plan leave it; their results stay in the folder
};

// One of `count` equal parts of a suite's cells.
struct Shard {
  std::uint64_t index = 0;
  std::uint64_t count = 1;
};

// How a worker runs each cell. Changes no number, but require_device_cores and is_strict refuse
// some cells.
struct CellOptions {
  double timeout_s = 0;               // 0: none
  double checkpoint_interval_s = 60;  // 0: no checkpoints inside a cell
  // Final weights up to this size are kept for other test segments of the same training; 0: none
  // are kept and none are used.
  std::int64_t weights_limit_mib = 256;
  // Final weights are kept and used whatever their size, until the run ends: cells of it need them.
  bool keeps_weights_for_run = false;
  std::string log_items = "";         // "": none; "jsonl" or "zstd": every scored position
  bool use_graphs = true;             // CUDA graphs, on a GPU
  bool is_strict = false;             // --deterministic strict (device/determinism.h)
  bool require_device_cores = false;  // a cell with a core without device code is unsupported
};

// A worker process, which works on one device.
struct WorkerOptions {
  std::string device;
  std::string cells;     // the folder of the cells' folders
  std::string log_file;  // "": none
  CellOptions cell;
};

// What a command that yields verdicts writes beside its answer (verdict_outputs.h).
struct VerdictOutputs {
  bool json = false;        // the report as JSON on stdout
  std::string html_file;    // "": none
  std::string junit_file;   // "": none
  std::string job_summary;  // a file to append Markdown to; "": none

  bool AnyWanted() const {
    return json || !html_file.empty() || !junit_file.empty() || !job_summary.empty();
  }
};

struct RunOptions {
  std::string suite;           // a built-in name or a file
  bool is_collection = false;  // `suite` is a collection of suites
  std::string out;             // "": out/<name of the suite or collection>
  std::string device = "auto";
  std::string gpus;       // "": `device`; "all" or "0,2": a worker process on each of these
  std::int64_t jobs = 0;  // cells at once, on each GPU; 0: one per core on the CPU, four on a GPU
  Shard shard;
  SuiteOverrides overrides;
  RetryPolicy retry = RetryPolicy::kNone;
  PlanPolicy plan = PlanPolicy::kRefuse;
  OnOom on_oom = OnOom::kFail;
  CellOptions cell;
  double stall_timeout_s = 3600;                      // without a sign of life from a cell; 0: none
  double time_limit_s = 0;                            // of the whole command; 0: none
  std::optional<double> max_device_s = std::nullopt;  // of all runs in the folder
  // When the command began, if this run is not all of it.
  std::optional<std::chrono::steady_clock::time_point> started = std::nullopt;
  std::string log_file;  // "": none
  VerdictOutputs outputs;
  std::set<ExitCode> let_pass = {};  // ends that are none to fail for (--fail-on)
  bool dry_run = false;
  bool throughput_only = false;  // `bench`
  bool quiet = false;
  // Bytes free for a folder, nothing when that is not known.
  std::function<std::optional<std::int64_t>(const std::filesystem::path&)> free_space = FreeSpace;
  // Starts a worker, its arguments coming after it: this program again.
  std::vector<std::string> worker_command = {"/proc/self/exe"};

  ExitCode CodeOf(ExitCode end) const { return let_pass.contains(end) ? ExitCode::kOk : end; }
};

struct ReproOptions {
  std::string out;     // a run folder
  std::string cell;    // the first digits of its run id, or its name as `status` shows it
  std::string device;  // "": of the type that the cell ran on
  bool json = false;
  bool quiet = false;
  std::vector<std::string> worker_command = {"/proc/self/exe"};
};

}  // namespace mixerbench::harness
