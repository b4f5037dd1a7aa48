// SPDX-License-Identifier: Apache-2.0
#include "tasks/mod_arith/mod_arith.h"

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mod_arith {
namespace {

using Params = ModArithParams;

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// The samples come from tests/golden/derive/state_tracking.py, which lets Python evaluate the
// expressions.
TEST_CASE("mod_arith: golden samples in both orders of evaluation") {
  struct Golden {
    Params params;
    std::string canon, inputs, labels;
  };
  const std::vector<Golden> cases = {{{5, 15, false, false},
                                      "mod_arith;L=15;cumulative=0;m=5;precedence=0",
                                      "4 6 0 6 0 6 2 5 0 7 0 7 4 7 3 8",
                                      "15:0"},
                                     {{5, 15, false, true},
                                      "mod_arith;L=15;cumulative=1;m=5;precedence=0",
                                      "4 5 3 5 1 7 2 6 4 7 3 6 0 5 1 8",
                                      "0:4 2:2 4:3 6:1 8:2 10:1 12:1 14:2"},
                                     {{5, 15, true, false},
                                      "mod_arith;L=15;cumulative=0;m=5;precedence=1",
                                      "0 6 4 7 4 6 1 6 0 7 3 6 2 6 4 8",
                                      "15:2"},
                                     {{5, 15, true, true},
                                      "mod_arith;L=15;cumulative=1;m=5;precedence=1",
                                      "2 5 1 7 4 5 4 5 3 5 2 7 2 7 3 8",
                                      "0:2 2:3 4:1 6:0 8:3 10:0 12:2 14:0"}};
  for (const Golden& golden : cases) {
    const auto task = MakeModArith(golden.params);
    CHECK(task->canon() == golden.canon);
    const Sample sample = MakeSample(*task, 1, 0, 0);
    CHECK(TokensText(sample.inputs) == golden.inputs);
    CHECK(LabelsText(sample) == golden.labels);
  }
}

TEST_CASE("mod_arith: the oracle evaluates the expression of the page") {
  // 3 * 4 - 1 * 2 =
  const std::vector<std::int32_t> inputs = {3, 7, 4, 6, 1, 7, 2, 8};
  const std::vector<std::int32_t> positions = {0, 2, 4, 6, 7};
  std::vector<std::int32_t> answers(5);
  MakeModArith({.expression_len = 7})->Solve(inputs, positions, answers);
  CHECK(answers == std::vector<std::int32_t>{3, 2, 1, 2, 2});
  MakeModArith({.expression_len = 7, .precedence = true})->Solve(inputs, positions, answers);
  CHECK(answers == std::vector<std::int32_t>{3, 2, 1, 0, 0});
}

TEST_CASE("mod_arith: chance is that of all expressions") {
  // All expressions of three digits modulo 4: their values, counted.
  for (const auto& [precedence, cumulative] :
       {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
    std::vector<double> rate(4);
    double num_answers = 0;
    const auto task = MakeModArith(
        {.modulus = 4, .expression_len = 5, .precedence = precedence, .cumulative = cumulative});
    for (int code = 0; code < 64 * 9; ++code) {
      const std::vector<std::int32_t> inputs = {code % 4,          4 + code / 64 % 3, code / 4 % 4,
                                                4 + code / 64 / 3, code / 16 % 4,     7};
      const std::vector<std::int32_t> positions =
          cumulative ? std::vector<std::int32_t>{0, 2, 4} : std::vector<std::int32_t>{5};
      std::vector<std::int32_t> answers(positions.size());
      task->Solve(inputs, positions, answers);
      for (const std::int32_t answer : answers) ++rate[static_cast<std::size_t>(answer)];
      num_answers += static_cast<double>(answers.size());
    }
    double drawn = 0;
    for (const double count : rate) drawn += count * count / (num_answers * num_answers);
    CHECK(task->baselines()[0].accuracy == Approx(rate[0] / num_answers));
    CHECK(task->baselines()[1].accuracy == Approx(drawn));
  }
  // Modulo a prime p, zero has the share x = 2/(3p) + (x + (1-x)/p) / 3 of long expressions.
  CHECK(MakeModArith({.expression_len = 201})->baselines()[0].accuracy == Approx(3.0 / 11));
  // Modulo 5 with * first, counted.
  const auto zero = [](std::int64_t length) {
    return MakeModArith({.expression_len = length, .precedence = true})->baselines()[0].accuracy;
  };
  CHECK(zero(3) == Approx(0.2533).epsilon(1e-3));
  CHECK(zero(5) == Approx(0.2320).epsilon(1e-3));
  CHECK(zero(7) == Approx(0.2168).epsilon(1e-3));
}

TEST_CASE("mod_arith: products of large residues do not overflow") {
  for (const bool precedence : {false, true}) {
    const auto task = MakeModArith(
        {.modulus = 4096, .expression_len = 301, .precedence = precedence, .cumulative = true});
    for (std::uint64_t index = 0; index < 20; ++index) {
      const Sample sample = MakeSample(*task, 1, 0, index);
      const auto positions = ScoredPositions(sample);
      std::vector<std::int32_t> answers(positions.size());
      task->Solve(sample.inputs, positions, answers);
      for (std::size_t i = 0; i < positions.size(); ++i) {
        REQUIRE(answers[i] == sample.labels[static_cast<std::size_t>(positions[i])]);
      }
    }
  }
}

TEST_CASE("mod_arith: label modes") {
  const auto plain = MakeModArith({.expression_len = 15});
  const Sample scored = MakeSample(*plain, 1, 0, 0);
  const Sample all = MakeSample(*plain, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 15; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
  CHECK(all.labels[15] == scored.labels[15]);
  const auto cumulative = MakeModArith({.expression_len = 15, .cumulative = true});
  CHECK(LabelsText(MakeSample(*cumulative, 1, 0, 0, LabelMode::kTargetOnly)) == "14:2");
}

TEST_CASE("mod_arith: slices count the operators before an answer") {
  const auto task = MakeModArith({.expression_len = 9, .cumulative = true});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(5, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 1, 1, 1, 2});
}

TEST_CASE("mod_arith: any number of lanes makes the same sample") {
  for (const bool precedence : {false, true}) {
    for (const bool cumulative : {false, true}) {
      for (const std::int64_t length : {3, 39, 101}) {
        CHECK(LanesAgree<ModArithSampler>(*MakeModArith({7, length, precedence, cumulative})));
      }
    }
  }
}

TEST_CASE("mod_arith: each rule is rejected with its own message") {
  const std::string task = "/task: mod_arith: ";
  CHECK(Rejected({.modulus = 1}) == task + "modulus must be in [2, 4096] (modulus=1)");
  CHECK(Rejected({.modulus = 4097}) == task + "modulus must be in [2, 4096] (modulus=4097)");
  CHECK(Rejected({.expression_len = (1 << 24) + 1}) ==
        task + "expression_len must be in [3, 16777215] (expression_len=16777217)");
  CHECK(Rejected({.expression_len = 1}) ==
        task + "expression_len must be in [3, 16777215] (expression_len=1)");
  CHECK(Rejected({.expression_len = 4}) == task + "expression_len must be odd (expression_len=4)");
  CHECK(Rejected({.modulus = 2, .expression_len = 3}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::mod_arith
