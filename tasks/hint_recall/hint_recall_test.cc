// SPDX-License-Identifier: Apache-2.0
#include "tasks/hint_recall/hint_recall.h"

#include <map>
#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::hint_recall {
namespace {

using Params = HintRecallParams;

constexpr Params kSmall{.vocab_size = 64, .input_seq_len = 20};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("hint recall: golden sample of SILA's setting") {
  const auto task = MakeHintRecall({});
  REQUIRE(task->canon() == "hint_recall;L=128;vocab=8192");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(
      TokensText(sample.inputs)
          .starts_with("2077 1507 5811 3098 6538 2424 5800 2989 6420 433 7023 1572 5321 3571 8155 "
                       "440 6474 2847 5054 2504 4592 2781 8147 3652"));
  CHECK(sample.inputs[1 + 2 * 14] == 2077);
  CHECK(LabelsText(sample) == "127:4849");
  CHECK(InputsSha256(sample) == "873f78ceeb41b0f43cbd9b1d6cf6cea394d7bdabe9db40e7da91a1721cb72447");
}

TEST_CASE("hint recall: small golden sample") {
  const Sample sample = MakeSample(*MakeHintRecall(kSmall), 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "27 21 34 10 50 18 46 16 36 13 59 16 36 13 59 27 60 25 39 27");
  CHECK(LabelsText(sample) == "19:60");
  CHECK(InputsSha256(sample) == "11d960aff7d7fb13ee77f7204a6aec7e6d3bc8b4bfb39eafde6809e6c29cf900");
}

// Without the hint and with given depths: tests/golden/derive/lookup.py.
TEST_CASE("hint recall: golden samples without a hint and with the target at a depth") {
  Params params = kSmall;
  params.hint = false;
  const Sample unhinted = MakeSample(*MakeHintRecall(params), 1, 0, 0);
  CHECK(TokensText(unhinted.inputs) == "21 34 10 50 18 46 16 36 13 59 16 36 13 59 27 60 25 39 27");
  CHECK(LabelsText(unhinted) == "18:60");

  const std::map<std::int64_t, std::string> expected = {
      {0, "27 27 60 10 50 18 46 16 36 13 59 16 36 13 59 21 34 25 39 27"},
      {50, "27 21 34 10 50 18 46 16 36 27 60 16 36 13 59 21 34 25 39 27"},
      {100, "27 21 34 10 50 18 46 16 36 13 59 16 36 13 59 21 34 27 60 27"}};
  for (const auto& [percent, inputs] : expected) {
    params = kSmall;
    params.depth_percent = percent;
    const auto task = MakeHintRecall(params);
    CHECK(task->canon() == MakeHintRecall(kSmall)->canon());
    CHECK(TokensText(MakeSample(*task, 1, 0, 0).inputs) == inputs);
  }
}

// tests/golden/derive/lookup.py.
TEST_CASE("hint recall: derived samples with several hints, targets and noise") {
  const auto inputs = [](Params params) {
    params.vocab_size = kSmall.vocab_size;
    params.input_seq_len = kSmall.input_seq_len;
    const auto task = MakeHintRecall(params);
    CHECK(task->canon() == MakeHintRecall(kSmall)->canon());
    const Sample sample = MakeSample(*task, 1, 0, 0);
    CHECK(sample.labels.back() == 60);
    CHECK(ScoredPositions(sample).size() == 1);
    return TokensText(sample.inputs);
  };
  CHECK(inputs({.hint_prefix = 3}) ==
        "13 27 21 21 34 10 50 18 46 16 36 13 59 16 36 13 59 27 60 25 39 27");
  CHECK(inputs({.hint = false, .hint_prefix = 3}) == inputs({.hint = false}));
  CHECK(inputs({.target_dup = 4}) == "27 27 60 10 50 18 46 16 36 27 60 16 36 13 59 27 60 27 60 27");
  CHECK(inputs({.hint_prefix = 2, .target_dup = 2, .noise_vocab_size = 8, .frac_noise = 0.7}) ==
        "13 27 65 71 69 68 70 69 16 36 71 69 65 68 66 67 27 60 27 60 27");
}

TEST_CASE("hint recall: a key has one value, and the target's key comes once") {
  // 8 keys in 29 pairs: every key comes several times.
  const auto task = MakeHintRecall({.vocab_size = 16, .input_seq_len = 60});
  std::set<std::int32_t> hints;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    std::map<std::int32_t, std::int32_t> value_of;
    int num_targets = 0;
    for (std::size_t t = 1; t < 59; t += 2) {
      const auto [known, is_new] = value_of.emplace(sample.inputs[t], sample.inputs[t + 1]);
      REQUIRE(known->second == sample.inputs[t + 1]);
      num_targets += sample.inputs[t] == sample.inputs[0];
    }
    REQUIRE(num_targets == 1);
    REQUIRE(sample.inputs[0] == sample.inputs[59]);
    hints.insert(sample.inputs[0]);
  }
  CHECK(hints.size() == 8);
}

