// What one cell produced, as a value. A failed cell is a value too: its state and reason say why.
// Written and read by reports/result/result_json.h; every key is documented in
// docs/REPORT_SCHEMA.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::reports {

enum class CellState {
  kPlanned,
  kCompleted,
  kDiverged,  // a loss or metric was not finite
  kOom,
  kTimeout,
  kError,
  kInterrupted,
  kSkipped,
  kUnsupported,  // this mixer, size, device or dtype does not go together
};

// True for a cell that was run and failed: its accuracy counts as chance.
constexpr bool IsFailure(CellState state) {
  return state == CellState::kDiverged || state == CellState::kOom ||
         state == CellState::kTimeout || state == CellState::kError;
}

// What a training is for in a suite that reports fresh seeds (`sweep.select.reseed`).
enum class CellPhase {
  kNone,
  kSelection,  // a setting is chosen by its validation accuracy
  kReport,     // of a chosen setting, by a seed that chose nothing
};

// An interval with the method that made it.
struct Interval {
  std::string method;  // "wilson", "beta", "bca", "percentile"; docs/STATISTICS.md
  double level = 0.95;
  double low = 0;
  double high = 0;
};

// Samples of a batch of `accuracy_macro_batched`, whatever batches evaluation runs in.
inline constexpr std::int64_t kMacroBatch = 128;

// What guessing scores: without the context, or with some of what it says.
struct Guess {
  std::string name;  // "uniform over values", "some value of the context"
  double accuracy = 0;
  friend bool operator==(const Guess&, const Guess&) = default;
};

// Scores over one evaluation segment, or over one bucket of a slice of it.
struct AccuracyRow {
  Object axes;         // what varies between segments: {"input_seq_len": 64, "num_kv_pairs": 4}
  std::string slice;   // "" for the whole segment, else a slice key such as "gap"
  std::string bucket;  // "" or the bucket's label
  CellState state = CellState::kCompleted;
  std::string reason;
  std::int64_t num_sequences = 0;
  std::int64_t num_scored = 0;                 // scored positions
  std::int64_t num_correct = 0;                // of them, predicted right
  std::optional<double> accuracy;              // correct / scored over the segment (tok_micro)
  std::optional<double> accuracy_per_example;  // mean over samples of the share (tok_ex)
  std::optional<double> accuracy_macro;        // mean recall over classes (tok_macro)
  // The same for each batch of kMacroBatch samples, averaged over samples (MAD's figure); of whole
  // segments.
  std::optional<double> accuracy_macro_batched;
  std::optional<double> sequence_accuracy;  // samples with every position right (exact)
  std::optional<double> nll;                // mean cross-entropy, nats
  std::optional<Interval> ci_items;         // of `accuracy`, clustered by sample
  std::optional<Interval> ci_sequences;     // of `sequence_accuracy`
  double chance = 0;
  std::vector<Guess> guesses;  // of whole segments, `chance` first
  // Share of the answers that a learner of the training data can know; of whole segments.
  std::optional<double> ceiling;
  bool extrapolated = false;  // longer than anything trained on
};

struct LearningPoint {
  std::int64_t step = 0;
  double train_loss = 0;
  std::optional<double> validation_accuracy;
  double lr = 0;
  double elapsed_s = 0;
  std::map<std::string, double> auxiliary_losses = {};  // means since the last point, no weights
};

// How one function ran: the device code that it chose, or what else and why.
struct FunctionPlan {
  std::string function;             // "vector_decay", "linear"
  bool is_core = false;             // the recurrence of a mixer
  std::vector<std::string> scopes;  // where: "layers.0"; "" outside the mixers
  std::string forward;              // name of the plan: "fused", "chunk_scan", "aten_chunk"
  std::string backward;             // "" where no gradient is formed
  std::string reason;               // why not the plan that is meant for a GPU; "" when it was

  friend bool operator==(const FunctionPlan&, const FunctionPlan&) = default;
};

// What ran in one phase for batches of one shape.
struct PhasePlan {
  std::string phase;  // "train_step", "validation", "test", "fwd", "fwd_bwd"
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::string execution;     // "graph" or "eager"
  std::string eager_reason;  // why a GPU replays no graph; "" when it does, and on the CPU
  std::vector<FunctionPlan> functions;
};

// How what was timed compares with the reference in float64, by the same plan at the same shape.
struct Parity {
  std::string passes;              // "forward", or "forward, backward"
  std::int64_t num_sequences = 0;  // of the batch, the first
  std::int64_t num_tokens = 0;     // of each, the first
  std::string quantity;  // with the largest error per tolerance: "hidden", "d <parameter>"
  double error = 0;      // |x - exact| / |exact|
  double tolerance = 0;
};

