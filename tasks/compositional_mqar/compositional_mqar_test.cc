// SPDX-License-Identifier: Apache-2.0
#include "tasks/compositional_mqar/compositional_mqar.h"

#include <limits>
#include <set>
#include <utility>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::compositional_mqar {
namespace {

using Params = CompositionalMqarParams;

constexpr Params kSmall{.vocab_size = 150, .input_seq_len = 30, .noise = Noise::kZero};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("compositional mqar: golden sample") {
  const auto task = MakeCompositionalMqar(kSmall);
  REQUIRE(task->canon() == "compositional_mqar;L=30;kv=4;power_a=0.01;vocab=150");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "15 96 145 45 96 127 45 74 147 15 74 116 45 74 0 45 96 0 15 74 0 0 0 0 0 0 0 15 96 0");
  CHECK(LabelsText(sample) == "13:147 16:127 19:116 28:145");
  CHECK(InputsSha256(sample) == "58638ea46a53025ab834b460c3c05bfc05fd8635b954a10f74b7d51becad740d");
}

TEST_CASE("compositional mqar: the context holds every combination of its keys once") {
  const auto task = MakeCompositionalMqar({.input_seq_len = 128, .num_kv_pairs = 9});
  for (std::uint64_t index = 0; index < 50; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    std::set<std::int32_t> first, second, values;
    std::set<std::pair<std::int32_t, std::int32_t>> keys;
    for (std::size_t t = 0; t < 27; t += 3) {
      first.insert(sample.inputs[t]);
      second.insert(sample.inputs[t + 1]);
      keys.insert({sample.inputs[t], sample.inputs[t + 1]});
      values.insert(sample.inputs[t + 2]);
    }
    REQUIRE(first.size() == 3);
    REQUIRE(second.size() == 3);
    REQUIRE(keys.size() == 9);
    REQUIRE(values.size() == 9);
    REQUIRE(*first.begin() >= 1);
    REQUIRE(*first.rbegin() < 2730);
    REQUIRE(*second.begin() >= 2730);
    REQUIRE(*second.rbegin() < 5460);
    REQUIRE(*values.begin() >= 5460);
  }
}

TEST_CASE("compositional mqar: random_safe filler holds neither part of a key") {
  const auto task =
      MakeCompositionalMqar({.vocab_size = 60, .input_seq_len = 56, .noise = Noise::kRandomSafe});
  std::set<std::int32_t> seen;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    std::set<std::int32_t> keys;
    for (std::size_t t = 0; t < 12; ++t) {
      if (t % 3 != 2) keys.insert(sample.inputs[t]);
    }
    for (std::size_t t = 12; t < sample.inputs.size(); ++t) {
      const bool is_second = sample.labels[t] != kIgnore;
      const bool is_first = t + 1 < sample.labels.size() && sample.labels[t + 1] != kIgnore;
      if (is_first || is_second) continue;
      REQUIRE_FALSE(keys.contains(sample.inputs[t]));
      seen.insert(sample.inputs[t]);
    }
  }
  CHECK(seen.size() == 60);
}

TEST_CASE("compositional mqar: noise changes neither the context, the queries nor labels") {
  const Sample sample = MakeSample(*MakeCompositionalMqar({.noise = Noise::kZero}), 1, 0, 3);
  for (const Noise noise : {Noise::kRandom, Noise::kRandomSafe}) {
    const Sample noisy = MakeSample(*MakeCompositionalMqar({.noise = noise}), 1, 0, 3);
    CHECK(noisy.labels == sample.labels);
    for (std::size_t t = 0; t < 64; ++t) {
      if (t < 12 || sample.inputs[t] != 0) CHECK(noisy.inputs[t] == sample.inputs[t]);
    }
  }
}

TEST_CASE("compositional mqar: slices of the golden sample") {
  const auto task = MakeCompositionalMqar(kSmall);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(12, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  // Queries: places 2, 1, 3, 0 with gaps 0, 1, 2, 5.
  CHECK(buckets == std::vector<std::int32_t>{0, 1, 0, 1, 1, 1, 1, 1, 1, 2, 0, 1});
}

TEST_CASE("compositional mqar: baselines of the golden setting") {
  const std::vector<Baseline> baselines = MakeCompositionalMqar(kSmall)->baselines();
  REQUIRE(baselines.size() == 3);
  CHECK(baselines[0].accuracy == 1.0 / 50);
  CHECK(baselines[1].accuracy == 0.25);
  CHECK(baselines[2].accuracy == 0.5);
}

TEST_CASE("compositional mqar: any number of lanes makes the same sample") {
  for (const Noise noise : {Noise::kZero, Noise::kRandom, Noise::kRandomSafe}) {
    CHECK(LanesAgree<CompositionalMqarSampler>(
        *MakeCompositionalMqar({.num_kv_pairs = 9, .noise = noise})));
  }
}

TEST_CASE("compositional mqar: each rule is rejected with its own message") {
  const std::string task = "/task: compositional_mqar: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 0}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=0)");
  CHECK(Rejected({.num_kv_pairs = 0}) == task + "num_kv_pairs must be >= 1 (num_kv_pairs=0)");
  CHECK(Rejected({.input_seq_len = 63}) == task + "input_seq_len must be even (input_seq_len=63)");
  CHECK(Rejected({.vocab_size = 8}) ==
        task + "sqrt(num_kv_pairs) must be <= vocab_size/3 - 1 (num_kv_pairs=4, vocab_size=8)");
  CHECK(Rejected({.vocab_size = 9}) ==
        task +
            "num_kv_pairs must be <= vocab_size - 2*(vocab_size/3), the number of values "
            "(num_kv_pairs=4, vocab_size=9)");
  CHECK(Rejected({.vocab_size = 10}) == "");
  CHECK(Rejected({.input_seq_len = 22}) ==
        task + "need 6*num_kv_pairs <= input_seq_len (num_kv_pairs=4, input_seq_len=22)");
  CHECK(Rejected({.num_kv_pairs = std::numeric_limits<std::int64_t>::max()})
            .find("need 6*num_kv_pairs <= input_seq_len") != std::string::npos);
  CHECK(Rejected({.num_kv_pairs = 5}) ==
        task + "num_kv_pairs must be a perfect square (num_kv_pairs=5)");
  CHECK(Rejected({.power_a = 0}) == task + "power_a must be > 0 (power_a=0)");
  CHECK(Rejected({.vocab_size = 7, .input_seq_len = 6, .num_kv_pairs = 1}) == "");
}

TEST_CASE("compositional mqar: the smallest vocabulary has keys and values enough") {
  const auto task =
      MakeCompositionalMqar({.vocab_size = 10, .input_seq_len = 24, .num_kv_pairs = 4});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(ScoredPositions(sample).size() == 4);
}

}  // namespace
}  // namespace mixerbench::tasks::compositional_mqar
