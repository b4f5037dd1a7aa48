// SPDX-License-Identifier: Apache-2.0
#include "tasks/str_copy/str_copy.h"

#include <algorithm>
#include <limits>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::str_copy {
namespace {

using Params = StrCopyParams;

constexpr Params kSingle{.min_len = 8, .max_len = 8, .context_len = 20, .packed = false};

Params Short(Variant variant) {
  return {.variant = variant, .alphabet_size = 5, .min_len = 6, .max_len = 9, .context_len = 60};
}

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// The samples come from tests/golden/derive/copying.py.

TEST_CASE("str_copy: derived sample of packed copies") {
  const auto task = MakeStrCopy({.min_len = 5, .max_len = 9, .context_len = 50});
  REQUIRE(
      task->canon() ==
      "str_copy;A=26;context=50;length_answer=-1;max_len=9;min_len=5;n=3;packed=1;variant=copy");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "26 1 11 15 1 5 27 1 11 15 1 5 28 26 6 4 15 12 1 16 23 21 20 27 6 4 15 12 1 16 23 21 20 28 "
        "26 8 6 10 6 8 24 20 11 27 8 6 10 6 8 24");
  CHECK(LabelsText(sample) ==
        "6:1 7:11 8:15 9:1 10:5 11:28 23:6 24:4 25:15 26:12 27:1 28:16 29:23 30:21 31:20 32:28");
}

TEST_CASE("str_copy: derived sample of one copy and pads") {
  const Sample sample = MakeSample(*MakeStrCopy(kSingle), 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "26 10 18 22 17 10 12 5 11 27 10 18 22 17 10 12 5 11 28 29");
  CHECK(LabelsText(sample) == "9:10 10:18 11:22 12:17 13:10 14:12 15:5 16:11 17:28");
}

TEST_CASE("str_copy: derived samples of lookups") {
  const Sample prefix = MakeSample(*MakeStrCopy(Short(Variant::kPrefixNgram)), 1, 0, 0);
  CHECK(TokensText(prefix.inputs) ==
        "5 2 4 4 6 3 3 2 4 4 0 0 3 6 0 0 3 7 5 4 0 3 6 4 3 0 4 0 3 3 4 0 6 3 4 0 7 5 4 3 0 6 4 4 3 "
        "0 3 4 6 3 4 7 5 3 2 1 6 0 1 3");
  CHECK(LabelsText(prefix) == "13:0 14:0 15:3 16:7 32:3 33:4 34:0 35:7 48:3 49:4 50:7");

  const Sample suffix = MakeSample(*MakeStrCopy(Short(Variant::kSuffixNgram)), 1, 0, 0);
  CHECK(TokensText(suffix.inputs) ==
        "5 2 4 4 2 4 0 2 2 2 6 4 2 4 0 2 2 2 7 5 4 4 0 2 4 3 6 0 2 4 3 7 5 1 3 0 1 1 2 4 6 3 0 1 1 "
        "2 4 7 5 0 2 3 3 4 3 3 0 6 3 4");
  CHECK(LabelsText(suffix) == "13:0 14:2 15:2 16:2 17:7 29:3 30:7 43:1 44:2 45:4 46:7");
}

TEST_CASE("str_copy: derived sample of lookups with answers of two letters") {
  const auto task = MakeStrCopy({.variant = Variant::kPrefixNgram,
                                 .alphabet_size = 8,
                                 .min_len = 6,
                                 .max_len = 9,
                                 .context_len = 60,
                                 .n_gram = 2,
                                 .length_answer = 2});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "8 4 6 9 3 4 6 4 5 0 9 4 5 10 8 6 6 9 6 6 1 7 1 0 3 3 6 9 1 7 10 8 6 3 9 4 4 0 7 1 6 3 0 0 "
        "9 0 0 10 8 4 2 9 3 3 7 5 4 2 0 2");
  CHECK(LabelsText(sample) == "10:4 11:5 12:10 27:1 28:7 29:10 44:0 45:0 46:10");
}

TEST_CASE("str_copy: derived sample of a copy with a doubled n-gram") {
  const auto task = MakeStrCopy({.variant = Variant::kDuplicateNgram,
                                 .min_len = 12,
                                 .max_len = 12,
                                 .context_len = 28,
                                 .packed = false});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "26 12 22 21 17 22 21 17 22 18 21 1 3 27 12 22 21 17 22 21 17 22 18 21 1 3 28 29");
  CHECK(LabelsText(sample) ==
        "13:12 14:22 15:21 16:17 17:22 18:21 19:17 20:22 21:18 22:21 23:1 24:3 25:28");
}