// What one tap recorded in one place of a trained model, over a test segment.
struct TapRow {
  Object axes;       // of the segment, as in AccuracyRow
  std::string tap;   // "write_gate"
  std::string path;  // where: "layers.0.write_gate"; "" where no layer records it
  CellState state = CellState::kCompleted;
  std::string reason;
  std::int64_t num_sequences = 0;
  std::int64_t num_values = 0;
  std::int64_t num_not_finite = 0;  // of the values; in none of the numbers below
  std::optional<double> mean{};
  std::optional<double> std{};  // with n
  std::optional<double> min{};
  std::optional<double> max{};
};

// Time of one phase at one shape. Samples are kept: every summary can be recomputed.
struct ThroughputRow {
  std::string phase;  // "fwd", "fwd_bwd", "prefill", "decode", "train_step"
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;  // of a row of decode: the tokens before the one that is timed
  std::string dtype;
  std::string clock;  // "cuda_event" or "steady_clock"
  CellState state = CellState::kCompleted;
  std::string reason;
  std::int64_t warmup_iterations = 0;
  std::vector<double> samples_ms;
  std::optional<double> median_ms;
  std::optional<Interval> spread_ms;  // 20th to 80th percentile of the samples
  std::optional<double> tokens_per_second;
  std::optional<std::int64_t> peak_memory_bytes;
  std::string parity_check;  // "passed", "failed", "not run"
  std::optional<Parity> parity;
  std::string execution;  // "graph" or "eager"; empty: written by an older version
  // Why the GPU's clocks were not the highest around the samples; nothing: not known.
  std::optional<std::vector<std::string>> throttle;
  std::int64_t throttled_samples_dropped = 0;  // taken while it was too hot or short of power
  std::optional<double> energy_j;  // of the whole GPU, from the first sample to the last
};

// Tokens that one sample of the row goes through, of all sequences.
inline std::int64_t TimedTokens(const ThroughputRow& row) {
  return row.phase == "decode" ? row.batch_size : row.batch_size * row.seq_len;
}

// Whether so many samples were dropped that the machine is not fit: those that are left may well
// have been taken on the way there.
inline bool IsThrottled(const ThroughputRow& row) {
  const auto num_taken =
      static_cast<std::int64_t>(row.samples_ms.size()) + row.throttled_samples_dropped;
  return 5 * row.throttled_samples_dropped > num_taken;
}

// Where the time of a cell went, in seconds; over all attempts of a cell that was continued.
struct PhaseTimes {
  double setup_s = 0;    // tasks, model, optimiser
  double capture_s = 0;  // CUDA graphs; in none of the others
  double train_s = 0;
  double validation_s = 0;
  double test_s = 0;
  double checkpoint_s = 0;
};

// The file with the final weights that a training cell left, or that a cell used.
struct KeptWeights {
  std::string sha256;  // "sha256:..." of the file
  std::int64_t num_bytes = 0;
  bool reused = false;  // another cell has trained them: this one was evaluated only
};

// A file with every scored position of a test segment (reports/items/items.h).
struct KeptItems {
  std::int64_t segment = 0;  // of the test split, from 0
  std::string file;          // in the cell's folder
  std::string sha256;        // "sha256:..." of it
  std::int64_t num_bytes = 0;
  std::int64_t num_items = 0;
};

struct ModelFacts {
  std::int64_t num_parameters = 0;
  std::int64_t state_bytes_measured = 0;  // of the tensors a decode step carries, one sequence
  std::int64_t state_bytes_declared = 0;
  std::int64_t state_at_num_tokens = 0;
  std::string path;  // "fast" or "reference"
};

