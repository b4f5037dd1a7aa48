// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_memorization/mad_memorization.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mad_memorization {
namespace {

using Params = MadMemorizationParams;

constexpr Params kNoisy{
    .vocab_size = 32, .input_seq_len = 30, .noise_vocab_size = 9, .frac_noise = 0.4};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TaskSamples Samples(const Task& task, Split split, std::int64_t count) {
  return {task, DeriveKey(task.canon(), 12345, static_cast<std::uint64_t>(split)), 0, count};
}

TEST_CASE("mad_memorization: golden sample of the baseline") {
  const auto task = MakeMadMemorization({});
  REQUIRE(task->canon() == "mad_memorization;L=32;frac_noise=0;noise_vocab=0;vocab=256");
  const Sample sample = MakeSample(*task, 12345, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "52 255 113 255 86 255 115 255 67 255 64 255 98 255 21 255 92 255 28 255 74 255 25 255 126 "
        "255 105 255 50 255 9 255");
  CHECK(LabelsText(sample) ==
        "1:137 3:192 5:199 7:164 9:140 11:177 13:149 15:166 17:218 19:146 21:168 23:250 25:201 "
        "27:216 29:205 31:228");
  CHECK(InputsSha256(sample) == "42ace390152574cea6cfb56fa03078c93e91c375dbd7e7fbce424147573e050c");
}

// From tests/golden/derive/mad.py.
TEST_CASE("mad_memorization: derived sample with noise") {
  const auto task = MakeMadMemorization(
      {.vocab_size = 32, .input_seq_len = 20, .noise_vocab_size = 9, .frac_noise = 0.4});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "7 31 10 31 28 29 5 31 25 27 10 31 9 31 6 31 4 31 7 31");
  CHECK(LabelsText(sample) == "1:21 3:15 7:20 11:15 13:16 15:12 17:13 19:21");
}

TEST_CASE("mad_memorization: the map matches the golden vector and is injective") {
  const auto task = MakeMadMemorization({});
  const std::vector<std::uint32_t> map(task->tables().begin(), task->tables().end());
  REQUIRE(map.size() == 127);
  CHECK(std::vector<std::uint32_t>(map.begin(), map.begin() + 10) ==
        std::vector<std::uint32_t>{214, 134, 129, 170, 219, 128, 175, 221, 239, 228});
  const std::set<std::uint32_t> values(map.begin(), map.end());
  CHECK(values.size() == 127);
  CHECK(*values.begin() >= 127);
  CHECK(*values.rbegin() <= 254);
}

TEST_CASE("mad_memorization: another map seed changes the labels alone") {
  const Sample sample = MakeSample(*MakeMadMemorization({}), 1, 0, 0);
  const Sample other = MakeSample(*MakeMadMemorization({.map_seed = 7}), 1, 0, 0);
  CHECK(other.inputs == sample.inputs);
  CHECK(other.labels != sample.labels);
}

TEST_CASE("mad_memorization: keys, values and noise keep apart, and a key always exists") {
  Params params = kNoisy;
  params.frac_noise = 0.97;
  const auto task = MakeMadMemorization(params);
  bool is_only_key_seen = false;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    int num_keys = 0;
    for (std::size_t t = 0; t < 30; t += 2) {
      // 11 keys, 11 values, 9 noise tokens, the insert token.
      const bool is_key = sample.inputs[t] < 11;
      num_keys += is_key;
      REQUIRE(sample.labels[t] == kIgnore);
      if (is_key) {
        REQUIRE(sample.inputs[t + 1] == 31);
        REQUIRE(sample.labels[t + 1] >= 11);
        REQUIRE(sample.labels[t + 1] < 22);
      } else {
        for (const std::size_t u : {t, t + 1}) {
          REQUIRE(sample.inputs[u] >= 22);
          REQUIRE(sample.inputs[u] < 31);
        }
        REQUIRE(sample.labels[t + 1] == kIgnore);
      }
    }
    REQUIRE(num_keys >= 1);
    is_only_key_seen |= num_keys == 1;
  }
  CHECK(is_only_key_seen);
}

