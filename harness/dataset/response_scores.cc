// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/response_scores.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::harness {
namespace {

using tasks::AnswerType;

std::vector<double> PerSample(const Run& run,
                              const std::function<double(const Reference&, const Prediction&)>& f) {
  std::vector<double> values;
  for (std::size_t i = 0; i < run.references.size(); ++i) {
    values.push_back(f(run.references[i], run.predictions[i]));
  }
  return values;
}

bool All(const Run& run, const std::function<bool(const Reference&)>& holds) {
  return std::all_of(run.references.begin(), run.references.end(), holds);
}

// A metric that is 0 or 1 for every sample.
ScoreRow YesNo(std::string metric, std::vector<double> values) {
  const auto num_samples = std::ssize(values);
  const auto num_yes = std::count(values.begin(), values.end(), 1.0);
  return {.metric = std::move(metric),
          .score = static_cast<double>(num_yes) / static_cast<double>(num_samples),
          .num_samples = num_samples,
          .interval = reports::Wilson(num_yes, num_samples),
          .per_sample = std::move(values)};
}

// Of the mean of values between 0 and `scale`.
std::optional<reports::Interval> MeanInterval(const std::vector<double>& values, double scale) {
  if (scale == 0) return reports::BootstrapBca(values);
  std::vector<reports::Score> scores;
  for (const double value : values) scores.push_back({.value = value, .size = scale});
  auto interval = reports::ShareInterval(scores);
  if (interval) {
    interval->low *= scale;
    interval->high *= scale;
  }
  return interval;
}

// A metric with values between 0 and `scale` (0: no upper end).
ScoreRow Mean(std::string metric, std::vector<double> values, double scale) {
  return {.metric = std::move(metric),
          .score = reports::Mean(values),
          .scale = scale,
          .num_samples = std::ssize(values),
          .interval = MeanInterval(values, scale),
          .per_sample = std::move(values)};
}

ScoreRow MatchAllRow(const Run& run) {
  return Mean("match_all",
              PerSample(run,
                        [](const Reference& r, const Prediction& p) {
                          return tasks::MatchAll(tasks::CleanResponse(p.response), r.outputs);
                        }),
              1);
}

ScoreRow Prefix5Row(const Run& run, std::string metric, std::int64_t min_prefix) {
  ScoreRow row = Mean(std::move(metric),
                      PerSample(run,
                                [&](const auto& r, const auto& p) {
                                  return tasks::Prefix5(p.response, r.outputs, min_prefix);
                                }),
                      5);
  std::vector<std::string> responses;
  std::vector<tasks::References> references;
  for (std::size_t i = 0; i < run.references.size(); ++i) {
    responses.push_back(run.predictions[i].response);
    references.push_back(run.references[i].outputs);
  }
  if (responses.size() >= 2) row.chance = tasks::Prefix5Chance(responses, references, min_prefix);
  return row;
}

std::vector<ScoreRow> ResponseRows(const Run& run) {
  std::vector<ScoreRow> rows;
  const auto add = [&](std::string metric, auto is_yes) {
    rows.push_back(YesNo(std::move(metric), PerSample(run, [&](const auto& r, const auto& p) {
                           return is_yes(r, p) ? 1.0 : 0.0;
                         })));
  };
  rows.push_back(MatchAllRow(run));
  add("first_match", [](const Reference& r, const Prediction& p) {
    return tasks::FirstMatch(p.response, r.outputs, r.answer_type);
  });
  if (All(run, [](const Reference& r) { return r.outputs.size() == 1; })) {
    add("exact", [](const Reference& r, const Prediction& p) {
      return tasks::ExactAnswer(tasks::CleanResponse(p.response), r.outputs.front());
    });
    if (All(run, [](const Reference& r) { return r.answer_type == AnswerType::kNumber; })) {
      add("int_first", [](const Reference& r, const Prediction& p) {
        return tasks::IntFirst(p.response, r.outputs.front());
      });
    }
  }
  rows.push_back(Prefix5Row(run, "prefix5", 1));
  rows.push_back(Prefix5Row(run, "prefix5_min3", 3));
  if (!All(run, [](const Reference& r) { return r.distractors.empty(); })) {
    add("distractor", [](const Reference& r, const Prediction& p) {
      return tasks::HasDistractor(p.response, r.outputs, r.distractors);
    });
  }
  add("empty", [](const Reference&, const Prediction& p) {
    return tasks::CleanResponse(p.response).empty();
  });
  return rows;
}

std::vector<ScoreRow> LikelihoodRows(const Run& run) {
  std::vector<ScoreRow> rows;
  rows.push_back(YesNo("likelihood_exact", PerSample(run, [](const auto&, const Prediction& p) {
                         return tasks::ScoreLikelihood(p.likelihood).exact ? 1.0 : 0.0;
                       })));
  rows.push_back(Mean(
      "nll",
      PerSample(run, [](const auto&,
                        const Prediction& p) { return tasks::ScoreLikelihood(p.likelihood).nll; }),
      0));
  return rows;
}

// What samples are grouped by: a bin of numbers, or a value.
struct GroupKey {
  double number = 0;
  std::string label;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// One key for each sample.
std::vector<GroupKey> GroupKeys(const Run& run, const std::string& member) {
  constexpr std::size_t kMaxValues = 20;
  constexpr double kNumBins = 10;
  std::vector<GroupKey> keys;
  bool are_numbers = true;
  for (const Reference& reference : run.references) {
    const auto found = reference.meta.find(member);
    if (found == reference.meta.end()) {
      throw ConfigError("--by", "index " + std::to_string(reference.index) + " has no '" + member +
                                    "' in its meta");
    }
    const Value& value = found->second;
    are_numbers = are_numbers && value.is_number();
    keys.push_back({value.is_number() ? value.as_double() : 0, io::ValueText(value)});
  }
  const std::set<GroupKey> values(keys.begin(), keys.end());
  if (!are_numbers || values.size() <= kMaxValues) return keys;
  const double low = values.begin()->number;
  const double width = (values.rbegin()->number - low) / kNumBins;
  for (GroupKey& key : keys) {
    const double bin = std::min(std::floor((key.number - low) / width), kNumBins - 1);
    key.number = low + bin * width;
    key.label = fmt::format("{:.3g}..{:.3g}", key.number, key.number + width);
  }
  return keys;
}

}  // namespace

Run PairUp(std::vector<Reference> references, std::vector<Prediction> predictions,
           bool allow_missing, const std::string& path) {
  if (references.empty()) throw Error(ExitCode::kNothingSelected, path + ": no references");
  std::map<std::int64_t, Prediction> by_index;
  for (Prediction& prediction : predictions) {
    by_index.emplace(prediction.index, std::move(prediction));
  }
  Run run{.references = std::move(references)};
  std::int64_t num_missing = 0;
  std::int64_t first_missing = 0;
  for (const Reference& reference : run.references) {
    const auto found = by_index.find(reference.index);
    if (found == by_index.end()) {
      if (num_missing++ == 0) first_missing = reference.index;
      run.predictions.push_back({.index = reference.index});
      continue;
    }
    run.predictions.push_back(std::move(found->second));
    by_index.erase(found);
  }
  if (!by_index.empty()) {
    throw Error(ExitCode::kBadInput,
                path + ": index " + std::to_string(by_index.begin()->first) + " has no reference");
  }
  if (num_missing > 0 && !allow_missing) {
    throw Error(ExitCode::kBadInput,
                path + ": " + std::to_string(num_missing) + " of " +
                    std::to_string(run.references.size()) + " samples have no prediction (index " +
                    std::to_string(first_missing) + " is the first); --allow-missing counts them " +
                    "as wrong");
  }
  return run;
}

std::vector<ScoreRow> ScoreRun(const Run& run) {
  const auto has_likelihood = [](const Prediction& p) { return !p.likelihood.empty(); };
  const auto& predictions = run.predictions;
  const bool all_likelihoods = std::all_of(predictions.begin(), predictions.end(), has_likelihood);
  const bool any_response = std::any_of(predictions.begin(), predictions.end(),
                                        [](const Prediction& p) { return !p.response.empty(); });
  std::vector<ScoreRow> rows;
  if (!all_likelihoods || any_response) rows = ResponseRows(run);
  if (all_likelihoods) {
    for (ScoreRow& row : LikelihoodRows(run)) rows.push_back(std::move(row));
  }
  // The task's usual metric first.
  const auto& usual = run.references.front().metrics;
  std::stable_partition(rows.begin(), rows.end(), [&](const ScoreRow& row) {
    return !usual.empty() && row.metric == usual.front();
  });
  return rows;
}

std::vector<ScoreGroup> ScoreBy(const Run& run, const std::string& key) {
  const std::vector<GroupKey> keys = GroupKeys(run, key);
  std::map<GroupKey, Run> runs;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    runs[keys[i]].references.push_back(run.references[i]);
    runs[keys[i]].predictions.push_back(run.predictions[i]);
  }
  std::vector<ScoreGroup> groups;
  for (const auto& [group_key, group] : runs) {
    groups.push_back({group_key.label, ScoreRun(group).front()});
  }
  return groups;
}

}  // namespace mixerbench::harness
