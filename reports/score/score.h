// One number for a mixer over all suites of a collection, such as the MAD score: the mean of a
// metric over the settings of each suite, and the weighted mean of those over the suites.
//
// Two rules choose among competing groups, such as learning rates: the validation accuracy, which
// is ours, and the test metric itself, which is how such scores were published. A score of which
// anything is missing has no value: it says what is missing. docs/STATISTICS.md has the formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

inline constexpr std::string_view kScoreVersion = "1.0.0";  // of its JSON

// A suite's part in a score.
struct ScorePart {
  std::string suite;
  double weight = 1;
  std::int64_t num_settings = 0;  // that the score is over; neither fewer nor more make it
};

struct ScoreRule {
  std::string name;    // "MAD score"
  std::string metric;  // a share that test segments have: "accuracy_macro_batched"
  std::vector<ScorePart> parts;
};

// Reads the member `score` of a collection; nothing without one. Throws ConfigError with the JSON
// pointer of whatever is wrong.
std::optional<ScoreRule> ReadScoreRule(const Value& collection);

// Throws ConfigError for a part whose suite is none of these.
void RequireSuites(const ScoreRule& rule, const std::vector<std::string>& suites);

// A report of each suite that was run.
struct ScoreInput {
  std::string suite;
  SweepReport report;
};

// Throws ConfigError for a part that is over another number of settings than its suite trains. A
// report of each suite is needed; its cells may be planned ones.
void RequireNumSettings(const ScoreRule& rule, const std::vector<ScoreInput>& inputs);

// A mean, and its value for each seed where all that it is made of ran the same seeds.
struct SeedScores {
  double mean = 0;
  std::vector<std::uint64_t> seeds;  // empty: they differ
  std::vector<double> per_seed;      // by seed
};

// The mean by weight; all weights are positive.
SeedScores WeightedMean(const std::vector<std::pair<double, SeedScores>>& values);

// What one choice among competing groups gives.
struct ChosenScore {
  SeedScores score;
  std::string chosen;  // "lr 5e-4, weight_decay 0"; empty where nothing competes
};

struct SettingScore {
  std::string text;  // "preset mad/c/baseline"
  std::optional<ChosenScore> by_validation = {}, by_test = {};
  std::string missing = {};  // why they are absent
};

struct PartScore {
  std::vector<SettingScore> settings;                          // in order of text
  std::optional<SeedScores> by_validation = {}, by_test = {};  // absent while anything is missing
  std::vector<std::string> missing = {};
};

struct MixerScore {
  int mixer = kNoMixer;               // of ScoreReport::mixers
  std::vector<PartScore> parts = {};  // by part of the rule
  std::optional<SeedScores> by_validation = {}, by_test = {};
  bool is_complete() const { return by_validation.has_value(); }
};

struct ScoreReport {
  std::string collection;
  std::string description;
  ScoreRule rule;
  bool has_fresh_seeds = false;  // some suite reports seeds that chose nothing
  std::vector<MixerStyle> mixers;
  std::vector<MixerScore> scores;  // best by validation first, those without a score last
  std::vector<std::pair<std::string, std::string>> sources;  // suite, checksum of its report
};

// `collection` is the document that ReadScoreRule has read.
ScoreReport MakeScoreReport(const Value& collection, const ScoreRule& rule,
                            const std::vector<ScoreInput>& inputs);

// kind "score", schema reports/result/schema/score-1.schema.json.
Value ScoreToValue(const ScoreReport& report);

Page MakeScorePage(const ScoreReport& report);

// What bounds a score chosen by validation: the seeds, where there are enough of them.
std::optional<Interval> ScoreInterval(const SeedScores& score);
// Why there is none; empty when there is one.
std::string WhyNoInterval(const SeedScores& score);
inline constexpr const char* kWhyNoIntervalByTest =
    "chosen by the test data that it is measured on, so no interval of it would hold";

}  // namespace mixerbench::reports
