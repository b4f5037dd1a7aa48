// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/haystack.h"

#include <set>

#include "base/error.h"
#include "base/sha256.h"
#include "tasks/text/byte_tokenizer.h"
#include "tasks/text/draft.h"
#include "tasks/text/haystack_fill.h"
#include "tasks/text/sentence_order.h"
#include "tasks/text/shipped_text.h"
#include "tasks/text/tokenized_units.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

std::string LinesSha256(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append(line).append("\n");
  return Sha256Hex(text);
}

const Haystack& Kjv() {
  static const Haystack kjv("kjv", ShippedHaystack(), HaystackPart::kAll, "");
  return kjv;
}

std::vector<std::string> SentencesOf(const Haystack& haystack) {
  std::vector<std::string> sentences;
  for (std::uint32_t s = 0; s < haystack.num_sentences(); ++s) {
    sentences.emplace_back(haystack.sentence(s));
  }
  return sentences;
}

TEST_CASE("shipped texts have their hashes") {
  CHECK(LinesSha256(SentencesOf(Kjv())) ==
        "dacd845663f85773ea14190a879c40396ea7648ce0463ff5bd1ffec6db270b56");
  CHECK(Kjv().num_sentences() == 29756);
  CHECK(Kjv().num_paragraphs() == 1189);
  CHECK(LinesSha256(ShippedWords("adj")) ==
        "5881f68cd71d14a7d69a124e786e727d15ebdbf79919eeaedde84504e606342b");
  CHECK(LinesSha256(ShippedWords("noun")) ==
        "342c660b610bf9f88ac4cb1b89bdbb1de7aaeeac2c4c47740be48a78c84b488d");
  CHECK(LinesSha256(ShippedWords("cwe_words")) ==
        "a7786634f62e6e1135bdd083ce7b94bec8445f695f4276b2dfb929d36a8738b4");
  CHECK(Sha256Hex(ShippedTokenizerModel()) ==
        "a6fc312e5a9a43487ede6855cef7e8424912465a5519bc19e719d30404531e9e");
}

TEST_CASE("lines are sentences and empty lines end paragraphs") {
  const Haystack text("t", "\n a b. \r\nc.\n\n\nd\n \ne", HaystackPart::kAll, "");
  CHECK(SentencesOf(text) == std::vector<std::string>{"a b.", "c.", "d", "e"});
  CHECK(text.num_paragraphs() == 3);
  CHECK(text.paragraph_begin(1) == 2);
  CHECK(text.paragraph_begin(3) == 4);
}

TEST_CASE("a text without sentences or that is not UTF-8 is refused") {
  CHECK_THROWS_WITH(Haystack("t", " \n\n", HaystackPart::kAll, "here"),
                    Catch::StartsWith("here: the haystack has no sentences"));
  CHECK_THROWS_WITH(Haystack("t", "a\n\nb", HaystackPart::kTest, "here"),
                    Catch::StartsWith("here: the haystack has no sentences"));
  for (const char* bytes : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    CHECK_THROWS_WITH(Haystack("t", bytes, HaystackPart::kAll, "here"),
                      "here: the haystack is not UTF-8");
  }
}

TEST_CASE("a line that is no sentence by its size is refused") {
  const std::string longest(kMaxSentenceBytes, 'a');
  CHECK(Haystack("t", "b\n" + longest, HaystackPart::kAll, "here").num_sentences() == 2);
  CHECK_THROWS_WITH(Haystack("t", "b\n" + longest + "a\nc", HaystackPart::kAll, "here"),
                    "here: line 2 has 65537 bytes; a haystack has one sentence a line, of at most "
                    "65536 bytes");
}

TEST_CASE("a byte order mark is no part of a text") {
  CHECK(WithoutByteOrderMark("\xef\xbb\xbf"
                             "a") == "a");
  CHECK(WithoutByteOrderMark("a\xef\xbb\xbf") == "a\xef\xbb\xbf");
}

TEST_CASE("what a context is left short by is half of the sentence that its end falls into") {
  const ByteTokenizer bytes;
  const auto units = [&](const TextTable& texts) {
    return TokenizedUnits(std::make_shared<const TextTable>(texts), ' ', bytes);
  };
  // Nine tokens each with the space before them.
  CHECK(MeanShortfall(units({"12345678", "12345678"})) == 4.5);
  const TokenizedUnits mixed = units({"1", "1", "1", "12345678901234567890123"});
  CHECK(MeanShortfall(mixed) == (3 * 4 + 24.0 * 24) / (2 * 30));
  CHECK_NOTHROW(CheckFill(mixed, 40, "/here"));
  CHECK_THROWS_WITH(CheckFill(mixed, 39, "/here"),
                    "/here: its lines are too long: a context has room for 39 tokens of haystack "
                    "and would on average end 10 short; put one sentence on each line, or raise "
                    "input_seq_len");
  CHECK(
      FillWarnings(units({"12345678", "12345678"}), 4500, "two.txt") ==
      std::vector<std::string>{"the 2 sentences of 'two.txt' come about 250 times in a context of "
                               "4500 tokens"});
  CHECK(FillWarnings(mixed, 40, "mixed.txt") ==
        std::vector<std::string>{
            "prompts end about 10 tokens short of input_seq_len on average: the sentences of "
            "'mixed.txt' are long beside the 40 tokens that a context has room for",
            "the 4 sentences of 'mixed.txt' come about 1.3 times in a context of 40 tokens"});
}

