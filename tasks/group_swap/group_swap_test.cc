// SPDX-License-Identifier: Apache-2.0
#include "tasks/group_swap/group_swap.h"

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::group_swap {
namespace {

std::string Rejected(const GroupSwapParams& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

Sample First(std::int64_t num_points, LabelMode mode = LabelMode::kScored) {
  return MakeSample(*MakeGroupSwap({num_points, 12}), 1, 0, 0, mode);
}

// From tests/golden/derive/state_tracking.py, which moves cups in a list.
TEST_CASE("group_swap: derived samples") {
  REQUIRE(MakeGroupSwap({5, 12})->canon() == "group_swap;L=12;n=5");
  const Sample five = First(5);
  CHECK(TokensText(five.inputs) == "7 6 8 7 8 9 5 9 2 3 2 9");
  CHECK(LabelsText(five) == "0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:3 9:3 10:0 11:0");
  const Sample seven = First(7);
  CHECK(TokensText(seven.inputs) == "17 14 4 13 2 8 7 0 15 16 9 0");
  CHECK(LabelsText(seven) == "0:0 1:0 2:5 3:2 4:2 5:2 6:2 7:2 8:2 9:2 10:2 11:2");
}

TEST_CASE("group_swap: target_only keeps the last place, all_tokens adds nothing") {
  CHECK(LabelsText(First(7, LabelMode::kTargetOnly)) == "11:2");
  CHECK(First(7, LabelMode::kAllTokens) == First(7));
}

TEST_CASE("group_swap: chance by hand") {
  // After one of the three swaps of three points 0 is still there with probability 1/3, and so on.
  CHECK(MakeGroupSwap({3, 40})->baselines().front().accuracy == Approx(1.0 / 3).epsilon(1e-12));
  // Of five points: 3/5 after one swap; 1/5 + 4/5 (1/2)^2 after two.
  CHECK(MakeGroupSwap({5, 2})->baselines().front().accuracy ==
        Approx((0.6 + 0.4) / 2).epsilon(1e-12));
}

TEST_CASE("group_swap: slices are the position and whether it is the last") {
  const auto task = MakeGroupSwap({3, 5});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(10, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, -1, 1, -1, 1, -1, 1, -1, 2, 0});
}

TEST_CASE("group_swap: any number of lanes makes the same sample") {
  for (const std::int64_t num_points : {3, 7}) {
    for (const std::int64_t length : {2, 33, 150}) {
      CHECK(LanesAgree<GroupSwapSampler>(*MakeGroupSwap({num_points, length})));
    }
  }
}

TEST_CASE("group_swap: each rule is rejected with its own message") {
  const std::string task = "/task: group_swap: ";
  CHECK(Rejected({5, 1}) == task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({2, 4}) == task + "num_points must be in [3, 7] (num_points=2)");
  CHECK(Rejected({8, 4}) == task + "num_points must be in [3, 7] (num_points=8)");
  CHECK(Rejected({7, 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::group_swap
