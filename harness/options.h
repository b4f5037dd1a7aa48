// What the command line asks for. No torch here: the front program parses, the engine runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mixerbench::harness {

// --set path=value pairs in the order given.
using Settings = std::vector<std::pair<std::string, std::string>>;

// What the command line may change of a suite: everything else is in the file.
struct SuiteOverrides {
  Settings set = {};
  std::vector<std::string> add_mixers = {};  // JSON or names; see add_mixer.h
  std::vector<std::uint64_t> seeds = {};     // --seeds, empty: the file's
  std::int64_t limit = 0;           // at most so many examples per evaluation segment; 0: all
  std::string device_type = "cpu";  // "cpu" or "cuda": part of the numerics, so of the run id
};

enum class RetryPolicy {
  kNone,    // a finished cell stays as it is, whatever its state
  kFailed,  // every cell that did not complete runs again
  kAll,     // --fresh
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

// How a worker runs each cell. Changes no result, but require_device_cores refuses some.
struct CellOptions {
  double timeout_s = 0;               // 0: none
  double checkpoint_interval_s = 60;  // 0: no checkpoints inside a cell
  bool use_graphs = true;             // CUDA graphs, on a GPU
  bool require_device_cores = false;  // a cell with a core without device code is unsupported
};

// A worker process, which works on one device.
struct WorkerOptions {
  std::string device;
  std::string cells;  // the folder of the cells' folders
  CellOptions cell;
};

struct RunOptions {
  std::string suite;  // a built-in name or a file
  std::string out;    // "" : out/<suite name>
  std::string device = "auto";
  std::string gpus;       // "": `device`; "all" or "0,2": a worker process on each of these
  std::int64_t jobs = 0;  // cells at once, on each GPU; 0: one per core on the CPU, four on a GPU
  Shard shard;
  SuiteOverrides overrides;
  RetryPolicy retry = RetryPolicy::kNone;
  PlanPolicy plan = PlanPolicy::kRefuse;
  CellOptions cell;
  double stall_timeout_s = 3600;  // without a sign of life from a cell; 0: none
  bool dry_run = false;
  bool throughput_only = false;  // `bench`
  bool quiet = false;
};

struct SlurmOptions {
  std::string suite;
  std::string out;
  std::string program;  // "": ./mixerbench of this folder, else this program
  std::int64_t num_tasks = 0;
  std::int64_t max_running = 0;  // at the same time; 0: Slurm decides
  std::int64_t gpus_per_task = 1;
  std::int64_t cpus_per_task = 2;
  std::int64_t warn_s = 120;  // before the time limit
  std::string time;           // of one task, as sbatch takes it
  std::vector<std::string> sbatch, run_arguments;
};

// Which samples: of `generate` and `export`.
struct DatasetOptions {
  std::string what = {};  // a task or a preset
  Settings set = {};      // options of the task
  std::string split = "train";
  std::optional<std::uint64_t> seed = {};  // none: the preset's, else 0
  std::uint64_t start = 0;
  std::int64_t count = 0;   // 0: the preset's number, 1 for a task
  std::string labels = {};  // which positions; "": of a preset's training split what it is
                            // trained on, else "scored"
};

struct GenerateOptions {
  DatasetOptions samples;
  std::string format;  // jsonl, npy, safetensors; "": by the name of `out`, else jsonl
  std::string dtype = "int32";
  std::string out;  // file; "": stdout (jsonl only)
  std::int64_t shards = 1;
  std::string device = "cpu";
};

struct ExportOptions {
  DatasetOptions samples = {.split = "test"};
  std::string out;  // file; "": stdout
  std::int64_t shards = 1;
};

struct VerifyOptions {
  std::string what;  // a manifest, a file beside one, a task or a preset
  Settings set;      // options of the task
  std::optional<std::uint64_t> seed = {};
  std::int64_t count = 0;    // samples of each data set; 0: at most 10,000
  std::int64_t threads = 0;  // 0: one per core
  bool json = false;
};

// `score`. Several files of predictions are runs; each has references of its own or all have the
// same.
struct ScoreOptions {
  std::vector<std::string> predictions;
  std::vector<std::string> references;
  std::vector<std::string> against;  // predictions of another variant, in pairs with these
  std::string by;                    // member of "meta" to group samples by; "": none
  bool allow_missing = false;        // a sample without a prediction counts as wrong
  bool json = false;
};

// `mixer run` and `core run`.
struct UnitRunOptions {
  std::string name;
  std::string in;
  std::string out;
  Settings set = {};
  std::string path = "fast";
  std::string dtype = "fp32";
  std::string device = "cpu";
  std::int64_t seed = -1;  // >= 0: draw missing parameters from this seed
  bool gradients = false;
  bool final_state = false;
  bool describe = false;
};

}  // namespace mixerbench::harness
