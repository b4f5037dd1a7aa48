// SPDX-License-Identifier: Apache-2.0
#include "tasks/induction_heads/induction_heads.h"

#include <algorithm>
#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::induction_heads {
namespace {

using Params = InductionHeadsParams;

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("induction heads: golden sample") {
  const auto task = MakeInductionHeads({.input_seq_len = 24, .prefix_len = 10});
  REQUIRE(task->canon() == "induction_heads;L=24;prefix=10;vocab=16");
  CHECK(task->shape().vocab_size == 17);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "13 9 13 11 3 16 2 12 3 14 12 14 13 13 9 1 7 6 7 7 6 14 15 16");
  CHECK(LabelsText(sample) == "23:2");
  CHECK(InputsSha256(sample) == "0b9f9040fcd6429ed1abc902f85215969487e1b9f3d40f411fb3539a7fc4513f");
}

// Of Mamba's setting, from tests/golden/derive/lookup.py.
TEST_CASE("induction heads: the default is every position at 256 tokens") {
  const auto task = MakeInductionHeads({});
  REQUIRE(task->canon() == "induction_heads;L=256;prefix=254;vocab=16");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(LabelsText(sample) == "255:2");
  CHECK(InputsSha256(sample) == "24331fb75eabd7c074876bcebf9d7c0f84923afee92bccacedb3126847a227e2");
}

TEST_CASE("induction heads: the special token comes twice, first within the prefix") {
  const auto task = MakeInductionHeads({.input_seq_len = 12, .prefix_len = 10});
  std::set<std::ptrdiff_t> seen;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    REQUIRE(std::count(sample.inputs.begin(), sample.inputs.end(), 16) == 2);
    REQUIRE(sample.inputs.back() == 16);
    seen.insert(std::find(sample.inputs.begin(), sample.inputs.end(), 16) - sample.inputs.begin());
  }
  CHECK(seen.size() == 10);
  CHECK(*seen.rbegin() == 9);
}

TEST_CASE("induction heads: all_tokens labels are the next input before the end") {
  const auto task = MakeInductionHeads({});
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 255; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
  CHECK(all.labels[255] == scored.labels[255]);
}

TEST_CASE("induction heads: the slice is the depth of the first special token") {
  const auto task = MakeInductionHeads({.input_seq_len = 24, .prefix_len = 10});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(1, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{2});  // position 5 of 24
}

TEST_CASE("induction heads: any number of lanes makes the same sample") {
  CHECK(LanesAgree<InductionHeadsSampler>(*MakeInductionHeads({})));
  CHECK(LanesAgree<InductionHeadsSampler>(
      *MakeInductionHeads({.vocab_size = 2, .input_seq_len = 4, .prefix_len = 1})));
}

TEST_CASE("induction heads: each rule is rejected with its own message") {
  const std::string task = "/task: induction_heads: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.prefix_len = 0}) ==
        task + "prefix_len must be in [1, input_seq_len - 2] (prefix_len=0, input_seq_len=256)");
  CHECK(Rejected({.prefix_len = 255}) ==
        task + "prefix_len must be in [1, input_seq_len - 2] (prefix_len=255, input_seq_len=256)");
  CHECK(Rejected({.input_seq_len = 3, .prefix_len = 1}) ==
        task + "input_seq_len must be >= 4 (input_seq_len=3)");
  CHECK(Rejected({.vocab_size = 2, .input_seq_len = 4, .prefix_len = 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::induction_heads
