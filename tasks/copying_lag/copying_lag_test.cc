// SPDX-License-Identifier: Apache-2.0
#include "tasks/copying_lag/copying_lag.h"

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::copying_lag {
namespace {

using Params = CopyingLagParams;

constexpr Params kSmall{.vocab_size = 10, .input_seq_len = 12, .lag = 3};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// From tests/golden/derive/copying.py, a second derivation in plain Python.
TEST_CASE("copying_lag: derived sample") {
  const auto task = MakeCopyingLag(kSmall);
  REQUIRE(task->canon() == "copying_lag;L=12;M=3;alphabet=10");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "4 5 5 7 7 4 2 3 1 7 1 7");
  CHECK(LabelsText(sample) == "0:0 1:0 2:0 3:4 4:5 5:5 6:7 7:7 8:4 9:2 10:3 11:1");
  CHECK(InputsSha256(sample) == "47cc6e1b187c00358ad3a5f7281e857c316e1e47bd151f173fb8b6cf03dcc849");
}

TEST_CASE("copying_lag: target_only keeps the last, all_tokens adds nothing") {
  const auto task = MakeCopyingLag(kSmall);
  CHECK(LabelsText(MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly)) == "11:1");
  CHECK(MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens) == MakeSample(*task, 1, 0, 0));
}

TEST_CASE("copying_lag: the zeros at the start have a slice of their own") {
  const auto task = MakeCopyingLag(kSmall);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(12, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("copying_lag: any number of lanes makes the same sample") {
  CHECK(LanesAgree<CopyingLagSampler>(*MakeCopyingLag(kSmall)));
  CHECK(LanesAgree<CopyingLagSampler>(*MakeCopyingLag({.input_seq_len = 133, .lag = 132})));
}

TEST_CASE("copying_lag: each rule is rejected with its own message") {
  const std::string task = "/task: copying_lag: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.vocab_size = 2}) == task + "vocab_size must be >= 3 (vocab_size=2)");
  CHECK(Rejected({.lag = 0}) == task + "lag must be >= 1 (lag=0)");
  CHECK(Rejected({.input_seq_len = 10}) ==
        task + "lag must be < input_seq_len (lag=10, input_seq_len=10)");
  CHECK(Rejected({.vocab_size = 3, .input_seq_len = 2, .lag = 1}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::copying_lag
