// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_selective_copying/mad_selective_copying.h"

#include <limits>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::mad_selective_copying {
namespace {

using Params = MadSelectiveCopyingParams;

constexpr Params kSmall{.input_seq_len = 20, .num_tokens_to_copy = 4};
constexpr Params kPlain{.input_seq_len = 20, .num_tokens_to_copy = 4, .selective = false};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

TEST_CASE("mad_selective_copying: golden sample of the baseline") {
  const auto task = MakeMadSelectiveCopying({});
  REQUIRE(task->canon() == "mad_selective_copying;K=16;L=256;vocab=16");
  const Sample sample = MakeSample(*task, 12345, 0, 0);
  std::string data;
  for (std::size_t t = 0; t < 239; ++t) {
    if (sample.inputs[t] == 14) continue;
    data += std::to_string(t) + ":" + std::to_string(sample.inputs[t]) + " ";
  }
  CHECK(data ==
        "12:11 27:6 49:5 64:0 74:4 90:7 103:13 117:9 130:2 141:10 160:1 175:0 191:8 208:8 225:11 "
        "238:5 ");
  CHECK(LabelsText(sample) ==
        "240:11 241:6 242:5 243:0 244:4 245:7 246:13 247:9 248:2 249:10 250:1 251:0 252:8 253:8 "
        "254:11 255:5");
  CHECK(InputsSha256(sample) == "38c26f2075fbac9dd3137e04cc00107c1e50e2049222ada2191c2ed33e67b590");
}

// From tests/golden/derive/mad.py.
TEST_CASE("mad_selective_copying: derived sample of plain copying") {
  const Sample sample = MakeSample(*MakeMadSelectiveCopying(kPlain), 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "10 3 0 7 14 14 14 14 14 14 14 14 14 14 14 15 14 14 14 14");
  CHECK(LabelsText(sample) == "16:10 17:3 18:0 19:7");
}

TEST_CASE("mad_selective_copying: data, copy token and answers stand where they should") {
  for (const bool selective : {true, false}) {
    Params params = kSmall;
    params.selective = selective;
    const auto task = MakeMadSelectiveCopying(params);
    for (std::uint64_t index = 0; index < 100; ++index) {
      const Sample sample = MakeSample(*task, 1, 0, index);
      std::vector<std::int32_t> data;
      for (std::size_t t = 0; t < 15; ++t) {
        if (sample.inputs[t] == 14) continue;
        data.push_back(sample.inputs[t]);
        if (!selective) REQUIRE(t < 4);
      }
      REQUIRE(data.size() == 4);
      if (selective) REQUIRE(sample.inputs[14] != 14);
      REQUIRE(sample.inputs[15] == 15);
      for (std::size_t m = 0; m < 4; ++m) {
        REQUIRE(sample.inputs[16 + m] == 14);
        REQUIRE(sample.labels[16 + m] == data[m]);
      }
    }
  }
}

TEST_CASE("mad_selective_copying: plain copying has a key of its own") {
  CHECK(MakeMadSelectiveCopying(kPlain)->canon() == "mad_copying;K=4;L=20;vocab=16");
}

TEST_CASE("mad_selective_copying: without blanks both kinds are the same layout") {
  const auto task = MakeMadSelectiveCopying({.input_seq_len = 10, .num_tokens_to_copy = 4});
  const Sample sample = MakeSample(*task, 1, 0, 0);  // one blank
  int num_data = 0;
  for (std::size_t t = 0; t < 5; ++t) num_data += sample.inputs[t] < 14;
  CHECK(num_data == 4);
  CHECK(sample.inputs[5] == 15);
}

TEST_CASE("mad_selective_copying: all_tokens labels are the next input before the answers") {
  const auto task = MakeMadSelectiveCopying(kSmall);
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  for (std::size_t t = 0; t < 20; ++t) {
    CHECK(all.labels[t] == (t < 16 ? scored.inputs[t + 1] : scored.labels[t]));
  }
}

TEST_CASE("mad_selective_copying: slices follow the data tokens") {
  const auto task = MakeMadSelectiveCopying({.input_seq_len = 13, .num_tokens_to_copy = 2});
  // Data at positions 3 and 9 of 10 before the copy token.
  const std::vector<std::int32_t> inputs = {14, 14, 14, 5, 14, 14, 14, 14, 14, 7, 15, 14, 14};
  std::vector<std::int32_t> labels(13, kIgnore);
  labels[11] = 5;
  labels[12] = 7;
  std::vector<std::int32_t> buckets(4, -9);
  task->AssignSlices(inputs, labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, 6, 1, 0});
}

TEST_CASE("mad_selective_copying: any number of lanes makes the same sample") {
  CHECK(LanesAgree<MadSelectiveCopyingSampler>(*MakeMadSelectiveCopying({})));
  CHECK(LanesAgree<MadSelectiveCopyingSampler>(*MakeMadSelectiveCopying(kSmall)));
  CHECK(LanesAgree<MadSelectiveCopyingSampler>(*MakeMadSelectiveCopying(kPlain)));
}

TEST_CASE("mad_selective_copying: each rule is rejected with its own message") {
  const std::string task = "/task: mad_selective_copying: ";
  CHECK(Rejected({.vocab_size = 1}) == task + "vocab_size must be in [2, 16777216] (vocab_size=1)");
  CHECK(Rejected({.input_seq_len = 1}) ==
        task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  for (const std::int64_t input_seq_len : {32, 33}) {
    CHECK(Rejected({.input_seq_len = input_seq_len}) ==
          task + "need input_seq_len > 2*num_tokens_to_copy + 1 (input_seq_len=" +
              std::to_string(input_seq_len) + ", num_tokens_to_copy=16)");
  }
  CHECK(Rejected({.input_seq_len = 34}) == "");
  CHECK(Rejected({.num_tokens_to_copy = std::numeric_limits<std::int64_t>::max()})
            .find("need input_seq_len > 2*num_tokens_to_copy + 1") != std::string::npos);
  CHECK(Rejected({.num_tokens_to_copy = 0}) ==
        task + "num_tokens_to_copy must be >= 1 (num_tokens_to_copy=0)");
  CHECK(Rejected({.vocab_size = 2}) == task + "vocab_size must be >= 3 (vocab_size=2)");
}

}  // namespace
}  // namespace mixerbench::tasks::mad_selective_copying
