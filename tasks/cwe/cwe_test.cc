// SPDX-License-Identifier: Apache-2.0
#include "tasks/cwe/cwe.h"

#include <algorithm>
#include <map>

#include "tasks/text/lists.h"
#include "tasks/text/text_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::cwe {
namespace {

const TaskEntry& Cwe() {
  static const TaskEntry entry = EntryOf(Register, "cwe");
  return entry;
}

// How often each word stands in the last list of the prompt.
std::map<std::string, std::int64_t> Counts(const std::string& prompt) {
  const std::size_t begin = prompt.find('\n', prompt.rfind("Below is")) + 1;
  std::map<std::string, std::int64_t> counts;
  for (const std::string& piece :
       Split(prompt.substr(begin, prompt.rfind("\nQuestion") - begin), ' ')) {
    if (!piece.ends_with('.')) ++counts[piece];
  }
  return counts;
}

TEST_CASE("common words are listed as often as they should be and no other word is") {
  const PromptRecord record =
      MakeRecord(Cwe(), {{"input_seq_len", 2048}, {"num_cw", 4}, {"freq_cw", 7}, {"freq_ucw", 2}});
  const auto counts = Counts(record.prompt);
  REQUIRE(record.references.size() == 4);
  for (const auto& [word, count] : counts) {
    const bool is_common = std::count(record.references.begin(), record.references.end(), word) > 0;
    CHECK(count == (is_common ? 7 : 2));
  }
  CHECK(std::ssize(counts) == record.metadata.at("num_words").as_int());
  CHECK(record.prompt.ends_with("What are the 4 most common words in the above list?"));
}

TEST_CASE("the answer names the words in the order they appear") {
  const PromptRecord record = MakeRecord(Cwe(), {{"input_seq_len", 1024}, {"example", false}});
  std::size_t last = 0;
  for (const std::string& piece : Split(record.answer, ' ')) {
    if (piece.empty() || piece.ends_with('.')) continue;
    const std::size_t at = record.prompt.find(". " + piece + " ");
    CHECK(at > last);
    last = at;
  }
}

TEST_CASE("frequencies follow the length unless they are given") {
  const auto canon = [](const Object& options) { return Cwe().create(options, "")->canon(); };
  CHECK(canon({}) == "cwe;freq_cw=30;freq_ucw=3;num_cw=10");
  CHECK(canon({{"input_seq_len", 2048}}) == "cwe;freq_cw=6;freq_ucw=1;num_cw=10");
  CHECK(canon({{"input_seq_len", 2048}, {"freq_cw", 9}}) == "cwe;freq_cw=9;freq_ucw=1;num_cw=10");
  CHECK(Cwe().resolve(Object{}, "").Find("freq_cw")->as_int() == 30);
}

TEST_CASE("the example is solved") {
  const PromptRecord record = MakeRecord(Cwe(), {});
  CHECK(CountOf(record.prompt, "Below is a numbered list") == 2);
  CHECK(CountOf(record.prompt, "appear most often in the list are: 1. ") == 1);
  CHECK(CountOf(MakeRecord(Cwe(), {{"example", false}}).prompt, "Below is") == 1);
}

TEST_CASE("at the least length every sample fits, with words drawn again where needed") {
  const std::string message = RejectionOf(Cwe(), {{"input_seq_len", 100}});
  const std::string opening = "needs at least ";
  const std::int64_t least = std::stoll(message.substr(message.find(opening) + opening.size()));
  for (std::uint64_t i = 0; i < 30; ++i) {
    const PromptRecord record = MakeRecord(Cwe(), {{"input_seq_len", least}}, i);
    CHECK(record.prompt_tokens + record.max_new_tokens <= least);
    CHECK(record.metadata.at("num_words").as_int() > 10);
  }
}

TEST_CASE("every broken rule of cwe has its message") {
  CHECK(RejectionOf(Cwe(), {{"num_cw", 0}}) == "/task: cwe: num_cw must be in [1, 100] (num_cw=0)");
  CHECK(RejectionOf(Cwe(), {{"freq_ucw", -1}}) ==
        "/task: cwe: freq_ucw must be >= 1 (freq_ucw=-1)");
  CHECK(RejectionOf(Cwe(), {{"freq_cw", 3}}) ==
        "/task: cwe: freq_cw must be > freq_ucw and <= 10000 (freq_cw=3, freq_ucw=3)");
}

}  // namespace
}  // namespace mixerbench::tasks::cwe
