// What the command line asks for. No torch here: the front program parses, the engine runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mixerbench::harness {

// --set path=value pairs in the order given.
using Settings = std::vector<std::pair<std::string, std::string>>;

// What the command line may change of a suite: everything else is in the file.
struct SuiteOverrides {
  Settings set;
  std::vector<std::uint64_t> seeds;  // --seeds, empty: the file's
  std::int64_t limit = 0;            // at most so many examples per evaluation segment; 0: all
  std::string device_type = "cpu";   // "cpu" or "cuda": part of the numerics, so of the run id
};

enum class RetryPolicy {
  kNone,    // a finished cell stays as it is, whatever its state
  kFailed,  // every cell that did not complete runs again
  kAll,     // --fresh
};

// How one worker process runs its cells. Changes no result.
struct WorkerOptions {
  std::string device = "auto";
  double cell_timeout_s = 0;          // 0: none
  double checkpoint_interval_s = 60;  // 0: no checkpoints inside a cell
  bool use_graphs = true;             // CUDA graphs
};

struct RunOptions {
  std::string suite;  // a built-in name or a file
  std::string out;    // "" : out/<suite name>
  WorkerOptions worker;
  std::int64_t jobs = 0;  // worker processes; 0: one per core on the CPU, one on CUDA
  SuiteOverrides overrides;
  RetryPolicy retry = RetryPolicy::kNone;
  bool dry_run = false;
  bool throughput_only = false;  // `bench`
  bool quiet = false;
};

struct GenerateOptions {
  std::string what;  // a task or a preset
  Settings set;      // options of the task
  std::string split = "train";
  std::int64_t seed = -1;  // -1: the preset's, else 0
  std::uint64_t start = 0;
  std::int64_t count = 1;
  std::string labels = "scored";  // loss mode
  std::string format = "jsonl";   // jsonl, npy, safetensors
  std::string out;                // file; "" : stdout (jsonl only)
  std::string device = "cpu";
};

// `mixer run` and `core run`.
struct UnitRunOptions {
  std::string name;
  std::string in;
  std::string out;
  Settings set;
  std::string path = "fast";
  std::string dtype = "fp32";
  std::string device = "cpu";
  std::int64_t seed = -1;  // >= 0: draw missing parameters from this seed
  bool gradients = false;
  bool final_state = false;
  bool describe = false;
};

}  // namespace mixerbench::harness
