// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_fuzzy/mad_fuzzy.h"

#include <limits>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mad_fuzzy {
namespace {

using Params = MadFuzzyParams;

constexpr Params kLongest{.key_length = KeyLength::kLongest};
constexpr Params kNoisy{.vocab_size = 11,
                        .input_seq_len = 64,
                        .noise_vocab_size = 4,
                        .frac_noise = 0.25,
                        .k_motif_size = 2,
                        .v_motif_size = 2};
constexpr Params kSingle{.vocab_size = 30,
                         .input_seq_len = 48,
                         .multi_query = false,
                         .noise_vocab_size = 8,
                         .frac_noise = 0.3,
                         .k_motif_size = 2,
                         .v_motif_size = 3};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("mad_fuzzy: golden sample of MAD's test data") {
  const auto task = MakeMadFuzzy(kLongest);
  REQUIRE(task->canon() ==
          "mad_fuzzy;L=128;frac_noise=0;k_motif=3;multi_query=1;noise_vocab=0;v_motif=3;vocab=16");
  const Sample sample = MakeSample(*task, 12345, 2, 0);
  CHECK(TokensText(sample.inputs) ==
        "15 15 15 15 15 6 5 3 9 10 14 2 4 1 11 5 2 0 14 3 1 4 7 0 6 5 9 0 1 6 9 14 13 1 2 5 12 2 4 "
        "3 14 8 2 3 5 14 4 6 3 9 12 3 1 5 8 7 5 4 1 9 8 10 6 0 1 8 11 0 2 5 11 9 8 6 0 3 11 0 2 5 "
        "11 9 8 1 3 0 8 13 6 5 0 7 3 2 5 7 6 5 1 11 8 0 2 1 8 14 6 4 2 10 11 4 3 5 9 2 1 6 9 3 2 1 "
        "7 11 10 1 2 5");
  CHECK(LabelsText(sample) == "79:11 80:9 81:8 127:12");
  CHECK(InputsSha256(sample) == "266b56ff229c387e237621c15af37b8d265d4f2cda268a567be81d8e6a80c31e");
}

TEST_CASE("mad_fuzzy: golden sample of MAD's training data") {
  const auto task = MakeMadFuzzy({});
  const Sample sample = MakeSample(*task, 12345, 0, 0, LabelMode::kAllTokens);
  CHECK(TokensText(sample.inputs) ==
        "15 15 15 15 1 9 13 14 0 12 8 7 1 9 13 14 6 3 5 12 14 8 2 7 14 5 10 2 5 10 13 12 1 9 13 14 "
        "6 4 14 9 7 5 4 1 13 14 9 0 12 8 7 0 12 8 7 1 9 13 14 4 1 6 14 11 3 0 1 14 9 1 0 11 9 1 6 "
        "2 14 4 7 13 12 2 3 6 13 9 0 12 8 7 5 10 2 7 14 1 9 13 14 0 2 6 10 9 4 5 11 1 2 8 9 10 1 5 "
        "11 8 6 1 3 10 1 9 13 14 3 0 1 14");
  CHECK(InputsSha256(sample) == "c15d8de754367572a31fc244e6f34b491156b3b67f7fdbdb405bcef8b79fbfd5");
  for (std::size_t t = 0; t < 127; ++t) CHECK(sample.labels[t] == sample.inputs[t + 1]);
  CHECK(sample.labels[127] == 9);
}

// The four below come from tests/golden/derive/mad.py.

TEST_CASE("mad_fuzzy: scored labels of MAD's training data") {
  CHECK(LabelsText(MakeSample(*MakeMadFuzzy({}), 12345, 0, 0)) ==
        "12:9 13:13 14:14 32:9 33:13 34:14 47:12 48:8 49:7 51:12 52:8 53:7 55:9 56:13 57:14 86:12 "
        "87:8 88:7 90:10 92:7 93:14 95:9 96:13 97:14 120:9 121:13 122:14 126:14 127:9");
}

TEST_CASE("mad_fuzzy: derived sample with noise") {
  const Sample sample = MakeSample(*MakeMadFuzzy(kNoisy), 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "10 10 10 10 10 0 5 1 3 9 8 8 7 8 7 8 8 9 9 7 1 0 5 0 1 3 2 3 4 1 0 5 0 5 7 8 9 7 8 8 8 2 "
        "1 4 5 1 3 2 0 4 5 9 8 0 5 0 1 3 8 9 7 8 1 0");
  CHECK(LabelsText(sample) == "30:5 32:5 45:3 53:5 56:3 63:5");
}

TEST_CASE("mad_fuzzy: derived sample with noise and a single query") {
  const Sample sample = MakeSample(*MakeMadFuzzy(kSingle), 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "28 28 28 28 28 20 21 26 26 24 9 5 19 21 25 20 20 22 21 22 3 13 17 7 11 15 19 1 14 18 2 4 "
        "12 19 6 4 18 14 16 3 8 17 5 7 12 29 3 13");
  CHECK(LabelsText(sample) == "46:13 47:17");
}

TEST_CASE("mad_fuzzy: a random key that equals the probe shows it, so its own pair is not added") {
  // The probe 1 0 (value 14) is drawn at position 56, before its own pair would have come.
  const Sample sample = MakeSample(*MakeMadFuzzy({}), 987654321, 2, 781);
  CHECK(TokensText(sample.inputs) ==
        "15 15 15 15 15 15 15 5 3 4 13 7 6 14 10 9 2 3 7 10 1 4 2 11 9 6 5 7 5 0 8 5 8 11 0 3 8 4 "
        "14 0 12 3 9 14 10 2 6 1 14 10 3 6 12 5 8 11 1 0 14 1 10 2 3 7 10 4 2 3 10 1 3 2 10 13 5 4 "
        "8 7 4 5 13 2 4 11 2 3 7 10 3 9 14 10 0 12 1 6 0 10 0 12 1 2 4 11 8 3 4 1 13 11 7 2 11 0 2 "
        "6 8 1 3 2 10 13 0 4 6 12 1 0");
  CHECK(LabelsText(sample) ==
        "53:8 54:11 62:7 63:10 85:7 86:10 88:9 89:14 90:10 92:12 98:12 119:10 120:13 127:14");
}

TEST_CASE("mad_fuzzy: longest keys have k_motif_size tokens") {
  const auto task = MakeMadFuzzy(kLongest);
  for (std::uint64_t index = 0; index < 50; ++index) {
    const Sample sample = MakeSample(*task, 1, 2, index);
    std::size_t len = 0;
    for (const std::int32_t token : sample.inputs) {
      if (token < 7) {
        ++len;
      } else {
        REQUIRE((len == 0 || len == 3));
        len = 0;
      }
    }
  }
}

TEST_CASE("mad_fuzzy: tuples of sixteen tokens fill the smallest length") {
  const Params params{.vocab_size = 33,
                      .input_seq_len = 98,
                      .k_motif_size = 16,
                      .v_motif_size = 16,
                      .key_length = KeyLength::kLongest};
  const auto task = MakeMadFuzzy(params);
  for (std::uint64_t index = 0; index < 100; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    const auto scored = ScoredPositions(sample);
    std::vector<std::int32_t> answers(scored.size());
    task->Solve(sample.inputs, scored, answers);
    for (std::size_t i = 0; i < scored.size(); ++i) {
      REQUIRE(answers[i] == sample.labels[static_cast<std::size_t>(scored[i])]);
    }
  }
}

TEST_CASE("mad_fuzzy: target_only labels the value of the final probe") {
  CHECK(LabelsText(MakeSample(*MakeMadFuzzy({}), 12345, 0, 0, LabelMode::kTargetOnly)) ==
        "126:14 127:9");
}

TEST_CASE("mad_fuzzy: slices follow the occurrences of a key") {
  const auto task = MakeMadFuzzy({.vocab_size = 16, .input_seq_len = 20});
  // Key tokens 0-6, value tokens 7-14. Keys 01 (value 7 8), 2 (9), 2, 01, and the probe 01.
  const std::vector<std::int32_t> inputs = {15, 15, 15, 15, 0, 1, 7, 8, 2, 9,
                                            2,  9,  0,  1,  7, 8, 0, 1, 7};
  std::vector<std::int32_t> labels(19, kIgnore);
  labels[10] = 9;
  labels[13] = 7;
  labels[14] = 8;
  labels[17] = 7;
  labels[18] = 8;
  std::vector<std::int32_t> buckets(20, -9);
  task->AssignSlices(inputs, labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 1, -1, 0,  // 2 again
                                             0, 1, -1, 1,  // 01 again, three pairs later
                                             0, 1, -1, 1,  //
                                             1, 1, 0,  1,  // the probe
                                             1, 1, 0,  1});
}

