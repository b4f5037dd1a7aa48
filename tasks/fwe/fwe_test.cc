// SPDX-License-Identifier: Apache-2.0
#include "tasks/fwe/fwe.h"

#include <cmath>
#include <map>
#include <numbers>

#include "tasks/fwe/zeta.h"
#include "tasks/text/lists.h"
#include "tasks/text/text_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::fwe {
namespace {

const TaskEntry& Fwe() {
  static const TaskEntry entry = EntryOf(Register, "fwe");
  return entry;
}

TEST_CASE("zeta has its known values") {
  constexpr double kTolerance = 1e-12;  // relative; the formula's error is below it
  const double pi = std::numbers::pi;
  CHECK(Zeta(2) == Approx(pi * pi / 6).epsilon(kTolerance));
  CHECK(Zeta(4) == Approx(std::pow(pi, 4) / 90).epsilon(kTolerance));
  CHECK(Zeta(1.5) == Approx(2.6123753486854883).epsilon(kTolerance));
  CHECK(Zeta(3.5) == Approx(1.1267338673170566).epsilon(kTolerance));
}

// How often each word is listed.
std::map<std::string, std::int64_t> CountsOf(const PromptRecord& record) {
  std::map<std::string, std::int64_t> counts;
  const std::size_t begin = record.prompt.find("coded words. ") + 13;
  for (std::string& word :
       Split(record.prompt.substr(begin, record.prompt.rfind("\nQuestion") - begin), ' ')) {
    ++counts[std::move(word)];
  }
  return counts;
}

TEST_CASE("words are listed in proportion to a power of their rank") {
  const PromptRecord record = MakeRecord(Fwe(), {{"input_seq_len", 4096}});
  const std::int64_t size = record.metadata.at("size").as_int();
  const std::map<std::string, std::int64_t> counts = CountsOf(record);
  const double zeta = Zeta(2);
  CHECK(counts.at("...") == RankCount(size, 1, 2, zeta));
  for (std::int64_t rank = 2; rank <= 4; ++rank) {
    const std::string& word = record.references[static_cast<std::size_t>(rank - 2)];
    CHECK(word.size() == 6);
    CHECK(counts.at(word) == RankCount(size, rank, 2, zeta));
  }
  CHECK(RankCount(1000, 1, 2, zeta) == 607);
  CHECK(RankCount(1000, 4, 2, zeta) == 37);
}

TEST_CASE("the vocabulary has a word for 50 tokens of prompt, the response left out") {
  // With alpha close to 1 every word of the vocabulary is listed.
  const PromptRecord record = MakeRecord(Fwe(), {{"input_seq_len", 1024}, {"alpha", 1.1}});
  CHECK(CountsOf(record).size() == (1024 - 50) / 50);
}

TEST_CASE("at the least length the three words still stand out") {
  for (const double alpha : {1.5, 2.0, 3.5}) {
    const std::string message = RejectionOf(Fwe(), {{"alpha", alpha}, {"input_seq_len", 100}});
    const std::string opening = "needs at least ";
    const std::int64_t least = std::stoll(message.substr(message.find(opening) + opening.size()));
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Object options = {{"alpha", alpha}, {"input_seq_len", least}};
      const PromptRecord record = MakeRecord(Fwe(), options, i);
      const auto task = Fwe().create(options, "");
      CHECK(task->text()->Answer(record.prompt + record.answer_prefix) == record.answer);
    }
  }
}

TEST_CASE("every broken rule of fwe has its message") {
  CHECK(RejectionOf(Fwe(), {{"alpha", 1}}) == "/task: fwe: alpha must be > 1 and <= 8 (alpha=1)");
  CHECK(RejectionOf(Fwe(), {{"alpha", 9}}) == "/task: fwe: alpha must be > 1 and <= 8 (alpha=9)");
}

}  // namespace
}  // namespace mixerbench::tasks::fwe
