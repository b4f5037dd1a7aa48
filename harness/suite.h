// From a suite file to cells: strict parsing, sweep expansion, identities.
//
// A suite names one task with its train, validation and test segments, one model, one way of
// training, and what is swept. Every cell is one point of the sweep with one seed, resolved: all
// defaults spelt out, all names checked, before anything runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/value.h"
#include "harness/options.h"
#include "harness/registries.h"
#include "harness/train_config.h"

namespace mixerbench::harness {

// Part of a split with one parameter setting.
struct Segment {
  Value params;                   // of the task, resolved
  std::int64_t num_examples = 0;  // 0: online (training only)
};

struct TaskPlan {
  std::string name;
  std::uint64_t data_seed = 0;  // of validation and test; training data follow the cell's seed
  std::vector<Segment> train, validation, test;
};

struct ThroughputPlan {
  std::vector<std::int64_t> seq_len;
  std::int64_t batch_size = 8;
  std::vector<std::string> phases;  // fwd, fwd_bwd, train_step
  std::int64_t num_samples = 20;
};

enum class CellKind { kTrain, kThroughput };

// One unit of work. A value: workers get it as JSON and need nothing else.
struct Cell {
  CellKind kind = CellKind::kTrain;
  std::string name;  // "mqar/gla/d_model=64,lr=0.003"
  std::uint64_t seed = 0;
  TaskPlan task;
  Value model;  // {"backbone": ..., its options}, resolved
  TrainConfig train;
  ThroughputPlan throughput;  // kThroughput only
  std::string device_type;    // "cpu" or "cuda"
  bool limited = false;       // evaluation segments were cut by --limit
  std::string run_id;         // 64 hex digits of everything that can change the result
  std::string group_id;       // the same without the seed
  Value data_hash;            // per split: SHA-256 of the first samples of every segment
};

struct Suite {
  std::string name;
  std::string description;
  Value config;  // as given, after --set
  std::vector<Cell> cells;
};

// Reads "NAME" of a built-in suite or a path. Throws Error(kBadInput) or ConfigError.
std::string ReadSuiteText(const std::string& name_or_path);

std::vector<std::string> BuiltInSuiteNames();

// Throws ConfigError with a JSON pointer for anything wrong, before any work.
Suite ParseSuite(std::string_view text, const SuiteOverrides& overrides,
                 const Registries& registries);

// A cell as the worker reads it and as reports echo it; inverse of each other.
Value CellToValue(const Cell& cell);
Cell CellFromValue(const Value& value);

// Longest input of any segment; the backbone sizes its position table and filters by it.
std::int64_t MaxSeqLen(const TaskPlan& task, const Registries& registries);

}  // namespace mixerbench::harness