struct CellResult {
  std::string run_id;    // "sha256:..." of everything that can change the result
  std::string group_id;  // the same without the seed
  // The parts of run_id besides the seed; empty in results of schema 1.2 and before.
  std::string experiment_id;  // what was asked: pairs a base with a candidate
  std::string code_id;        // the code that answered
  std::string data_id;        // all samples
  // What the weights come of, whatever they are tested on; empty up to schema 1.4 and without
  // training.
  std::string training_id;
  std::string name;  // "mqar/gla/d_model=64,lr=0.003"
  std::uint64_t seed = 0;
  std::string kind;  // "train", "throughput", "evaluate" or "analyse"
  // In its sweep, whose plan says so: a result by itself has none, nor is it part of an id.
  CellPhase phase = CellPhase::kNone;
  bool partial = false;  // --limit was used
  CellState state = CellState::kPlanned;
  std::string reason;     // one line, empty when completed
  std::int64_t step = 0;  // optimiser steps done
  // Those that the config asks for; nothing where no training began, and up to schema 1.10.
  std::optional<std::int64_t> planned_steps;
  bool stopped_early = false;
  // The batch size of the plan's cell, for which memory lacked: this is the result of a training
  // with the smaller one of `config`, whose experiment it is. Only run_id is that of the plan.
  std::optional<std::int64_t> halved_from;
  Value config;       // resolved, every default spelt out
  Value environment;  // versions, device, determinism
  Value data_hash;    // {"train": "sha256:...", ...}
  Value code;         // hashes behind code_id, by part; null as code_id
  ModelFacts model;
  std::vector<LearningPoint> learning_curve;
  std::vector<AccuracyRow> accuracy;
  std::vector<ThroughputRow> throughput;
  std::vector<TapRow> taps;
  std::vector<PhasePlan> plans;  // by phase, batch_size, seq_len
  std::optional<std::int64_t> steps_to_threshold;
  double threshold = 0;  // of steps_to_threshold, on validation accuracy
  std::string started;   // UTC, ISO 8601
  double wall_s = 0;
  // Of its GPU, over all attempts; nothing where one of them did not know.
  std::optional<double> energy_j;
  // Which machine of its kind it was and how it was: what no result depends on.
  Value machine;
  std::int64_t tokens_seen = 0;
  std::optional<PhaseTimes> phases;               // of a cell that trains or evaluates
  std::optional<std::int64_t> resumed_from_step;  // where the last attempt took over
  std::optional<KeptWeights> weights;             // nothing: none were kept
  // Sequences of a batch of each test segment that was scored, in order: fewer than asked for where
  // memory lacked.
  std::vector<std::int64_t> eval_batch_sizes;
  std::vector<KeptItems> items;  // by segment; empty unless they were asked for
};

// True for a planned cell without a result: not started, or not finished.
inline bool IsMissing(const CellResult& cell) {
  return cell.state == CellState::kPlanned || cell.state == CellState::kInterrupted;
}

// A count or duration of a cell; of one without result 0 says that it is not known.
template <typename T>
std::optional<T> KnownOf(const CellResult& cell, T CellResult::*member) {
  if (IsMissing(cell) && cell.*member == T{}) return std::nullopt;
  return cell.*member;
}

// Whether a cell scores test segments.
inline bool ScoresTests(const CellResult& cell) {
  return cell.kind == "train" || cell.kind == "evaluate";
}

// Whether a test segment ended so.
inline bool HasSegmentIn(CellState state, const CellResult& cell) {
  return std::any_of(cell.accuracy.begin(), cell.accuracy.end(),
                     [state](const AccuracyRow& row) { return row.state == state; });
}

// Whether the device may no longer work.
inline bool EndedInError(const CellResult& cell) {
  return cell.state == CellState::kError || HasSegmentIn(CellState::kError, cell);
}

// The first test segment that failed; null where none did.
inline const AccuracyRow* FailedSegment(const CellResult& cell) {
  const auto failed = std::find_if(cell.accuracy.begin(), cell.accuracy.end(),
                                   [](const AccuracyRow& row) { return IsFailure(row.state); });
  return failed == cell.accuracy.end() ? nullptr : &*failed;
}

// Whether a row is lost to slowdowns of the GPU: not the cell is at fault, but the machine.
inline bool WasThrottled(const CellResult& cell) {
  return std::any_of(cell.throughput.begin(), cell.throughput.end(), IsThrottled);
}

// The first test segment that failed or, where none did, that is not supported; null where all have
// results.
inline const AccuracyRow* LackingSegment(const CellResult& cell) {
  if (const AccuracyRow* failed = FailedSegment(cell)) return failed;
  const auto unsupported =
      std::find_if(cell.accuracy.begin(), cell.accuracy.end(),
                   [](const AccuracyRow& row) { return row.state == CellState::kUnsupported; });
  return unsupported == cell.accuracy.end() ? nullptr : &*unsupported;
}

// Whether a cell did all that it is for. A training completes also where a test segment fails or is
// not supported: the others are its results.
inline bool IsWhole(const CellResult& cell) {
  return cell.state == CellState::kCompleted && LackingSegment(cell) == nullptr;
}

}  // namespace mixerbench::reports

template <>
struct mixerbench::EnumNames<mixerbench::reports::CellState> {
  using S = mixerbench::reports::CellState;
  static constexpr std::array<std::pair<S, std::string_view>, 9> kNames = {{
      {S::kPlanned, "planned"},
      {S::kCompleted, "completed"},
      {S::kDiverged, "diverged"},
      {S::kOom, "oom"},
      {S::kTimeout, "timeout"},
      {S::kError, "error"},
      {S::kInterrupted, "interrupted"},
      {S::kSkipped, "skipped"},
      {S::kUnsupported, "unsupported"},
  }};
};

template <>
struct mixerbench::EnumNames<mixerbench::reports::CellPhase> {
  using P = mixerbench::reports::CellPhase;
  static constexpr std::array<std::pair<P, std::string_view>, 3> kNames = {
      {{P::kNone, "none"}, {P::kSelection, "selection"}, {P::kReport, "report"}}};
};
