// SPDX-License-Identifier: Apache-2.0
#include "tasks/mqar/mqar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "tasks/power_law.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mqar {
namespace {

std::string Rejected(const MqarParams& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("mqar: golden sample with zero filler") {
  const auto task = MakeMqar({.num_kv_pairs = 4, .noise = Noise::kZero});
  REQUIRE(task->canon() == "mqar;L=64;kv=4;passes=1;power_a=0.01;vocab=8192");
  const Sample sample = MakeSample(*task, 123, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "1889 5829 3709 6326 3651 7167 2850 5058 3651 0 1889 0 0 0 0 0 0 0 0 0 2850 0 0 0 0 0 0 0 "
        "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3709 0 0 0 0 0 0 0 0 0");
  CHECK(LabelsText(sample) == "8:7167 10:5829 20:5058 54:6326");
  CHECK(InputsSha256(sample) == "b07f208f00c4781176dad168b4a89ef7667c847b10468c1e5c5477c323d5ae1c");
}

TEST_CASE("mqar: golden sample with random filler") {
  const auto task = MakeMqar({.num_kv_pairs = 4, .noise = Noise::kRandom});
  const Sample sample = MakeSample(*task, 123, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "1889 5829 3709 6326 3651 7167 2850 5058 3651 4410 1889 7801 483 5021 793 5241 4524 5306 "
        "6475 3092 2850 824 5516 1936 7133 1391 7812 5018 2225 5661 6582 7568 381 2562 6498 76 "
        "6456 3463 7207 5379 5445 3066 5694 1340 1602 2329 1048 2234 5323 2789 5522 802 208 449 "
        "3709 839 7710 6764 7643 6824 3235 5086 5988 466");
  CHECK(LabelsText(sample) == "8:7167 10:5829 20:5058 54:6326");
  CHECK(InputsSha256(sample) == "31d61479749e9f865ad06cb8ee77d1b464a1d3f7793e9e2dd684863d4ae88248");
}

TEST_CASE("mqar: golden sample in which every slot is a query") {
  const auto task = MakeMqar({.input_seq_len = 1024, .num_kv_pairs = 256});
  const Sample sample = MakeSample(*task, 123, 2, 999);
  CHECK(TokensText(sample.inputs)
            .starts_with("3877 7965 2462 7995 1058 6805 464 7327 766 4826 3311 4721 1189 7105 1744 "
                         "8018 2272 4917 "
                         "2750 6620 717 6647 628 6696"));
  CHECK(LabelsText(sample).starts_with(
      "512:7965 514:7995 516:4721 518:8125 520:6805 522:4206 524:7176 526:4927 528:8011 "
      "530:4918 532:4919 534:6741 536:6696 538:6231 540:5176 542:6150 544:8012 546:732"));
  CHECK(InputsSha256(sample) == "b35e3adbedf4cbe57852e563cddc820123d18765950e2ad85857641f5e25f628");
}

TEST_CASE("mqar: the slot of the first pair's query follows the power law") {
  constexpr std::uint64_t kNumSamples = 20000;
  constexpr std::size_t kNumSlots = 28, kContext = 8;
  for (const double power_a : {0.01, 1.0, 3.0}) {
    CAPTURE(power_a);
    const auto task = MakeMqar({.num_kv_pairs = 4, .power_a = power_a, .noise = Noise::kZero});
    std::vector<double> observed(kNumSlots, 0.0);
    for (std::uint64_t index = 0; index < kNumSamples; ++index) {
      const Sample sample = MakeSample(*task, 123, 0, index);
      const auto value = std::find(sample.labels.begin(), sample.labels.end(), sample.inputs[1]);
      const auto position = static_cast<std::size_t>(value - sample.labels.begin());
      REQUIRE(position < sample.labels.size());
      ++observed[(position - kContext) / 2];
    }
    std::vector<double> expected;
    for (std::size_t slot = 0; slot < kNumSlots; ++slot) {
      expected.push_back(std::pow(static_cast<double>(slot + 1), power_a - 1));
    }
    const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
    for (double& count : expected) count *= static_cast<double>(kNumSamples) / total;
    CHECK(std::abs(ChiSquareDeviate(observed, expected)) < kMaxDeviate);
  }
}

TEST_CASE("mqar: probabilities of the gaps at length 16 with two pairs") {
  const std::vector<double> expected = {0.4053657497, 0.2040926457, 0.1366145667,
                                        0.1027561112, 0.0823885287, 0.0687823981};
  const std::vector<std::uint32_t> weights = PowerLawWeights(6, MqarParams{}.power_a);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  REQUIRE(weights.size() == expected.size());
  for (std::size_t slot = 0; slot < expected.size(); ++slot) {
    CHECK(std::abs(weights[slot] / total - expected[slot]) < 1e-8);
  }
}

TEST_CASE("mqar: random_safe filler holds no key of the sample and every other token") {
  const MqarParams params{
      .vocab_size = 32, .input_seq_len = 30, .num_kv_pairs = 3, .noise = Noise::kRandomSafe};
  const auto task = MakeMqar(params);
  std::set<std::int32_t> seen;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const std::set<std::int32_t> keys = {sample.inputs[0], sample.inputs[2], sample.inputs[4]};
    for (std::size_t t = 6; t < sample.inputs.size(); ++t) {
      if (sample.labels[t] != kIgnore) continue;
      REQUIRE_FALSE(keys.contains(sample.inputs[t]));
      seen.insert(sample.inputs[t]);
    }
  }
  CHECK(seen.size() == 32);
}

TEST_CASE("mqar: noise changes neither keys, values, gaps nor labels") {
  const auto zero = MakeMqar({.noise = Noise::kZero});
  const auto random = MakeMqar({.noise = Noise::kRandom});
  const auto safe = MakeMqar({.noise = Noise::kRandomSafe});
  const Sample sample = MakeSample(*zero, 1, 0, 3);
  for (const Task* other : {random.get(), safe.get()}) {
    const Sample noisy = MakeSample(*other, 1, 0, 3);
    CHECK(noisy.labels == sample.labels);
    for (std::size_t t = 0; t < 64; ++t) {
      if (t < 16 || sample.labels[t] != kIgnore) CHECK(noisy.inputs[t] == sample.inputs[t]);
    }
  }
}

TEST_CASE("mqar: further passes repeat the list of pairs") {
  const auto task = MakeMqar({.num_kv_pairs = 3, .num_passes = 4, .noise = Noise::kZero});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  for (std::size_t t = 6; t < 24; ++t) CHECK(sample.inputs[t] == sample.inputs[t - 6]);
  CHECK(ScoredPositions(sample).size() == 3);
  CHECK(ScoredPositions(sample).front() >= 24);
}

TEST_CASE("mqar: all_tokens labels are the next input except at the queries") {
  const auto task = MakeMqar({});
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  CHECK(all.inputs == scored.inputs);
  for (std::size_t t = 0; t < 63; ++t) {
    const bool is_query = scored.labels[t] != kIgnore;
    CHECK(all.labels[t] == (is_query ? scored.labels[t] : scored.inputs[t + 1]));
  }
  CHECK(all.labels[63] == scored.labels[63]);
}

TEST_CASE("mqar: target_only labels the last query") {
  const auto task = MakeMqar({});
  for (std::uint64_t index = 0; index < 20; ++index) {
    const Sample scored = MakeSample(*task, 1, 0, index);
    const Sample target = MakeSample(*task, 1, 0, index, LabelMode::kTargetOnly);
    const std::int32_t last = ScoredPositions(scored).back();
    CHECK(ScoredPositions(target) == std::vector<std::int32_t>{last});
    CHECK(target.labels[static_cast<std::size_t>(last)] ==
          scored.labels[static_cast<std::size_t>(last)]);
  }
}

TEST_CASE("mqar: slices of the golden sample") {
  const auto task = MakeMqar({.num_kv_pairs = 4, .noise = Noise::kZero});
  const Sample sample = MakeSample(*task, 123, 0, 0);
  std::vector<std::int32_t> buckets(12, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  // Queries in order of position: gaps 0, 1, 6, 23 of pairs 2, 0, 3, 1.
  CHECK(buckets == std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 2, 1, 1, 3, 1, 1});
}

TEST_CASE("mqar: the oracle is not fooled by filler that repeats a key") {
  const auto task = MakeMqar({.vocab_size = 34, .input_seq_len = 32, .num_kv_pairs = 4});
  bool is_trap_seen = false;
  for (std::uint64_t index = 0; index < 50; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const auto positions = ScoredPositions(sample);
    std::vector<std::int32_t> answers(positions.size());
    task->Solve(sample.inputs, positions, answers);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto t = static_cast<std::size_t>(positions[i]);
      CHECK(answers[i] == sample.labels[t]);
      is_trap_seen |= std::find(sample.inputs.begin() + 8, sample.inputs.begin() + positions[i],
                                sample.inputs[t]) != sample.inputs.begin() + positions[i];
    }
  }
  CHECK(is_trap_seen);
}