TEST_CASE("mad_memorization: an odd length loses its last token") {
  const auto task = MakeMadMemorization({.input_seq_len = 33});
  CHECK(task->shape().seq_len == 32);
}

TEST_CASE("mad_memorization: the realised ceiling is near the expected one") {
  struct Row {
    std::int64_t vocab_size;
    double expected;  // 1 - (1 - 1/keys)^4096
  };
  for (const Row& row : {Row{2048, 0.982}, Row{4096, 0.865}, Row{8192, 0.632}}) {
    CAPTURE(row.vocab_size);
    const auto task = MakeMadMemorization({.vocab_size = row.vocab_size});
    const double ceiling = task->Ceiling(std::array{Samples(*task, Split::kTrain, 256)},
                                         Samples(*task, Split::kTest, 1280));
    // The number of distinct keys varies by some 25 of 4,096, the test keys by less.
    CHECK(std::abs(ceiling - row.expected) < 0.02);
  }
}

TEST_CASE("mad_memorization: the ceiling counts the test answers that training shows") {
  const auto task = MakeMadMemorization({});
  const TaskSamples test = Samples(*task, Split::kTest, 100);
  CHECK(task->Ceiling({}, test) == 0);
  CHECK(task->Ceiling(std::array{test}, test) == 1);
  const double half = task->Ceiling(std::array{Samples(*task, Split::kTest, 5)}, test);
  CHECK(half > 0.3);  // 80 draws of 127 keys show 47 % of them
  CHECK(half < 0.7);
  const auto longer = MakeMadMemorization({.input_seq_len = 64});
  const double more = task->Ceiling(
      std::array{Samples(*task, Split::kTest, 5), Samples(*longer, Split::kTrain, 20)}, test);
  CHECK(more > 0.9);  // 640 draws more, of another length
  const auto other = MakeMadMemorization({.map_seed = 7});
  CHECK(task->Ceiling(std::array{Samples(*other, Split::kTest, 100)}, test) < 0.1);  // another map
}

TEST_CASE("mad_memorization: all_tokens and target_only labels") {
  const auto task = MakeMadMemorization(kNoisy);
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t + 1 < 30; ++t) {
    CHECK(all.labels[t] == (scored.labels[t] == kIgnore ? scored.inputs[t + 1] : scored.labels[t]));
  }
  const Sample target = MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly);
  CHECK(ScoredPositions(target) == std::vector<std::int32_t>{ScoredPositions(scored).back()});
}

TEST_CASE("mad_memorization: any number of lanes makes the same sample") {
  CHECK(LanesAgree<MadMemorizationSampler>(*MakeMadMemorization({})));
  CHECK(LanesAgree<MadMemorizationSampler>(*MakeMadMemorization(kNoisy)));
}

TEST_CASE("mad_memorization: each rule is rejected with its own message") {
  const std::string task = "/task: mad_memorization: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.noise_vocab_size = -1}) ==
        task + "noise_vocab_size must be >= 0 (noise_vocab_size=-1)");
  CHECK(Rejected({.frac_noise = 1}) == task + "frac_noise must be in [0, 1) (frac_noise=1)");
  CHECK(Rejected({.frac_noise = std::numeric_limits<double>::quiet_NaN()}) ==
        task + "frac_noise must be in [0, 1) (frac_noise=nan)");
  CHECK(Rejected({.frac_noise = 0.5}) ==
        task +
            "noise_vocab_size must be > 0 when frac_noise > 0 (noise_vocab_size=0, "
            "frac_noise=0.5)");
  CHECK(Rejected({.vocab_size = 16, .noise_vocab_size = 14}) ==
        task +
            "need at least 1 key (vocab_size - 1 - noise_vocab_size >= 2) (vocab_size=16, "
            "noise_vocab_size=14)");
  CHECK(Rejected({.map_seed = -1}) == task + "map_seed must be >= 0 (map_seed=-1)");
  CHECK(Rejected({.vocab_size = 3, .input_seq_len = 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::mad_memorization
