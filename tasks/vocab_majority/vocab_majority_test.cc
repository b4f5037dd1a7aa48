// SPDX-License-Identifier: Apache-2.0
#include "tasks/vocab_majority/vocab_majority.h"

#include <algorithm>
#include <map>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::vocab_majority {
namespace {

using Params = VocabMajorityParams;

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// Both samples come from tests/golden/derive/state_tracking.py, a second derivation in plain
// Python.
TEST_CASE("vocab_majority: golden samples, one with a tie that is repaired") {
  const auto task = MakeVocabMajority({.vocab_size = 6, .input_seq_len = 16});
  REQUIRE(task->canon() == "vocab_majority;L=16;vocab=6");
  const Sample repaired = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(repaired.inputs) == "4 4 3 5 5 5 4 5 1 1 4 4 2 4 2 0");
  CHECK(LabelsText(repaired) == "15:4");
  const Sample as_drawn = MakeSample(*task, 1, 0, 2);
  CHECK(TokensText(as_drawn.inputs) == "3 1 2 3 4 2 5 3 2 3 3 5 1 5 4 0");
  CHECK(LabelsText(as_drawn) == "15:3");
}

TEST_CASE("vocab_majority: the answer is the only most frequent token") {
  const auto task = MakeVocabMajority({.vocab_size = 8, .input_seq_len = 10});
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    std::map<std::int32_t, int> count_of;
    for (std::size_t t = 0; t < 9; ++t) ++count_of[sample.inputs[t]];
    const int highest = count_of.at(sample.labels[9]);
    for (const auto& [token, count] : count_of) {
      CHECK((token == sample.labels[9] || count < highest));
    }
  }
}

TEST_CASE("vocab_majority: chance is that of all sequences of eight tokens") {
  // Counting all 3^8 sequences: how often is the smallest of the most frequent ids 1, 2 or 3?
  std::vector<double> share(3);
  for (int sequence = 0; sequence < 6561; ++sequence) {
    std::vector<int> counts(3);
    for (int rest = sequence, t = 0; t < 8; ++t, rest /= 3) {
      ++counts[static_cast<std::size_t>(rest % 3)];
    }
    const auto winner = std::max_element(counts.begin(), counts.end()) - counts.begin();
    share[static_cast<std::size_t>(winner)] += 1.0 / 6561;
  }
  const auto baselines = MakeVocabMajority({.vocab_size = 4, .input_seq_len = 9})->baselines();
  CHECK(baselines[0].accuracy == Approx(share[0]));
  CHECK(baselines[1].accuracy ==
        Approx(share[0] * share[0] + share[1] * share[1] + share[2] * share[2]));
  // Of two ids a tie of two counts makes the smaller one win: 1/2 + P(tie) / 2.
  const auto smallest = [](std::int64_t length) {
    return MakeVocabMajority({.vocab_size = 3, .input_seq_len = length})->baselines()[0].accuracy;
  };
  CHECK(smallest(2) == Approx(0.5));
  CHECK(smallest(5) == Approx(0.6875));
  CHECK(smallest(128) == Approx(0.5));
  // Without ties to speak of, every id is equally likely.
  const auto large = MakeVocabMajority({.vocab_size = 4, .input_seq_len = 1 << 16})->baselines();
  CHECK(large[0].accuracy == Approx(1.0 / 3).epsilon(0.01));
}

TEST_CASE("vocab_majority: all_tokens labels are the next input before the end") {
  const auto task = MakeVocabMajority({});
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 127; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
  CHECK(all.labels[127] == scored.labels[127]);
}

TEST_CASE("vocab_majority: any number of lanes makes the same sample") {
  CHECK(LanesAgree<VocabMajoritySampler>(*MakeVocabMajority({})));
  CHECK(LanesAgree<VocabMajoritySampler>(*MakeVocabMajority({.vocab_size = 300})));
}

TEST_CASE("vocab_majority: each rule is rejected with its own message") {
  const std::string task = "/task: vocab_majority: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.vocab_size = 2, .input_seq_len = 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::vocab_majority
