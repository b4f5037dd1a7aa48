// SPDX-License-Identifier: Apache-2.0
#include "tasks/circuits/circuits.h"

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::circuits {
namespace {

std::string Rejected(const CircuitsParams& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// The samples of this file come from tests/golden/derive/state_tracking.py, a second derivation in
// plain Python.
TEST_CASE("circuits: golden samples at length 16") {
  struct Golden {
    Circuit circuit;
    std::string canon, inputs, labels, sha256;
  };
  const std::vector<Golden> cases = {
      {Circuit::kParity, "parity;L=16", "0 0 0 0 0 0 1 1 1 0 1 0 1 0 1 2", "15:0",
       "046a8047adace60d0eb7697c24416c25279ee9fa311cf38ff466e4f956e811f7"},
      {Circuit::kCumParity, "cum_parity;L=16", "1 0 0 0 0 0 1 0 1 1 1 0 0 0 0",
       "0:1 1:1 2:1 3:1 4:1 5:1 6:0 7:0 8:1 9:0 10:1 11:1 12:1 13:1 14:1",
       "f05b165bd6ecc7daf54456d0930580b7498f209bbd03fa259ca7b80342c53d3c"},
      {Circuit::kMajority, "majority;L=16", "0 1 1 0 0 1 0 0 1 1 0 0 1 1 1 2", "15:1",
       "2268cb10f83348065d0168092e85ac04c0d175425f2044b334798e1600cb6673"},
      {Circuit::kCumMajority, "cum_majority;L=16", "1 1 1 1 0 0 0 0 0 0 1 0 0 0 1 0",
       "0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:0 9:0 10:0 11:0 12:0 13:0 14:0 15:0",
       "77674815bfbab5a1118158cec80f1479a581d1481eff3cd889f037805ebb866c"}};
  for (const Golden& golden : cases) {
    CAPTURE(golden.canon);
    const auto task = MakeCircuits({golden.circuit, 16});
    CHECK(task->canon() == golden.canon);
    const Sample sample = MakeSample(*task, 1, 0, 0);
    CHECK(TokensText(sample.inputs) == golden.inputs);
    CHECK(LabelsText(sample) == golden.labels);
    CHECK(InputsSha256(sample) == golden.sha256);
  }
}

TEST_CASE("circuits: a tie is 0 for majority and 1 for cum_majority") {
  const CircuitsSampler majority{Circuit::kMajority, 5};
  const CircuitsSampler cum_majority{Circuit::kCumMajority, 4};
  CHECK(majority.Answer(2, 4) == 0);
  CHECK(majority.Answer(3, 4) == 1);
  CHECK(cum_majority.Answer(2, 4) == 1);
  CHECK(cum_majority.Answer(1, 4) == 0);
}

TEST_CASE("circuits: chance counts ties") {
  // Four bits: 6 of 16 tie, 5 have more ones.
  const double ones = 5.0 / 16;
  const auto majority = MakeCircuits({Circuit::kMajority, 5})->baselines();
  CHECK(majority[0].accuracy == Approx(1 - ones));
  CHECK(majority[1].accuracy == Approx(ones * ones + (1 - ones) * (1 - ones)));
  // Ones or ties after 1, 2, 3 and 4 bits: 1/2, 3/4, 1/2, 11/16.
  const double share = (0.5 + 0.75 + 0.5 + 0.6875) / 4;
  const auto cum_majority = MakeCircuits({Circuit::kCumMajority, 4})->baselines();
  CHECK(cum_majority[0].accuracy == Approx(share));
  CHECK(MakeCircuits({Circuit::kCumParity, 5})->baselines()[0].accuracy == 0.5);
}

TEST_CASE("circuits: label modes") {
  const auto parity = MakeCircuits({Circuit::kParity, 6});
  const Sample scored = MakeSample(*parity, 1, 0, 0);
  const Sample all = MakeSample(*parity, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 5; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
  CHECK(all.labels[5] == scored.labels[5]);

  const auto cum_majority = MakeCircuits({Circuit::kCumMajority, 16});
  CHECK(LabelsText(MakeSample(*cum_majority, 1, 0, 0, LabelMode::kTargetOnly)) == "15:0");
}

TEST_CASE("circuits: slices are positions of labels") {
  const auto task = MakeCircuits({Circuit::kCumParity, 6});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(5, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 1, 1, 1, 2});
}

TEST_CASE("circuits: any number of lanes makes the same sample") {
  for (const Circuit circuit :
       {Circuit::kParity, Circuit::kCumParity, Circuit::kMajority, Circuit::kCumMajority}) {
    for (const std::int64_t length : {2, 16, 33, 150}) {
      CHECK(LanesAgree<CircuitsSampler>(*MakeCircuits({circuit, length})));
    }
  }
}

TEST_CASE("circuits: each rule is rejected with its own message") {
  CHECK(Rejected({Circuit::kParity, 1}) ==
        "/task: circuits: input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({Circuit::kParity, 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::circuits
