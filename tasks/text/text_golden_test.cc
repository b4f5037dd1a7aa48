// Text tasks against tests/golden: prompts derived a second time from the tasks' pages, and the
// hashes of every preset.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/text_golden.h"

#include <fstream>
#include <map>
#include <sstream>

#include "base/sha256.h"
#include "tasks/text/text_task.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

struct Case {
  const char* task;
  Object options;
};

// The cases of tests/golden/derive/text_tasks.py.
const std::map<std::string, Case>& Cases() {
  static const std::map<std::string, Case> cases = {
      {"niah/strong", {"niah", {{"inst", "strong"}}}},
      {"niah/none-word", {"niah", {{"type_needle_v", "words"}, {"inst", "none"}}}},
      {"niah/noise", {"niah", {{"type_haystack", "noise"}}}},
      {"niah/needle-words",
       {"niah", {{"type_haystack", "needle"}, {"type_needle_v", "words"}, {"phrase_words", 4}}}},
      {"niah/needle-uuids",
       {"niah",
        {{"input_seq_len", 2048},
         {"type_haystack", "needle"},
         {"type_needle_k", "uuids"},
         {"type_needle_v", "uuids"}}}},
      {"niah/multikey", {"niah", {{"num_needle_k", 4}}}},
      {"niah/multivalue", {"niah", {{"num_needle_v", 4}}}},
      {"niah/multiquery", {"niah", {{"num_needle_k", 4}, {"num_needle_q", 4}}}},
      {"niah/multi-noise",
       {"niah",
        {{"type_haystack", "noise"},
         {"num_needle_k", 3},
         {"num_needle_v", 2},
         {"num_needle_q", 2}}}},
      {"niah/digit-noise", {"niah", {{"digit_noise", 0.5}}}},
      {"vt/noise", {"vt", {}}},
      {"vt/chains", {"vt", {{"input_seq_len", 2048}, {"num_chains", 3}, {"num_hops", 2}}}},
      {"vt/kjv",
       {"vt",
        {{"input_seq_len", 2048}, {"type_haystack", "kjv"}, {"num_chains", 2}, {"num_hops", 3}}}},
      {"vt/example", {"vt", {{"input_seq_len", 2048}, {"example", true}}}},
      {"cwe/short", {"cwe", {{"input_seq_len", 1024}}}},
      {"cwe/long", {"cwe", {{"input_seq_len", 4608}}}},
      {"cwe/no-example", {"cwe", {{"input_seq_len", 1024}, {"example", false}, {"num_cw", 5}}}},
      {"fwe", {"fwe", {}}},
      {"passkey/sentence", {"passkey", {}}},
      {"passkey/character",
       {"passkey", {{"cut", "character"}, {"key_digits", 0}, {"garbage_chars", 2000}}}},
      {"passkey/blocks", {"passkey", {{"style", "blocks"}}}},
      {"phonebook", {"phonebook", {}}}};
  return cases;
}

TEST_CASE("prompts are those of a second derivation from the tasks' pages") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  std::ifstream file("tests/golden/text_prompts.txt");
  REQUIRE(file.is_open());
  std::size_t num_lines = 0;
  std::string name, hash;
  for (std::int64_t tokens = 0; file >> name >> tokens >> hash; ++num_lines) {
    CAPTURE(name);
    const Case& c = Cases().at(name);
    const auto task = registry.Find(c.task, "").create(c.options, "");
    const PromptRecord record = task->text()->MakePrompt(
        {DeriveKey(task->canon(), 42, static_cast<std::uint64_t>(Split::kTest)), 0});
    CHECK(record.prompt_tokens == tokens);
    CHECK(Sha256Hex(record.prompt + record.answer_prefix + record.answer) == hash);
  }
  CHECK(num_lines == Cases().size());
}

TEST_CASE("every preset gives the samples of tests/golden/text.sha256") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  std::ifstream file("tests/golden/text.sha256");
  REQUIRE(file.is_open());
  std::stringstream golden;
  golden << file.rdbuf();
  std::istringstream actual(TextGoldenHashes(registry));
  std::string expected_line, actual_line;
  while (std::getline(golden, expected_line)) {
    REQUIRE(std::getline(actual, actual_line));
    CHECK(actual_line == expected_line);
  }
  CHECK_FALSE(std::getline(actual, actual_line));
}

}  // namespace
}  // namespace mixerbench::tasks
