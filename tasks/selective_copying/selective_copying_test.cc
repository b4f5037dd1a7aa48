// SPDX-License-Identifier: Apache-2.0
#include "tasks/selective_copying/selective_copying.h"

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::selective_copying {
namespace {

using Params = SelectiveCopyingParams;

constexpr Params kSmall{.vocab_size = 10, .num_tokens_to_copy = 5, .prefix_len = 15};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("selective copying: golden sample of SelectLTI's setting") {
  const auto task = MakeSelectiveCopying({});
  REQUIRE(task->canon() == "selective_copying;M=16;alphabet=16;prefix=4112;reverse=0;variable=1");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs).starts_with("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"));
  CHECK(LabelsText(sample) ==
        "4112:3 4113:14 4114:12 4115:8 4116:2 4117:11 4118:3 4119:14 4120:3 4121:9 4122:6 4123:13 "
        "4124:4 4125:13 4126:6 4127:4");
  CHECK(InputsSha256(sample) == "304067428d2ebdfb8fdab9f481c2def18f6dfc033ed558853068cb6a57558aa0");
}

TEST_CASE("selective copying: small golden sample") {
  const Sample sample = MakeSample(*MakeSelectiveCopying(kSmall), 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "4 0 0 0 4 0 0 0 0 1 5 0 0 0 2 9 9 9 9 9");
  CHECK(LabelsText(sample) == "15:4 16:4 17:1 18:5 19:2");
  CHECK(InputsSha256(sample) == "17ae1424a1867a67d0a43ec83ca2675623d4b30628164439ed0035186902d41a");
}

TEST_CASE("selective copying: reverse asks for the same tokens backwards") {
  Params params = kSmall;
  params.reverse = true;
  const auto task = MakeSelectiveCopying(params);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> data;
  for (std::size_t t = 0; t < 15; ++t) {
    if (sample.inputs[t] != 0) data.push_back(sample.inputs[t]);
  }
  REQUIRE(data.size() == 5);
  for (std::size_t m = 0; m < 5; ++m) CHECK(sample.labels[15 + m] == data[4 - m]);
}

TEST_CASE("selective copying: without variable positions the data stand at the start") {
  Params params = kSmall;
  params.variable = false;
  const Sample sample = MakeSample(*MakeSelectiveCopying(params), 1, 0, 0);
  for (std::size_t t = 0; t < 15; ++t) CHECK((sample.inputs[t] != 0) == (t < 5));
  for (std::size_t m = 0; m < 5; ++m) CHECK(sample.labels[15 + m] == sample.inputs[m]);
}

TEST_CASE("selective copying: all_tokens labels are the next input before the markers") {
  const auto task = MakeSelectiveCopying(kSmall);
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 20; ++t) {
    CHECK(all.labels[t] == (t < 15 ? scored.inputs[t + 1] : scored.labels[t]));
  }
}

TEST_CASE("selective copying: target_only labels the last marker") {
  const auto task = MakeSelectiveCopying(kSmall);
  CHECK(LabelsText(MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly)) == "19:2");
}

TEST_CASE("selective copying: slices of the small golden sample") {
  const auto task = MakeSelectiveCopying(kSmall);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(10, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  // Tokens at positions 0, 4, 9, 10, 14 of 15.
  CHECK(buckets == std::vector<std::int32_t>{0, 9, 1, 6, 1, 3, 1, 2, 2, 0});
}

TEST_CASE("selective copying: any number of lanes makes the same sample") {
  for (const bool variable : {false, true}) {
    for (const bool reverse : {false, true}) {
      Params params = kSmall;
      params.variable = variable;
      params.reverse = reverse;
      CHECK(LanesAgree<SelectiveCopyingSampler>(*MakeSelectiveCopying(params)));
    }
  }
}

TEST_CASE("selective copying: each rule is rejected with its own message") {
  const std::string task = "/task: selective_copying: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.num_tokens_to_copy = 1 << 23, .prefix_len = (1 << 23) + 1}) ==
        task +
            "prefix_len + num_tokens_to_copy must be in [2, 16777216] (prefix_len=8388609, "
            "num_tokens_to_copy=8388608)");
  CHECK(Rejected({.vocab_size = 2}) == task + "vocab_size must be >= 3 (vocab_size=2)");
  CHECK(Rejected({.num_tokens_to_copy = 0}) ==
        task + "num_tokens_to_copy must be >= 1 (num_tokens_to_copy=0)");
  CHECK(Rejected({.prefix_len = 15}) ==
        task + "prefix_len must be >= num_tokens_to_copy (prefix_len=15, num_tokens_to_copy=16)");
  CHECK(Rejected({.vocab_size = 3, .num_tokens_to_copy = 1, .prefix_len = 1}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::selective_copying
