// SPDX-License-Identifier: Apache-2.0
#include "tasks/forgetting_mqar/forgetting_mqar.h"

#include <limits>
#include <map>
#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::forgetting_mqar {
namespace {

using Params = ForgettingMqarParams;

constexpr Params kSmall{
    .input_seq_len = 32, .num_kv_pairs = 4, .num_updates = 2, .noise = Noise::kZero};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("forgetting mqar: golden sample") {
  const auto task = MakeForgettingMqar(kSmall);
  REQUIRE(task->canon() == "forgetting_mqar;L=32;kv=4;power_a=0.01;updates=2;vocab=8192");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "4088 4240 2468 5203 2489 5297 820 4868 2489 4159 4088 5887 0 0 2489 0 0 0 0 0 2468 0 0 0 "
        "4088 0 0 0 0 0 820 0");
  CHECK(LabelsText(sample) == "14:4159 20:5203 24:5887 30:4868");
  CHECK(InputsSha256(sample) == "d91171eab28b7c1d0e3d55e81de0a853161de30ae7737f95172299567169936c");
}

TEST_CASE("forgetting mqar: every update changes the value of a different key") {
  // Seven values: without the exclusion one update in seven would restore the old one.
  const Params params{.vocab_size = 13,
                      .input_seq_len = 12,
                      .num_kv_pairs = 2,
                      .num_updates = 2,
                      .noise = Noise::kZero};
  const auto task = MakeForgettingMqar(params);
  std::set<std::int32_t> new_values;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const std::map<std::int32_t, std::int32_t> original = {{sample.inputs[0], sample.inputs[1]},
                                                           {sample.inputs[2], sample.inputs[3]}};
    REQUIRE(sample.inputs[4] != sample.inputs[6]);
    for (const std::size_t t : {4, 6}) {
      REQUIRE(original.at(sample.inputs[t]) != sample.inputs[t + 1]);
      new_values.insert(sample.inputs[t + 1]);
    }
  }
  CHECK(new_values == std::set<std::int32_t>{6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("forgetting mqar: without updates the first value is the answer") {
  Params params = kSmall;
  params.num_updates = 0;
  const Sample sample = MakeSample(*MakeForgettingMqar(params), 1, 0, 0);
  std::map<std::int32_t, std::int32_t> value_of;
  for (std::size_t t = 0; t < 8; t += 2) value_of[sample.inputs[t]] = sample.inputs[t + 1];
  for (const std::int32_t t : ScoredPositions(sample)) {
    const auto position = static_cast<std::size_t>(t);
    CHECK(sample.labels[position] == value_of.at(sample.inputs[position]));
  }
}

TEST_CASE("forgetting mqar: noise changes neither the context, the queries nor labels") {
  const auto zero = MakeForgettingMqar({.noise = Noise::kZero});
  const Sample sample = MakeSample(*zero, 1, 0, 3);
  for (const Noise noise : {Noise::kRandom, Noise::kRandomSafe}) {
    const Sample noisy = MakeSample(*MakeForgettingMqar({.noise = noise}), 1, 0, 3);
    CHECK(noisy.labels == sample.labels);
    for (std::size_t t = 0; t < 64; ++t) {
      if (t < 24 || sample.labels[t] != kIgnore) CHECK(noisy.inputs[t] == sample.inputs[t]);
    }
  }
}

TEST_CASE("forgetting mqar: random_safe filler holds no key of the sample") {
  const auto task = MakeForgettingMqar({.vocab_size = 40,
                                        .input_seq_len = 36,
                                        .num_kv_pairs = 3,
                                        .num_updates = 2,
                                        .noise = Noise::kRandomSafe});
  for (std::uint64_t index = 0; index < 100; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const std::set<std::int32_t> keys = {sample.inputs[0], sample.inputs[2], sample.inputs[4]};
    for (std::size_t t = 10; t < sample.inputs.size(); ++t) {
      if (sample.labels[t] == kIgnore) REQUIRE_FALSE(keys.contains(sample.inputs[t]));
    }
  }
}

TEST_CASE("forgetting mqar: slices of the golden sample") {
  const auto task = MakeForgettingMqar(kSmall);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(16, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  // Queries: pair 2 (updated, gap 1), pair 1 (gap 4), pair 0 (updated, gap 6), pair 3 (gap 9).
  CHECK(buckets == std::vector<std::int32_t>{1, 1, 1, 0, 0, 2, 1, 1, 1, 2, 0, 1, 0, 2, 1, 1});
}

TEST_CASE("forgetting mqar: a model that ignores updates scores the third baseline") {
  const auto task = MakeForgettingMqar(kSmall);
  CHECK(task->baselines().at(2).accuracy == 0.5);
}

TEST_CASE("forgetting mqar: any number of lanes makes the same sample") {
  for (const Noise noise : {Noise::kZero, Noise::kRandom, Noise::kRandomSafe}) {
    CHECK(LanesAgree<ForgettingMqarSampler>(*MakeForgettingMqar({.noise = noise})));
  }
  CHECK(LanesAgree<ForgettingMqarSampler>(*MakeForgettingMqar({.num_updates = 0})));
  CHECK(LanesAgree<ForgettingMqarSampler>(
      *MakeForgettingMqar({.input_seq_len = 24, .num_kv_pairs = 4, .num_updates = 4})));
}

TEST_CASE("forgetting mqar: each rule is rejected with its own message") {
  const std::string task = "/task: forgetting_mqar: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 0}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=0)");
  CHECK(Rejected({.num_kv_pairs = 0}) == task + "num_kv_pairs must be >= 1 (num_kv_pairs=0)");
  CHECK(Rejected({.input_seq_len = 63}) == task + "input_seq_len must be even (input_seq_len=63)");
  CHECK(Rejected({.vocab_size = 17}) ==
        task + "num_kv_pairs must be <= vocab_size/2 - 1 (num_kv_pairs=8, vocab_size=17)");
  CHECK(Rejected({.vocab_size = 18}) == "");
  CHECK(Rejected({.input_seq_len = 38}) ==
        task +
            "need 2*(num_kv_pairs+num_updates) + 2*num_kv_pairs <= input_seq_len (num_kv_pairs=8, "
            "num_updates=4, input_seq_len=38)");
  CHECK(Rejected({.input_seq_len = 40}) == "");
  CHECK(Rejected({.power_a = 0}) == task + "power_a must be > 0 (power_a=0)");
  CHECK(Rejected({.num_updates = -1}) ==
        task + "num_updates must be in [0, num_kv_pairs] (num_updates=-1, num_kv_pairs=8)");
  CHECK(Rejected({.num_updates = 9}) ==
        task + "num_updates must be in [0, num_kv_pairs] (num_updates=9, num_kv_pairs=8)");
}

TEST_CASE("forgetting mqar: inputs may be longer than the vocabulary") {
  const auto task = MakeForgettingMqar(
      {.vocab_size = 18, .input_seq_len = 4096, .num_kv_pairs = 8, .num_updates = 8});
  CHECK(ScoredPositions(MakeSample(*task, 1, 0, 0)).size() == 8);
}

TEST_CASE("forgetting mqar: huge sizes are rejected, not added up") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const std::string rule = "need 2*(num_kv_pairs+num_updates)";
  CHECK(Rejected({.num_kv_pairs = kHuge}).find(rule) != std::string::npos);
  CHECK(Rejected({.num_updates = kHuge}).find(rule) != std::string::npos);
}

}  // namespace
}  // namespace mixerbench::tasks::forgetting_mqar
