// One unit of work: a point of a suite's sweep with one seed, all defaults spelt out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/value.h"
#include "harness/suite/task_plan.h"
#include "harness/suite/throughput_plan.h"
#include "harness/suite/train_config.h"
#include "harness/suite/write_gate_reset.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

enum class CellKind {
  kTrain,       // trains, and scores its test segments
  kThroughput,  // measures speed
  kEvaluate,    // scores test segments with the weights of a training
  kAnalyse,     // records taps on test segments with the weights of a training
};

// Whether cells of this kind train nothing and use the weights of another cell.
constexpr bool NamesTraining(CellKind kind) {
  return kind == CellKind::kEvaluate || kind == CellKind::kAnalyse;
}

// Names the intervention of a cell in suites, in what it was asked and in the axes of its rows.
inline constexpr const char* kResetWriteGate = "reset_write_gate";

// What stands for every tap in Cell::taps.
inline constexpr const char* kAllTaps = "all";

// A value: workers get it as JSON and need nothing else.
struct Cell {
  CellKind kind = CellKind::kTrain;
  std::string name;  // "mqar/gla/d_model=64,lr=0.003"
  std::uint64_t seed = 0;
  TaskPlan task;
  Value model;  // {"backbone": ..., its options}, resolved
  TrainConfig train;
  ThroughputPlan throughput;  // kThroughput only
  // NamesTraining(kind) only: the longest input that the training builds its model for. Those of
  // task.test, which this cell runs on, may be longer.
  std::int64_t trained_max_seq_len = 0;
  std::vector<std::string> taps;                   // kAnalyse only: names, or kAllTaps
  std::optional<WriteGateReset> write_gate_reset;  // kEvaluate only: an intervention
  std::string device_type;                         // "cpu" or "cuda"
  bool limited = false;                            // evaluation segments were cut by --limit
  // What it is for in its sweep; of no influence on what it computes.
  reports::CellPhase phase = reports::CellPhase::kNone;
  // Follow from the rest (identity.h). 64 hex digits each.
  std::string experiment_id;  // what was asked, but for the seed
  std::string code_id;        // the code that answers
  std::string data_id;        // the samples
  std::string training_id;    // what weights come of: of kTrain, run_id without what is tested
  std::string run_id;         // all of these and the seed: everything that can change the result
  std::string group_id;       // the same without the seed and the training samples that it draws
  Value code;                 // of each part: {"task": {"mqar": SHA-256}, ...}
  Value data_hash;            // of each split

  // The name of the backbone, and its options: `model` without the name.
  const std::string& Backbone() const { return model.Find("backbone")->as_string(); }
  Value BackboneOptions() const;
};

// What was asked, and back; CellIdentifier gives the ids.
Value CellToValue(const Cell& cell);
Cell CellFromValue(const Value& value, const tasks::TaskRegistry& registry);

// A result that says which cell it is of and nothing else yet.
reports::CellResult ResultOf(const Cell& cell);

}  // namespace mixerbench::harness

template <>
struct mixerbench::EnumNames<mixerbench::harness::CellKind> {
  using E = mixerbench::harness::CellKind;
  static constexpr std::array<std::pair<E, std::string_view>, 4> kNames = {
      {{E::kTrain, "train"},
       {E::kThroughput, "throughput"},
       {E::kEvaluate, "evaluate"},
       {E::kAnalyse, "analyse"}}};
};
