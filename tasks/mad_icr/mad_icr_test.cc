// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_icr/mad_icr.h"

#include <limits>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mad_icr {
namespace {

constexpr MadIcrParams kNoisy{.vocab_size = 32, .noise_vocab_size = 16, .frac_noise = 0.2};
constexpr MadIcrParams kSingle{.input_seq_len = 16, .multi_query = false};

std::string Rejected(const MadIcrParams& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("mad_icr: golden sample of the recall baseline") {
  const auto task = MakeMadIcr({});
  REQUIRE(task->canon() == "mad_icr;L=128;frac_noise=0;multi_query=1;noise_vocab=0;vocab=16");
  const Sample sample = MakeSample(*task, 12345, 2, 0);
  CHECK(TokensText(sample.inputs) ==
        "4 14 6 12 5 15 3 12 5 15 5 15 1 14 5 15 5 15 5 15 4 14 2 14 1 14 2 14 6 12 6 12 2 14 1 "
        "14 6 12 1 14 2 14 5 15 3 12 7 8 5 15 3 12 6 12 4 14 1 14 3 12 2 14 5 15 7 8 5 15 7 8 4 "
        "14 5 15 4 14 7 8 3 12 4 14 0 9 0 9 0 9 1 14 0 9 4 14 0 9 7 8 1 14 1 14 7 8 3 12 7 8 2 14 "
        "3 12 7 8 6 12 3 12 6 12 3 12 1 14 5 15 1");
  CHECK(LabelsText(sample) ==
        "8:15 10:15 14:15 16:15 18:15 20:14 24:14 26:14 28:12 30:12 32:14 34:14 36:12 38:14 40:14 "
        "42:15 44:12 48:15 50:12 52:12 54:14 56:14 58:12 60:14 62:15 64:8 66:15 68:8 70:14 72:15 "
        "74:14 76:8 78:12 80:14 84:9 86:9 88:14 90:9 92:14 94:9 96:8 98:14 100:14 102:8 104:12 "
        "106:8 108:14 110:12 112:8 114:12 116:12 118:12 120:12 122:14 124:15 126:14");
  CHECK(InputsSha256(sample) == "5ecab3ba798a0f414f341dc8514cbae0a4f0eef7b5a16adc6d20ffdd76ee4e9c");
}

TEST_CASE("mad_icr: golden sample of the noisy baseline") {
  const auto task = MakeMadIcr(kNoisy);
  REQUIRE(task->canon() == "mad_icr;L=128;frac_noise=0.2;multi_query=1;noise_vocab=16;vocab=32");
  const Sample sample = MakeSample(*task, 12345, 2, 0);
  CHECK(TokensText(sample.inputs) ==
        "6 11 4 9 1 11 6 11 3 9 2 11 5 14 0 14 4 9 5 14 4 9 3 9 1 11 29 19 1 11 7 13 25 29 7 13 "
        "30 29 23 18 5 14 5 14 7 13 23 16 1 11 3 9 28 30 0 14 18 23 4 9 2 11 6 11 0 14 6 11 7 13 "
        "3 9 7 13 7 13 5 14 4 9 7 13 5 14 0 14 16 26 5 14 3 9 2 11 1 11 6 11 7 13 7 13 2 11 3 9 4 "
        "9 1 11 3 9 31 24 7 13 0 14 2 11 16 20 3 9 26 28 5");
  CHECK(LabelsText(sample) ==
        "6:11 16:9 18:14 20:9 22:9 24:11 28:11 34:13 40:14 42:14 44:13 48:11 50:9 54:14 58:9 "
        "60:11 62:11 64:14 66:11 68:13 70:9 72:13 74:13 76:14 78:9 80:13 82:14 84:14 88:14 90:9 "
        "92:11 94:11 96:11 98:13 100:13 102:11 104:9 106:9 108:11 110:9 114:13 116:14 118:11 "
        "122:9 126:14");
  CHECK(InputsSha256(sample) == "35ad1ec0c725f4d23f15de9faacc6cfdf5ea32960af73b62ce9d764bbe921df4");
}

TEST_CASE("mad_icr: golden sample with a single query") {
  const Sample sample = MakeSample(*MakeMadIcr(kSingle), 12345, 2, 0);
  CHECK(TokensText(sample.inputs) == "0 10 0 10 5 13 5 13 5 13 0 10 6 12 15 6");
  CHECK(LabelsText(sample) == "15:12");
  CHECK(InputsSha256(sample) == "e752898023fd77d83c4a1cbe9dbe49bd56505c49973964030df1e461cd09433a");
}

TEST_CASE("mad_icr: a key exists even when nearly every slot is noise") {
  const auto task = MakeMadIcr(
      {.vocab_size = 32, .input_seq_len = 8, .noise_vocab_size = 16, .frac_noise = 0.999});
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Sample sample = MakeSample(*task, 1, 0, index);
    int num_keys = 0;
    for (const std::size_t t : {0, 2, 4}) num_keys += sample.inputs[t] < 8;
    REQUIRE(num_keys >= 1);
    REQUIRE(sample.inputs[6] < 8);
  }
}

TEST_CASE("mad_icr: all_tokens labels are the next tokens, the last one the final value") {
  for (const MadIcrParams& params : {MadIcrParams{}, kNoisy, kSingle}) {
    const auto task = MakeMadIcr(params);
    const Sample scored = MakeSample(*task, 1, 0, 0);
    const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
    const std::size_t last = scored.inputs.size() - 1;
    for (std::size_t t = 0; t < last; ++t) {
      CHECK(all.labels[t] == scored.inputs[t + 1]);
      if (scored.labels[t] != kIgnore) CHECK(all.labels[t] == scored.labels[t]);
    }
    CHECK(all.labels[last] == scored.labels[last]);
  }
}

TEST_CASE("mad_icr: target_only labels the final probe") {
  const auto task = MakeMadIcr({});
  CHECK(LabelsText(MakeSample(*task, 12345, 2, 0, LabelMode::kTargetOnly)) == "126:14");
}

TEST_CASE("mad_icr: slices follow the occurrences of a key") {
  const auto task = MakeMadIcr({.input_seq_len = 12});
  // Slots: key 1, key 2, key 1, key 1, key 2, probe 1.
  const std::vector<std::int32_t> inputs = {1, 9, 2, 8, 1, 9, 1, 9, 2, 8, 1};
  std::vector<std::int32_t> labels(11, kIgnore);
  for (const std::size_t t : {4, 6, 8, 10}) labels[t] = inputs[t] == 1 ? 9 : 8;
  std::vector<std::int32_t> buckets(12, -9);
  task->AssignSlices(inputs, labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 1, -1, 1, 1, -1, 0, 1, -1, 2, 1, 0});
}