TEST_CASE("mqar: any number of lanes makes the same sample") {
  for (const Noise noise : {Noise::kZero, Noise::kRandom, Noise::kRandomSafe}) {
    CHECK(LanesAgree<MqarSampler>(*MakeMqar({.num_passes = 2, .noise = noise})));
  }
}

TEST_CASE("mqar: each rule is rejected with its own message") {
  CHECK(Rejected({.vocab_size = 1}) ==
        "/task: mqar: vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.vocab_size = (1 << 24) + 1}) ==
        "/task: mqar: vocab_size must be in [2, 16777216] (vocab_size=16777217)");
  CHECK(Rejected({.input_seq_len = 0}) ==
        "/task: mqar: input_seq_len must be in [2, 16777216] (input_seq_len=0)");
  CHECK(Rejected({.num_kv_pairs = 0}) == "/task: mqar: num_kv_pairs must be >= 1 (num_kv_pairs=0)");
  CHECK(Rejected({.num_passes = 0}) == "/task: mqar: num_passes must be >= 1 (num_passes=0)");
  CHECK(Rejected({.input_seq_len = 63}) ==
        "/task: mqar: input_seq_len must be even (input_seq_len=63)");
  CHECK(Rejected({.vocab_size = 17}) ==
        "/task: mqar: num_kv_pairs must be <= vocab_size/2 - 1 (num_kv_pairs=8, vocab_size=17)");
  CHECK(Rejected({.vocab_size = 18}) == "");
  CHECK(Rejected({.input_seq_len = 16}) ==
        "/task: mqar: need 2*num_kv_pairs*(num_passes+1) <= input_seq_len (num_kv_pairs=8, "
        "num_passes=1, input_seq_len=16)");
  CHECK(Rejected({.vocab_size = 10, .input_seq_len = 8, .num_kv_pairs = 2}) == "");
  CHECK(Rejected({.power_a = 0}) == "/task: mqar: power_a must be > 0 (power_a=0)");
  CHECK(Rejected({.power_a = -0.5}) == "/task: mqar: power_a must be > 0 (power_a=-0.5)");
}

