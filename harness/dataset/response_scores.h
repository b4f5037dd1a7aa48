// What the responses of one run score: means over samples with their intervals and chance levels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/dataset/text_files.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// The references with the predictions of one run, in the order of the references.
struct Run {
  std::vector<Reference> references;
  std::vector<Prediction> predictions = {};
};

// Pairs by index. Errors: Error(kBadInput) for a prediction without a reference, and, unless
// `allow_missing`, for a reference without a prediction: an empty response stands for that.
Run PairUp(std::vector<Reference> references, std::vector<Prediction> predictions,
           bool allow_missing, const std::string& path);

// One metric of a run.
struct ScoreRow {
  std::string metric;
  double score = 0;  // a share of 1, or points of `scale`
  double scale = 1;  // 0: no upper end
  std::int64_t num_samples = 0;
  std::optional<reports::Interval> interval = std::nullopt;  // over samples
  std::optional<double> chance = std::nullopt;
  std::vector<double> per_sample = {};
};

// Every metric that fits, the usual one of the task first: match_all, first_match, exact and
// int_first of single answers, prefix5 (also with min_prefix 3), distractor, empty; with
// likelihoods likelihood_exact and nll.
std::vector<ScoreRow> ScoreRun(const Run& run);

// The samples of a run that share one member of their meta.
struct ScoreGroup {
  std::string label;  // the value, or "low..high" of a bin that includes both ends
  ScoreRow row;       // in the usual metric
};

// In order of value. More than 20 different numbers make ten bins of equal width.
// Errors: ConfigError at --by for a sample without that member.
std::vector<ScoreGroup> ScoreBy(const Run& run, const std::string& key);

}  // namespace mixerbench::harness
