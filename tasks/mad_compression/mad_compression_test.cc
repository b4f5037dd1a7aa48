// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_compression/mad_compression.h"

#include <cmath>
#include <limits>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mad_compression {
namespace {

using Params = MadCompressionParams;

constexpr Params kNoisy{
    .vocab_size = 12, .input_seq_len = 40, .noise_vocab_size = 3, .frac_noise = 0.5};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("mad_compression: golden sample of the baseline") {
  const auto task = MakeMadCompression({});
  REQUIRE(task->canon() == "mad_compression;L=32;frac_noise=0;noise_vocab=0;vocab=16");
  const Sample sample = MakeSample(*task, 12345, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "7 3 11 5 2 8 3 3 7 1 9 6 5 11 8 7 12 2 6 6 4 7 7 12 7 7 8 9 11 10 5 15");
  CHECK(LabelsText(sample) ==
        "0:7 1:3 2:11 3:5 4:2 5:8 6:3 7:3 8:7 9:1 10:9 11:6 12:5 13:11 14:8 15:7 16:12 17:2 18:6 "
        "19:6 20:4 21:7 22:7 23:12 24:7 25:7 26:8 27:9 28:11 29:10 30:5 31:15");
  CHECK(InputsSha256(sample) == "f086c4a0dcfbc3fd3cff4b05a5c3174f99c85590993c2571d61765e4231c3b90");
}

// From tests/golden/derive/mad.py.
TEST_CASE("mad_compression: derived sample with noise") {
  const auto task = MakeMadCompression(
      {.vocab_size = 12, .input_seq_len = 16, .noise_vocab_size = 3, .frac_noise = 0.5});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "10 10 9 2 9 10 5 9 7 10 0 2 2 4 7 11");
  CHECK(LabelsText(sample) == "3:2 6:5 8:7 10:0 11:2 12:2 13:4 14:7 15:11");
}

TEST_CASE("mad_compression: noise replaces data tokens and is not asked for") {
  const auto task = MakeMadCompression(kNoisy);
  Params clean_params = kNoisy;
  clean_params.frac_noise = 1e-12;  // below 2^-32, so it never happens
  const PhiloxKey key = DeriveKey(task->canon(), 1, 0);
  const auto clean_task = MakeMadCompression(clean_params);
  int num_noise = 0;
  for (std::uint64_t index = 0; index < 50; ++index) {
    const Sample sample = MakeSample(*task, {key, index});
    const Sample clean = MakeSample(*clean_task, {key, index});
    for (std::size_t t = 0; t < 40; ++t) {
      const bool is_noise = sample.inputs[t] >= 8 && sample.inputs[t] < 11;
      REQUIRE(sample.labels[t] == (is_noise ? kIgnore : sample.inputs[t]));
      if (!is_noise) REQUIRE(sample.inputs[t] == clean.inputs[t]);
      num_noise += is_noise;
    }
    REQUIRE(sample.inputs[39] == 11);
  }
  // Half of 50 * 39 tokens, within five standard deviations of 22.
  CHECK(std::abs(num_noise - 975) < 110);
}

TEST_CASE("mad_compression: all_tokens labels noise with the next token") {
  const auto task = MakeMadCompression(kNoisy);
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 40; ++t) {
    CHECK(all.labels[t] == (scored.labels[t] == kIgnore ? scored.inputs[t + 1] : scored.labels[t]));
  }
}

TEST_CASE("mad_compression: chance with and without the compression token") {
  const std::vector<Baseline> baselines = MakeMadCompression({})->baselines();
  CHECK(std::abs(baselines.at(0).accuracy - (31.0 / 32 / 15 + 1.0 / 32)) < 1e-15);
  CHECK(baselines.at(1).accuracy == 1.0 / 15);
}

TEST_CASE("mad_compression: chance under noise is over the scored positions of all samples") {
  // Two tokens before the compression token, each scored with probability 1/2; 4 data tokens.
  const auto task = MakeMadCompression(
      {.vocab_size = 6, .input_seq_len = 3, .noise_vocab_size = 1, .frac_noise = 0.5});
  const double expected = (1.0 / 4 + 1) / 2;  // one of them in a sample on average
  CHECK(std::abs(task->baselines().front().accuracy - expected) < 1e-15);
}

TEST_CASE("mad_compression: slices tell data from the compression token") {
  const auto task = MakeMadCompression({.input_seq_len = 4});
  const std::vector<std::int32_t> inputs = {3, 0, 14, 15};
  std::vector<std::int32_t> buckets(8, -9);
  task->AssignSlices(inputs, inputs, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 0, 0, 2, 0, 5, 1, 7});
}

TEST_CASE("mad_compression: any number of lanes makes the same sample") {
  CHECK(LanesAgree<MadCompressionSampler>(*MakeMadCompression({})));
  CHECK(LanesAgree<MadCompressionSampler>(*MakeMadCompression(kNoisy)));
}

TEST_CASE("mad_compression: each rule is rejected with its own message") {
  const std::string task = "/task: mad_compression: ";
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
  CHECK(Rejected({.noise_vocab_size = 14}) ==
        task +
            "vocab_size - 1 - noise_vocab_size must be >= 2 (vocab_size=16, noise_vocab_size=14)");
  CHECK(Rejected({.vocab_size = 3, .input_seq_len = 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::mad_compression
