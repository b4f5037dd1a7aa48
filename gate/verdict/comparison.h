// What a comparison of two reports says: rows with a verdict each, and what they amount to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/value.h"
#include "gate/verdict/settings.h"

namespace mixerbench::gate {

// In the order in which a reader should see them.
enum class Verdict {
  kRegression,
  kMissing,        // base has what the candidate lacks
  kNotComparable,  // data, device or settings of the two sides differ
  kSuspicious,     // better, or other, than can be explained
  kInconclusive,   // a loss as large as the margin may hide in the noise
  kImproved,
  kPass,      // a loss as large as the margin would have shown
  kNotGated,  // shown, never judged
};

enum class Gate {
  kData,      // G0: both sides saw the same samples
  kNumerics,  // G1: parity of what was timed
  kReplay,    // G2: the first training steps
  kLearning,  // G3: over seeds
  kSpeed,     // G4: time, memory, state
  kPairing,   // what is there at all
};

// How an effect is to be read.
enum class EffectKind {
  kNone,
  kRatio,   // candidate / base; 1 is no change
  kPoints,  // difference of shares
  kChange,  // candidate / base - 1; 0 is no change
};

struct Effect {
  EffectKind kind = EffectKind::kNone;
  double value = 0;
  std::optional<double> low, high;  // two-sided
  double level = 0.95;
};

// What one look at the first `seeds` pairs gave.
struct Look {
  std::int64_t seeds = 0;
  double level = 0;  // alpha of this look
  double p_raw = 1;
  double p_adjusted = 1;
  Verdict verdict = Verdict::kInconclusive;
};

// Accuracy of the seeds that solve it on both sides: what validation does not show. Seeds that
// failed are no part of it.
inline constexpr std::string_view kAccuracyWhenSolved = "accuracy_when_solved";

struct Row {
  Gate gate = Gate::kPairing;
  std::string metric;  // "steps_to_threshold", "solve_rate", "accuracy", "time", ...
  std::string cell;    // "mqar/gla/d_model=64"; task and mixer are its parts
  std::string where;   // "fwd_bwd, 8 x 4096 bf16"; "" for a whole cell
  std::string experiment_id;
  std::vector<std::uint64_t> seeds;  // paired, in order
  std::string base, candidate;       // as people read them
  std::optional<double> base_value, candidate_value;
  Effect effect;
  std::string test;  // "student", "signed_rank", "fisher", "median_bootstrap", "exact"; "" for none
  std::optional<double> p_raw, p_adjusted;
  std::optional<double> p_sign_flip;  // the same question without a distribution
  std::optional<double> cliffs_delta;
  std::optional<double> margin;           // in the unit of the effect
  std::optional<double> would_have_seen;  // the same; 8 times in 10
  std::string would_have_seen_text;
  Verdict verdict = Verdict::kNotGated;
  std::string say;  // one sentence
  std::vector<Look> looks;
  bool has_too_few_seeds = false;  // and nothing else keeps it from being judged
};

// What a row is of: its cell, whose name tells fresh seeds from those of a sweep, and its
// experiment.
using Subject = std::pair<std::string, std::string>;
inline Subject SubjectOf(const Row& row) { return {row.cell, row.experiment_id}; }

// Of one setting, to find what a headline speaks of; never judged.
struct Detail {
  std::string cell;
  std::string where;                                   // "input_seq_len=256 num_kv_pairs=64"
  Object axes;                                         // the same as values
  std::vector<std::optional<double>> base, candidate;  // accuracy by seed
  std::optional<double> difference, low, high;
};

// One side, in words.
struct SideFacts {
  std::string name;
  std::string code;    // short hashes of the code behind its cells
  std::string commit;  // with "dirty", or ""
  std::string device;
  std::string started;  // its last cell; UTC, ISO 8601
  std::int64_t num_cells = 0;
};

// What a reader should know beside the rows.
struct Note {
  std::string cell;  // that it is about; "" for none
  std::string text;
};

// "mqar/gla/d_model=64: ..." in full.
std::string NoteText(const Note& note);

struct Comparison {
  GateSettings settings;
  SideFacts base, candidate;
  std::vector<Row> rows;        // sorted: verdict, gate, cell
  std::vector<Detail> details;  // by cell
  std::vector<Note> notes;
  // The resolved "model" of each cell of either side, by name, from which pages make labels; null
  // where a config tells of none.
  std::map<std::string, Value> models;
  std::int64_t hashes_equal = 0, hashes_compared = 0;  // of data, cell by cell
  std::int64_t num_failed = 0;     // cells of the candidate: diverged, oom, timeout, error
  std::int64_t num_headlines = 0;  // that Holm's method corrects for; not accuracies when solved
  std::optional<std::int64_t> seeds_wanted;  // for the next look of what is inconclusive
};

std::map<Verdict, std::int64_t> CountVerdicts(const Comparison& comparison);

// Rows that say of a result whether it got worse: neither those of data, nor those that are shown
// alone or found nothing on the other side. A gate without any has looked at nothing.
std::int64_t CountJudged(const Comparison& comparison);

// What the caller lets pass beside what the settings say.
struct Tolerance {
  bool missing = false;
  bool inconclusive = false;
  bool empty = false;
  bool failed_cells = true;  // of the candidate; they count as unsolved in any case
};

// Of 9, 6, 1, 4, 5, 0 the first that applies (docs/GATE.md).
ExitCode CodeOf(const Comparison& comparison, const Tolerance& tolerance);

// "fail", "inconclusive", ...: the code in one word.
std::string_view WordOf(ExitCode code);

}  // namespace mixerbench::gate

template <>
struct mixerbench::EnumNames<mixerbench::gate::Verdict> {
  using V = mixerbench::gate::Verdict;
  static constexpr std::array<std::pair<V, std::string_view>, 8> kNames = {
      {{V::kRegression, "regression"},
       {V::kMissing, "missing"},
       {V::kNotComparable, "not_comparable"},
       {V::kSuspicious, "suspicious"},
       {V::kInconclusive, "inconclusive"},
       {V::kImproved, "improved"},
       {V::kPass, "pass"},
       {V::kNotGated, "not_gated"}}};
};

template <>
struct mixerbench::EnumNames<mixerbench::gate::Gate> {
  using G = mixerbench::gate::Gate;
  static constexpr std::array<std::pair<G, std::string_view>, 6> kNames = {{{G::kData, "G0"},
                                                                            {G::kNumerics, "G1"},
                                                                            {G::kReplay, "G2"},
                                                                            {G::kLearning, "G3"},
                                                                            {G::kSpeed, "G4"},
                                                                            {G::kPairing, ""}}};
};

template <>
struct mixerbench::EnumNames<mixerbench::gate::EffectKind> {
  using E = mixerbench::gate::EffectKind;
  static constexpr std::array<std::pair<E, std::string_view>, 4> kNames = {
      {{E::kNone, "none"}, {E::kRatio, "ratio"}, {E::kPoints, "points"}, {E::kChange, "change"}}};
};