TEST_CASE("str_copy: every start of an n-gram is asked for, the last one included") {
  // Strings of 5 letters, n-grams of 2 with an answer of at least one: starts 0, 1 and 2.
  const auto task = MakeStrCopy({.variant = Variant::kSuffixNgram,
                                 .min_len = 5,
                                 .max_len = 5,
                                 .context_len = 14,
                                 .n_gram = 2,
                                 .packed = false});
  std::vector<int> count_of_answer_len(5);
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    ++count_of_answer_len.at(ScoredPositions(sample).size() - 1);
  }
  CHECK(count_of_answer_len[0] == 0);
  CHECK(count_of_answer_len[4] == 0);
  for (const std::size_t len : {1, 2, 3}) CHECK(count_of_answer_len[len] > 60);
}

TEST_CASE("str_copy: the n-gram that is asked for occurs once") {
  const auto task = MakeStrCopy(Short(Variant::kSuffixNgram));
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const auto bar = std::find(sample.inputs.begin(), sample.inputs.end(), 6);
    const auto found = std::search(sample.inputs.begin(), bar, bar + 1, bar + 4);
    REQUIRE(found != bar);
    REQUIRE(std::search(found + 1, bar, bar + 1, bar + 4) == bar);
  }
}

TEST_CASE("str_copy: without an n-gram that occurs once the first occurrence counts") {
  // One letter: every n-gram occurs several times. Rejected as options, so built by hand.
  const StrCopySampler sampler{.variant = Variant::kSuffixNgram,
                               .alphabet_size = 1,
                               .min_len = 6,
                               .max_len = 6,
                               .context_len = 20,
                               .n_gram = 2,
                               .is_packed = false};
  Sample sample{std::vector<std::int32_t>(20), std::vector<std::int32_t>(20)};
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(sampler.scratch_words()));
  sampler.Generate(OneLane{}, {{1, 2}, 0}, LabelMode::kScored, sample.inputs.data(),
                   sample.labels.data(), scratch.data());
  CHECK(TokensText(sample.inputs) == "1 0 0 0 0 0 0 2 0 0 0 0 0 0 3 4 4 4 4 4");
  CHECK(LabelsText(sample) == "9:0 10:0 11:0 12:0 13:3");
}

TEST_CASE("str_copy: the only example is scored even when it is cut") {
  // `$ s | s` without the last letter: its label is the last one.
  const auto task = MakeStrCopy({.min_len = 8, .max_len = 8, .context_len = 17});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  const auto positions = ScoredPositions(sample);
  REQUIRE(positions.size() == 8);
  CHECK(positions.front() == 9);
  CHECK(sample.labels[16] == sample.inputs[8]);
}

TEST_CASE("str_copy: an end mark right behind the context is a label") {
  const auto task = MakeStrCopy({.min_len = 8, .max_len = 8, .context_len = 18});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(sample.labels[17] == 28);
  CHECK(ScoredPositions(sample).size() == 9);
}

TEST_CASE("str_copy: target_only keeps the last scored example") {
  const auto task = MakeStrCopy({.min_len = 5, .max_len = 9, .context_len = 50});
  CHECK(LabelsText(MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly)) ==
        "23:6 24:4 25:15 26:12 27:1 28:16 29:23 30:21 31:20 32:28");
}

TEST_CASE("str_copy: all_tokens labels are the next tokens") {
  const auto task = MakeStrCopy({});
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t + 1 < 220; ++t) CHECK(all.labels[t] == all.inputs[t + 1]);
}

TEST_CASE("str_copy: slices of a lookup") {
  const auto task = MakeStrCopy({.variant = Variant::kPrefixNgram,
                                 .min_len = 4,
                                 .max_len = 4,
                                 .context_len = 14,
                                 .n_gram = 2,
                                 .packed = false});
  // $ 7 8 | 5 7 8 9 | 9 . * * * *
  const std::vector<std::int32_t> inputs = {26, 7, 8, 27, 5, 7, 8, 9, 27, 9, 28, 29, 29, 29};
  std::vector<std::int32_t> labels(14, kIgnore);
  labels[8] = 9;
  labels[9] = 28;
  std::vector<std::int32_t> buckets(6, -9);
  task->AssignSlices(inputs, labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 2, 0, 1, 2, 1});
}