TEST_CASE("hint recall: all_tokens labels are the next input before the end") {
  for (const bool hint : {true, false}) {
    const auto task = MakeHintRecall({.hint = hint});
    const Sample scored = MakeSample(*task, 1, 0, 0);
    const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
    const std::size_t last = scored.inputs.size() - 1;
    for (std::size_t t = 0; t < last; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
    CHECK(all.labels[last] == scored.labels[last]);
  }
}

TEST_CASE("hint recall: the slice is the depth of the target") {
  const auto bucket = [](const Params& params) {
    const auto task = MakeHintRecall(params);
    const Sample sample = MakeSample(*task, 1, 0, 0);
    std::vector<std::int32_t> buckets(1, -9);
    task->AssignSlices(sample.inputs, sample.labels, buckets);
    return buckets[0];
  };
  CHECK(bucket(kSmall) == 7);  // pair 7 of 9
  CHECK(bucket({.input_seq_len = 4096, .depth_percent = 0}) == 0);
  CHECK(bucket({.input_seq_len = 4096, .depth_percent = 100}) == 9);
}

TEST_CASE("hint recall: any number of lanes makes the same sample") {
  for (const bool hint : {true, false}) {
    for (const std::int64_t depth_percent : {-1, 30}) {
      CHECK(LanesAgree<HintRecallSampler>(
          *MakeHintRecall({.hint = hint, .depth_percent = depth_percent})));
    }
  }
  CHECK(LanesAgree<HintRecallSampler>(*MakeHintRecall({.vocab_size = 6, .input_seq_len = 4})));
  for (const bool hint : {true, false}) {
    CHECK(LanesAgree<HintRecallSampler>(*MakeHintRecall({.hint = hint,
                                                         .hint_prefix = 16,
                                                         .target_dup = 16,
                                                         .noise_vocab_size = 3,
                                                         .frac_noise = 0.5})));
  }
}

TEST_CASE("hint recall: each rule is rejected with its own message") {
  const std::string task = "/task: hint_recall: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.input_seq_len = 127}) ==
        task + "input_seq_len must be even (input_seq_len=127)");
  CHECK(Rejected({.input_seq_len = 2}) == task + "input_seq_len must be >= 4 (input_seq_len=2)");
  CHECK(Rejected({.vocab_size = 5}) == task + "vocab_size must be >= 6 (vocab_size=5)");
  for (const std::int64_t percent : {-2, 101}) {
    CHECK(Rejected({.depth_percent = percent}) ==
          task + "depth_percent must be in [0, 100], or -1 for a uniform depth (depth_percent=" +
              std::to_string(percent) + ")");
  }
  CHECK(Rejected({.hint_prefix = 17}) == task + "hint_prefix must be in [1, 16] (hint_prefix=17)");
  CHECK(Rejected({.input_seq_len = 6, .target_dup = 3}) ==
        task + "target_dup must be in [1, 2] (target_dup=3)");
  CHECK(Rejected({.noise_vocab_size = -1}) ==
        task + "noise_vocab_size must be in [0, 16777216] (noise_vocab_size=-1)");
  CHECK(Rejected({.noise_vocab_size = 4, .frac_noise = 1}) ==
        task + "frac_noise must be in [0, 1) (frac_noise=1)");
  CHECK(Rejected({.frac_noise = 0.5}) ==
        task +
            "noise_vocab_size must be > 0 when frac_noise > 0 (noise_vocab_size=0, "
            "frac_noise=0.5)");
  CHECK(Rejected({.vocab_size = 6, .input_seq_len = 4}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::hint_recall
