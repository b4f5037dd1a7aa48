// SPDX-License-Identifier: Apache-2.0
#include "tasks/phonebook/phonebook.h"

#include <set>

#include "tasks/text/lists.h"
#include "tasks/text/text_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::phonebook {
namespace {

const TaskEntry& Phonebook() {
  static const TaskEntry entry = EntryOf(Register, "phonebook");
  return entry;
}

TEST_CASE("a book lists distinct names, two of them again, and the one asked for") {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const PromptRecord record =
        MakeRecord(Phonebook(), {{"min_entries", 3}, {"max_entries", 20}}, i);
    const auto lines = Split(record.prompt, '\n');
    const std::int64_t size = record.metadata.at("num_units").as_int();
    REQUIRE(std::ssize(lines) == size + 3);  // an empty one and two examples
    const std::set<std::string> book(lines.begin(), lines.begin() + size);
    CHECK(std::ssize(book) == size);
    CHECK(lines[static_cast<std::size_t>(size)].empty());
    CHECK(book.count(lines[lines.size() - 1]) == 1);
    CHECK(book.count(lines[lines.size() - 2]) == 1);
    CHECK(lines[lines.size() - 1] != lines[lines.size() - 2]);
    const std::string asked =
        record.metadata.at("name").as_string() + ": " + record.references.front();
    CHECK(lines[static_cast<std::size_t>(record.metadata.at("position").as_int())] == asked);
    CHECK(record.references.front().size() == 10);
    CHECK(record.references.front().front() >= '6');
    CHECK(std::ssize(record.distractors) == size - 1);
  }
}

TEST_CASE("sizes cover their range") {
  std::set<std::int64_t> sizes;
  for (std::uint64_t i = 0; i < 100; ++i) {
    sizes.insert(MakeRecord(Phonebook(), {{"min_entries", 3}, {"max_entries", 6}}, i)
                     .metadata.at("num_units")
                     .as_int());
  }
  CHECK(sizes == std::set<std::int64_t>{3, 4, 5, 6});
}

TEST_CASE("every broken rule of phonebook has its message") {
  CHECK(RejectionOf(Phonebook(), {{"min_entries", 2}}) ==
        "/task: phonebook: min_entries must be >= 3 (min_entries=2)");
  CHECK(RejectionOf(Phonebook(), {{"max_entries", 9}}) ==
        "/task: phonebook: max_entries must be in [min_entries, 100000] "
        "(max_entries=9, min_entries=10)");
  CHECK(RejectionOf(Phonebook(), {{"input_seq_len", 1024}})
            .find("input_seq_len too small: needs at least ") != std::string::npos);
}

}  // namespace
}  // namespace mixerbench::tasks::phonebook
