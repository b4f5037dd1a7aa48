// SPDX-License-Identifier: Apache-2.0
#include "tasks/passkey/passkey.h"

#include <algorithm>
#include <set>

#include "tasks/text/text_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::passkey {
namespace {

const TaskEntry& Passkey() {
  static const TaskEntry entry = EntryOf(Register, "passkey");
  return entry;
}

TEST_CASE("keys have the digits asked for") {
  const auto key = [](const Object& options, std::uint64_t index) {
    return MakeRecord(Passkey(), options, index).references.front();
  };
  std::int64_t num_padded = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    CHECK(key({}, i).size() == 5);
    CHECK(key({}, i).front() != '0');
    CHECK(key({{"key_digits", 1}}, i).size() == 1);
    CHECK(std::stoi(key({{"key_digits", 0}}, i)) >= 1);
    CHECK(std::stoi(key({{"key_digits", 0}}, i)) <= 50000);
    const std::string padded = key({{"style", "blocks"}, {"key_digits", 2}}, i);
    CHECK(padded.size() == 2);
    num_padded += padded.front() == '0';
  }
  CHECK(num_padded > 0);
}

TEST_CASE("character filler has its length and starts anew after the key") {
  const PromptRecord record = MakeRecord(
      Passkey(),
      {{"cut", "character"}, {"garbage_chars", 333}, {"depth_mode", "fixed"}, {"depth", 30}});
  const std::string& key = record.references.front();
  const std::string filler =
      "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
      "The grass is ";
  CHECK(record.prompt.find("information there.\n" + filler.substr(0, 99) + "\nThe pass key is " +
                           key + ". Remember it. " + key + " is the pass key.\nThe grass is") !=
        std::string::npos);
  CHECK(
      record.prompt.size() ==
      std::string("There is an important info hidden inside a lot of irrelevant text. Find it and "
                  "memorize them. I will quiz you about the important information there.\n\nThe "
                  "pass key is 12345. Remember it. 12345 is the pass key.\n\nWhat is the pass key?")
              .size() +
          333);
}

TEST_CASE("sentence filler is whole and fills the length") {
  for (std::int64_t length = 200; length < 240; ++length) {
    const PromptRecord record =
        MakeRecord(Passkey(), {{"input_seq_len", length}, {"depth_mode", "fixed"}});
    // The longest of the five sentences has seven tokens.
    CHECK(record.prompt_tokens + record.max_new_tokens > length - 8);
    CHECK(CountOf(record.prompt, ".\nThe pass key is") == 1);
  }
}

TEST_CASE("depths run from end to end, in blocks from middle to middle of the steps") {
  const auto position = [](const Object& options, std::uint64_t index) {
    const PromptRecord record = MakeRecord(Passkey(), options, index);
    return std::pair(record.metadata.at("position").as_int(),
                     record.metadata.at("num_units").as_int());
  };
  const Object classic = {{"depth_mode", "grid"}, {"depth_grid", 5}};
  CHECK(position(classic, 0).first == 0);
  CHECK(position(classic, 2).first == position(classic, 2).second / 2);
  CHECK(position(classic, 4).first == position(classic, 4).second);
  CHECK(position(classic, 5) == position(classic, 0));
  const Object blocks = {{"style", "blocks"}, {"depth_mode", "grid"}, {"depth_grid", 5}};
  const std::int64_t last = position(blocks, 0).second - 1;
  CHECK(position(blocks, 0).first == last / 10);
  CHECK(position(blocks, 4).first == last * 9 / 10);
}

TEST_CASE("a key at either end leaves an empty part of the filler") {
  const Object first = {{"depth_mode", "fixed"}, {"depth", 0}};
  const Object last = {{"depth_mode", "fixed"}, {"depth", 100}};
  CHECK(CountOf(MakeRecord(Passkey(), first).prompt, "there.\n\nThe pass key is") == 1);
  CHECK(CountOf(MakeRecord(Passkey(), last).prompt, "is the pass key.\n\nWhat is") == 1);
}

TEST_CASE("every block but the key's is the same line") {
  const PromptRecord record = MakeRecord(Passkey(), {{"style", "blocks"}});
  CHECK(CountOf(record.prompt, "There and back again.\n") + 1 ==
        record.metadata.at("num_units").as_int());
  CHECK(record.prompt.ends_with("\n\nWhat is the pass key?"));
  CHECK(record.answer_prefix == " The passkey is");
}

TEST_CASE("every length of a preset has keys and places of its own") {
  for (const Preset& preset : Passkey().presets) {
    CAPTURE(preset.name);
    std::set<std::string> keys;
    std::int64_t num_samples = 0;
    for (const Segment& segment : preset.test) {
      const auto task = Passkey().create(segment.params, "");
      const PhiloxKey key = DeriveKey(task->canon(), preset.seed, 2);
      for (std::uint64_t i = 0; i < 10; ++i, ++num_samples) {
        keys.insert(task->text()->MakePrompt({key, i}).references.front());
      }
    }
    // Of 320 keys out of 50000 one is expected to come twice.
    CHECK(std::ssize(keys) > num_samples - 5);
  }
}

TEST_CASE("every broken rule of passkey has its message") {
  CHECK(RejectionOf(Passkey(), {{"key_digits", 10}}) ==
        "/task: passkey: key_digits must be in [0, 9] (key_digits=10)");
  CHECK(RejectionOf(Passkey(), {{"key_digits", 0}, {"style", "blocks"}}) ==
        "/task: passkey: key_digits must be in [1, 9] with style blocks (key_digits=0)");
  CHECK(RejectionOf(Passkey(), {{"cut", "character"}, {"style", "blocks"}}) ==
        "/task: passkey: cut character needs style classic");
  CHECK(RejectionOf(Passkey(), {{"garbage_chars", -1}}) ==
        "/task: passkey: garbage_chars must be in [0, 67108864] (garbage_chars=-1)");
  CHECK(RejectionOf(Passkey(), {{"garbage_chars", 100}}) ==
        "/task: passkey: garbage_chars acts only with cut character (garbage_chars=100)");
  CHECK(RejectionOf(Passkey(), {{"depth_grid", 5}, {"depth_mode", "fixed"}}) ==
        "/task: passkey: depth_grid acts only with depth_mode grid (depth_grid=5)");
  CHECK(RejectionOf(Passkey(), {{"depth", 20}}) ==
        "/task: passkey: depth acts only with depth_mode fixed (depth=20)");
  CHECK(RejectionOf(Passkey(), {{"depth_grid", 1}}) ==
        "/task: passkey: depth_grid must be in [2, 1000] (depth_grid=1)");
  CHECK(RejectionOf(Passkey(), {{"depth", -1}}) ==
        "/task: passkey: depth must be in [0, 100] (depth=-1)");
  CHECK(RejectionOf(Passkey(), {{"cut", "character"}, {"garbage_chars", 5000}})
            .find("input_seq_len too small: needs at least ") != std::string::npos);
}

}  // namespace
}  // namespace mixerbench::tasks::passkey