TEST_CASE("str_copy: any number of lanes makes the same sample") {
  for (const Variant variant :
       {Variant::kCopy, Variant::kPrefixNgram, Variant::kSuffixNgram, Variant::kDuplicateNgram}) {
    CHECK(LanesAgree<StrCopySampler>(*MakeStrCopy(Short(variant))));
    CHECK(LanesAgree<StrCopySampler>(*MakeStrCopy(
        {.variant = variant, .min_len = 30, .max_len = 30, .context_len = 70, .packed = false})));
  }
}

TEST_CASE("str_copy: each rule is rejected with its own message") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const std::string task = "/task: str_copy: ";
  CHECK(Rejected({.alphabet_size = 0}) ==
        task + "alphabet_size must be in [1, 16777212] (alphabet_size=0)");
  CHECK(Rejected({.alphabet_size = (1 << 24) - 3}) ==
        task + "alphabet_size must be in [1, 16777212] (alphabet_size=16777213)");
  CHECK(Rejected({.context_len = 1}) ==
        task + "context_len must be in [2, 16777216] (context_len=1)");
  CHECK(Rejected({.min_len = 0}) ==
        task + "min_len must be in [1, max_len] (min_len=0, max_len=50)");
  CHECK(Rejected({.min_len = 51}) ==
        task + "min_len must be in [1, max_len] (min_len=51, max_len=50)");
  CHECK(Rejected({.n_gram = 0}) == task + "n_gram must be >= 1 (n_gram=0)");
  for (const std::int64_t length_answer : {0, -2}) {
    CHECK(Rejected({.length_answer = length_answer}) ==
          task + "length_answer must be -1 or >= 1 (length_answer=" +
              std::to_string(length_answer) + ")");
  }
  CHECK(Rejected({.variant = Variant::kPrefixNgram, .length_answer = 17}) ==
        task + "min_len must be > n_gram + length_answer (min_len=20, n_gram=3, length_answer=17)");
  CHECK(Rejected({.variant = Variant::kPrefixNgram, .length_answer = 16}) == "");
  CHECK(Rejected({.variant = Variant::kSuffixNgram, .n_gram = kHuge})
            .find("min_len must be > n_gram + length_answer") != std::string::npos);
  CHECK(Rejected({.variant = Variant::kSuffixNgram, .n_gram = 20}) ==
        task + "min_len must be > n_gram (min_len=20, n_gram=20)");
  CHECK(Rejected({.variant = Variant::kDuplicateNgram, .n_gram = 11}) ==
        task + "min_len must be >= 2*n_gram (min_len=20, n_gram=11)");
  CHECK(Rejected({.variant = Variant::kDuplicateNgram, .n_gram = 10}) == "");
  CHECK(Rejected({.n_gram = 4}) == task +
                                       "n_gram acts only with variant prefix_ngram, suffix_ngram "
                                       "and duplicate_ngram (n_gram=4)");
  for (const Variant variant : {Variant::kCopy, Variant::kDuplicateNgram}) {
    CHECK(
        Rejected({.variant = variant, .length_answer = 2}) ==
        task +
            "length_answer acts only with variant prefix_ngram and suffix_ngram (length_answer=2)");
  }
  CHECK(Rejected({.context_len = 100}) ==
        task + "context_len must be > 2*max_len (context_len=100, max_len=50)");
  CHECK(Rejected({.context_len = 101}) == "");
  CHECK(Rejected({.max_len = kHuge}).find("context_len must be > 2*max_len") != std::string::npos);
  CHECK(Rejected({.min_len = 1, .max_len = 8, .context_len = 5 * 4096 + 1}) ==
        task +
            "context_len must hold at most 4096 examples, of 2^28 letters together "
            "(context_len=20481, min_len=1, max_len=8)");
  CHECK(Rejected({.variant = Variant::kPrefixNgram, .alphabet_size = 5}) ==
        task + "need alphabet_size^n_gram >= 4*max_len (alphabet_size=5, n_gram=3, max_len=50)");
  CHECK(
      Rejected({.variant = Variant::kPrefixNgram, .min_len = 4, .max_len = 4, .context_len = 9}) ==
      task + "need max_len + n_gram + 3 <= context_len (max_len=4, n_gram=3, context_len=9)");
}

}  // namespace
}  // namespace mixerbench::tasks::str_copy