TEST_CASE("mad_icr: any number of lanes makes the same sample") {
  CHECK(LanesAgree<MadIcrSampler>(*MakeMadIcr({})));
  CHECK(LanesAgree<MadIcrSampler>(*MakeMadIcr(kNoisy)));
  CHECK(LanesAgree<MadIcrSampler>(*MakeMadIcr(kSingle)));
}

TEST_CASE("mad_icr: each rule is rejected with its own message") {
  const std::string task = "/task: mad_icr: ";
  CHECK(Rejected({.vocab_size = 0}) == task + "vocab_size must be in [2, 16777216] (vocab_size=0)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(Rejected({.noise_vocab_size = -1}) ==
        task + "noise_vocab_size must be >= 0 (noise_vocab_size=-1)");
  CHECK(Rejected({.input_seq_len = 7}) == task + "input_seq_len must be even (input_seq_len=7)");
  CHECK(Rejected({.frac_noise = 1}) == task + "frac_noise must be in [0, 1) (frac_noise=1)");
  CHECK(Rejected({.frac_noise = -0.1}) == task + "frac_noise must be in [0, 1) (frac_noise=-0.1)");
  CHECK(Rejected({.frac_noise = std::numeric_limits<double>::quiet_NaN()}) ==
        task + "frac_noise must be in [0, 1) (frac_noise=nan)");
  CHECK(Rejected({.frac_noise = 0.5}) ==
        task +
            "noise_vocab_size must be > 0 when frac_noise > 0 (noise_vocab_size=0, "
            "frac_noise=0.5)");
  CHECK(Rejected({.noise_vocab_size = 15}) ==
        task +
            "need at least 1 key and 1 value (vocab_size=16, noise_vocab_size=15, "
            "multi_query=1)");
  CHECK(Rejected({.input_seq_len = 2}) == task + "input_seq_len must be >= 4 (input_seq_len=2)");
  CHECK(Rejected({.vocab_size = 2, .input_seq_len = 4}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::mad_icr