TEST_CASE("train and test parts share no chapter and together are the whole") {
  const Haystack train("kjv_train", ShippedHaystack(), HaystackPart::kTrain, "");
  const Haystack test("kjv_test", ShippedHaystack(), HaystackPart::kTest, "");
  CHECK(test.num_paragraphs() == 118);
  CHECK(train.num_paragraphs() + test.num_paragraphs() == Kjv().num_paragraphs());
  CHECK(train.num_sentences() + test.num_sentences() == Kjv().num_sentences());
  CHECK(test.sentence(0) == Kjv().sentence(Kjv().paragraph_begin(9)));
}

std::vector<std::uint32_t> Order(HaystackMode mode, std::uint64_t haystack_seed,
                                 const SampleStream& sample, std::int64_t size) {
  SentenceOrder order(Kjv(), mode, haystack_seed, sample, 1);
  std::vector<std::uint32_t> indices;
  for (std::int64_t i = 0; i < size; ++i) indices.push_back(order[i]);
  return indices;
}

const SampleStream kFirst{DeriveKey("test", 0, 0), 0}, kSecond{DeriveKey("test", 0, 0), 1};

TEST_CASE("sentences follow one another as the mode says") {
  CHECK(Order(HaystackMode::kFixed, 7, kFirst, 4) == std::vector<std::uint32_t>{0, 1, 2, 3});
  for (const HaystackMode mode : {HaystackMode::kFixedPerm, HaystackMode::kFixedOffset}) {
    CHECK(Order(mode, 7, kFirst, 100) == Order(mode, 7, kSecond, 100));
    CHECK(Order(mode, 7, kFirst, 100) != Order(mode, 8, kFirst, 100));
  }
  for (const HaystackMode mode : {HaystackMode::kShuffleSentence, HaystackMode::kShuffleParagraph,
                                  HaystackMode::kSampleOffset}) {
    CHECK(Order(mode, 7, kFirst, 100) == Order(mode, 8, kFirst, 100));
    CHECK(Order(mode, 7, kFirst, 100) != Order(mode, 7, kSecond, 100));
  }
  for (const HaystackMode mode : {HaystackMode::kFixedOffset, HaystackMode::kSampleOffset}) {
    const auto indices = Order(mode, 7, kFirst, 30000);
    for (std::size_t i = 1; i < indices.size(); ++i) {
      REQUIRE(indices[i] == (indices[i - 1] + 1) % Kjv().num_sentences());
    }
  }
  // Inside a chapter the text runs on; 30,000 sentences hold about 1,189 jumps.
  const auto chapters = Order(HaystackMode::kShuffleParagraph, 7, kFirst, 29756);
  std::int64_t num_jumps = 0;
  for (std::size_t i = 1; i < chapters.size(); ++i) num_jumps += chapters[i] != chapters[i - 1] + 1;
  CHECK(num_jumps <= 1188);
  CHECK(num_jumps >= 1150);
}

TEST_CASE("every order has each sentence once, then repeats") {
  for (const auto& [mode, name] : EnumNames<HaystackMode>::kNames) {
    CAPTURE(name);
    const auto indices = Order(mode, 3, kFirst, 29756 + 10);
    CHECK(std::set<std::uint32_t>(indices.begin(), indices.begin() + 29756).size() == 29756);
    CHECK(std::equal(indices.begin(), indices.begin() + 10, indices.begin() + 29756));
  }
}

TEST_CASE("an order does not depend on how much of it is expected") {
  SentenceOrder lavish(Kjv(), HaystackMode::kShuffleSentence, 0, kFirst, 40000);
  const auto indices = Order(HaystackMode::kShuffleSentence, 0, kFirst, 500);
  for (std::int64_t i = 0; i < 500; ++i) REQUIRE(lavish[i] == indices[static_cast<std::size_t>(i)]);
}

TEST_CASE("a draft renders text and tokens of the same parts") {
  const ByteTokenizer bytes;
  const TokenizedUnits units(std::make_shared<const TextTable>(TextTable{"one", "two"}), ' ',
                             bytes);
  Draft draft;
  CHECK(draft.empty());
  draft.AddText("");
  CHECK(draft.empty());
  draft.AddText("a\n");
  draft.AddText("b\n");
  draft.AddUnit(units, 1, false);
  draft.AddUnit(units, 0, true);
  draft.AddText("\nc");
  CHECK(draft.Text() == "a\nb\ntwo one\nc");
  std::vector<std::int32_t> tokens;
  draft.AppendTokens(bytes, tokens);
  CHECK(bytes.Decode(tokens) == draft.Text());
  CHECK(units.num_tokens(0, false) == 3);
  CHECK(units.num_tokens(0, true) == 4);
}

}  // namespace
}  // namespace mixerbench::tasks
