// SPDX-License-Identifier: Apache-2.0
#include "tasks/phonebook_tok/phonebook_tok.h"

#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::phonebook_tok {
namespace {

std::string Rejected(std::int64_t num_entries) {
  return Rejection([&] { Validate({num_entries}, "/task"); });
}

// Both samples come from tests/golden/derive/lookup.py, a second derivation in plain Python.
TEST_CASE("phonebook_tok: golden samples of 3 and of 300 entries") {
  const auto small = MakePhonebookTok({3});
  REQUIRE(small->canon() == "phonebook_tok;n=3");
  const Sample sample = MakeSample(*small, 1, 0, 0);
  CHECK(TokensText(sample.inputs) ==
        "406 1425 10 2 2 2 6 6 1 7 4 9 3 11 510 1652 10 7 0 6 8 7 2 0 5 6 5 11 210 1065 10 9 0 9 "
        "9 5 8 5 5 8 7 11 406 1425 10 2 2 2 6 6 1 7 4 9");
  CHECK(LabelsText(sample) == "44:2 45:2 46:2 47:6 48:6 49:1 50:7 51:4 52:9 53:3");

  const Sample large = MakeSample(*MakePhonebookTok({300}), 1, 0, 0);
  CHECK(LabelsText(large) ==
        "4202:2 4203:3 4204:4 4205:2 4206:0 4207:7 4208:9 4209:4 4210:4 4211:2");
  CHECK(InputsSha256(large) == "68c400fb4c08eb7f46be83c0291fb694ca187d307a0b2c70e0a075a849450521");
}

TEST_CASE("phonebook_tok: names are distinct") {
  const auto task = MakePhonebookTok({2000});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::set<std::pair<std::int32_t, std::int32_t>> names;
  for (std::size_t e = 0; e < 2000; ++e) {
    names.emplace(sample.inputs[14 * e], sample.inputs[14 * e + 1]);
  }
  CHECK(names.size() == 2000);
}

TEST_CASE("phonebook_tok: all_tokens labels are the next tokens, target_only keeps the answer") {
  const auto task = MakePhonebookTok({5});
  const Sample scored = MakeSample(*task, 1, 0, 0);
  const Sample all = MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens);
  const std::size_t last = scored.inputs.size() - 1;
  for (std::size_t t = 0; t < last; ++t) CHECK(all.labels[t] == scored.inputs[t + 1]);
  CHECK(all.labels[last] == scored.labels[last]);
  CHECK(MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly) == scored);
}

TEST_CASE("phonebook_tok: slices are the depth of the entry and the digit") {
  const auto task = MakePhonebookTok({3});
  const Sample sample = MakeSample(*task, 1, 0, 0);  // asks for entry 0
  std::vector<std::int32_t> buckets(20, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  for (std::int32_t i = 0; i < 10; ++i) {
    CHECK(buckets[static_cast<std::size_t>(2 * i)] == 0);
    CHECK(buckets[static_cast<std::size_t>(2 * i + 1)] == i);
  }
}

TEST_CASE("phonebook_tok: any number of lanes makes the same sample") {
  for (const std::int64_t num_entries : {1, 3, 40}) {
    CHECK(LanesAgree<PhonebookTokSampler>(*MakePhonebookTok({num_entries})));
  }
}

TEST_CASE("phonebook_tok: each rule is rejected with its own message") {
  const std::string rule = "/task: phonebook_tok: num_entries must be in [1, 1000000] ";
  CHECK(Rejected(0) == rule + "(num_entries=0)");
  CHECK(Rejected(1000001) == rule + "(num_entries=1000001)");
  CHECK(Rejected(1) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::phonebook_tok