TEST_CASE("mqar: inputs may be longer than the vocabulary, but not in the presets of papers") {
  // The zoology repository demands vocab_size > input_seq_len.
  for (const Noise noise : {Noise::kZero, Noise::kRandom, Noise::kRandomSafe}) {
    const auto task =
        MakeMqar({.vocab_size = 512, .input_seq_len = 65536, .num_kv_pairs = 255, .noise = noise});
    const Sample sample = MakeSample(*task, 1, 0, 0);
    const auto scored = ScoredPositions(sample);
    CHECK(scored.size() == 255);
    std::vector<std::int32_t> answers(scored.size());
    task->Solve(sample.inputs, scored, answers);
    for (std::size_t i = 0; i < scored.size(); ++i) {
      REQUIRE(answers[i] == sample.labels[static_cast<std::size_t>(scored[i])]);
    }
  }
  TaskRegistry registry("task");
  Register(registry);
  for (const Preset& preset : registry.Find("mqar", "").presets) {
    std::vector<Segment> segments = {{preset.params}};
    segments.insert(segments.end(), preset.train.begin(), preset.train.end());
    segments.insert(segments.end(), preset.test.begin(), preset.test.end());
    for (const Segment& segment : segments) {
      CAPTURE(preset.name);
      CHECK(segment.params.Find("vocab_size")->as_int() >
            segment.params.Find("input_seq_len")->as_int());
    }
  }
}

TEST_CASE("mqar: huge sizes are rejected, not multiplied") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const std::string rule = "need 2*num_kv_pairs*(num_passes+1) <= input_seq_len";
  CHECK(Rejected({.num_kv_pairs = kHuge}).find(rule) != std::string::npos);
  CHECK(Rejected({.num_passes = kHuge}).find(rule) != std::string::npos);
}

}  // namespace
}  // namespace mixerbench::tasks::mqar
