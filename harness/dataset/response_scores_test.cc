// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/response_scores.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

constexpr double kExact = 1e-12;

Reference Number(std::int64_t index, const std::string& value) {
  return {.index = index,
          .outputs = {value},
          .distractors = {"99"},
          .answer_type = tasks::AnswerType::kNumber,
          .metrics = {"int_first"}};
}

Prediction Says(std::int64_t index, const std::string& response) {
  return {.index = index, .response = response};
}

// Four numbers: two right, one right after a wrong one, one empty.
Run Example() {
  return PairUp({Number(0, "1234"), Number(1, "2345"), Number(2, "3456"), Number(3, "4567")},
                {Says(3, ""), Says(2, "99 or 3456"), Says(1, " 2345."), Says(0, "1234")}, false,
                "f");
}

const ScoreRow& Row(const std::vector<ScoreRow>& rows, const std::string& metric) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const ScoreRow& r) { return r.metric == metric; });
  REQUIRE(row != rows.end());
  return *row;
}

std::string Failure(std::vector<Prediction> predictions, bool allow_missing) {
  try {
    PairUp({Number(0, "1"), Number(4, "2")}, std::move(predictions), allow_missing, "f");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("response scores: every metric of numbers, the task's own first") {
  const auto rows = ScoreRun(Example());
  CHECK(rows.front().metric == "int_first");
  CHECK(Row(rows, "int_first").score == 0.5);
  CHECK(Row(rows, "match_all").score == 0.75);
  CHECK(Row(rows, "first_match").score == 0.5);
  CHECK(Row(rows, "exact").score == 0.5);
  CHECK(Row(rows, "distractor").score == 0.25);
  CHECK(Row(rows, "empty").score == 0.25);
  CHECK(std::abs(Row(rows, "prefix5").score - 3.75) < kExact);
  CHECK(Row(rows, "prefix5").per_sample == std::vector<double>{5, 5, 5, 0});
  for (const ScoreRow& row : rows) {
    CAPTURE(row.metric);
    CHECK(row.num_samples == 4);
    REQUIRE(row.interval.has_value());
    CHECK(row.interval->low <= row.score);
    CHECK(row.interval->high >= row.score);
  }
}

TEST_CASE("response scores: chance of prefixes is that of another sample's answer") {
  // "1234" has no prefix of 2345 but "2" and "23" and "234", and so on: see answer_scores_test.
  const ScoreRow row = Row(ScoreRun(Example()), "prefix5");
  REQUIRE(row.chance.has_value());
  // 1234 against 2345: 3 of 4; 2345 against 3456: 3 of 4; "99 or 3456" against 4567: 3 of 4.
  CHECK(std::abs(*row.chance - 3 * 3.75 / 4) < kExact);
  CHECK(std::abs(*Row(ScoreRun(Example()), "prefix5_min3").chance - 3 * 3.75 / 4) < kExact);
}

TEST_CASE("response scores: intervals of shares and points fit their scale") {
  Run run = Example();
  for (Reference& reference : run.references) reference.outputs.push_back("77");
  const auto rows = ScoreRun(run);
  CHECK(std::abs(Row(rows, "match_all").score - 0.375) < kExact);
  CHECK(Row(rows, "match_all").interval->method == "beta");
  CHECK(Row(rows, "first_match").interval->method == "wilson");
  CHECK(Row(rows, "prefix5").interval->method == "beta");
  CHECK(Row(rows, "prefix5").interval->high > 1);
  CHECK(Row(rows, "prefix5").interval->high <= 5);
  CHECK(std::none_of(rows.begin(), rows.end(),
                     [](const ScoreRow& r) { return r.metric == "exact"; }));
}

TEST_CASE("response scores: likelihoods need no response") {
  Run run = Example();
  for (Prediction& prediction : run.predictions) {
    prediction.response.clear();
    prediction.likelihood = {{-0.5, true}, {-1.5, prediction.index != 2}};
  }
  const auto rows = ScoreRun(run);
  CHECK(rows.size() == 2);
  CHECK(Row(rows, "likelihood_exact").score == 0.75);
  CHECK(Row(rows, "nll").score == 1);
  CHECK(Row(rows, "nll").interval->method == "bca");
}

TEST_CASE("response scores: groups by value, in order, and bins of many numbers") {
  Run run = Example();
  const std::vector<Value> depths = {10, 9.5, 10, 9.5};
  for (std::size_t i = 0; i < depths.size(); ++i) run.references[i].meta["depth"] = depths[i];
  const auto groups = ScoreBy(run, "depth");
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].label == "9.5");
  CHECK(groups[0].row.score == 0.5);  // samples 1 and 3
  CHECK(groups[1].label == "10");
  CHECK(groups[1].row.score == 0.5);  // samples 0 and 2
  CHECK(groups[0].row.metric == "int_first");
  CHECK_THROWS_AS(ScoreBy(run, "length"), ConfigError);

  Run many;
  for (std::int64_t i = 0; i <= 100; ++i) {
    many.references.push_back(Number(i, "1"));
    many.references.back().meta["depth"] = i;
    many.predictions.push_back(Says(i, i < 50 ? "1" : "2"));
  }
  const auto bins = ScoreBy(many, "depth");
  REQUIRE(bins.size() == 10);
  CHECK(bins[0].label == "0..10");
  CHECK(bins[9].label == "90..100");
  CHECK(bins[9].row.num_samples == 11);
  for (std::size_t bin = 0; bin < 10; ++bin) CHECK(bins[bin].row.score == (bin < 5 ? 1 : 0));
}

TEST_CASE("predictions and references are paired by index") {
  CHECK(Failure({Says(0, ""), Says(4, "")}, false) == "accepted");
  CHECK_THAT(Failure({Says(0, ""), Says(5, "")}, false),
             Catch::Contains("index 5 has no reference"));
  CHECK_THAT(Failure({Says(0, "")}, false),
             Catch::Contains("1 of 2 samples have no prediction (index 4"));
  CHECK(Failure({Says(0, "")}, true) == "accepted");
}

}  // namespace
}  // namespace mixerbench::harness