TEST_CASE("mad_fuzzy: any number of lanes makes the same sample") {
  CHECK(LanesAgree<MadFuzzySampler>(*MakeMadFuzzy({})));
  CHECK(LanesAgree<MadFuzzySampler>(*MakeMadFuzzy(kLongest)));
  CHECK(LanesAgree<MadFuzzySampler>(*MakeMadFuzzy(kNoisy)));
  CHECK(LanesAgree<MadFuzzySampler>(*MakeMadFuzzy(kSingle)));
}

TEST_CASE("mad_fuzzy: each rule is rejected with its own message") {
  const std::string task = "/task: mad_fuzzy: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.noise_vocab_size = -1}) ==
        task + "noise_vocab_size must be >= 0 (noise_vocab_size=-1)");
  CHECK(Rejected({.input_seq_len = 63}) == task + "input_seq_len must be even (input_seq_len=63)");
  CHECK(Rejected({.frac_noise = 1}) == task + "frac_noise must be in [0, 1) (frac_noise=1)");
  CHECK(Rejected({.frac_noise = std::numeric_limits<double>::quiet_NaN()}) ==
        task + "frac_noise must be in [0, 1) (frac_noise=nan)");
  CHECK(Rejected({.frac_noise = 0.5}) ==
        task +
            "noise_vocab_size must be > 0 when frac_noise > 0 (noise_vocab_size=0, "
            "frac_noise=0.5)");
  CHECK(Rejected({.vocab_size = 3, .multi_query = false}) ==
        task + "need at least 1 key and 1 value (vocab_size=3, noise_vocab_size=0, multi_query=0)");
  CHECK(Rejected({.input_seq_len = 2}) == task + "input_seq_len must be >= 4 (input_seq_len=2)");
  CHECK(Rejected({.k_motif_size = 8}) ==
        task + "k_motif_size must be <= number of keys (k_motif_size=8, number of keys=7)");
  CHECK(Rejected({.v_motif_size = 9}) ==
        task + "v_motif_size must be <= number of values (v_motif_size=9, number of values=8)");
  for (const auto& [k_motif_size, v_motif_size] : {std::pair{0, 3}, {3, 0}, {17, 3}, {3, 17}}) {
    CHECK(
        Rejected({.vocab_size = 64, .k_motif_size = k_motif_size, .v_motif_size = v_motif_size}) ==
        task + "k_motif_size and v_motif_size must be in [1,16] (k_motif_size=" +
            std::to_string(k_motif_size) + ", v_motif_size=" + std::to_string(v_motif_size) + ")");
  }
  CHECK(Rejected({.input_seq_len = 18}) ==
        task +
            "input_seq_len too short: need input_seq_len - kvp_max - "
            "2*(k_motif_size+v_motif_size) >= 1 with kvp_max = k_motif_size+v_motif_size "
            "(input_seq_len=18, k_motif_size=3, v_motif_size=3)");
  CHECK(Rejected({.input_seq_len = 20}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::mad_fuzzy
