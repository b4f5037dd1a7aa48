// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sentencepiece_processor.h>
#include <thread>

#include "base/error.h"
#include "tasks/text/byte_tokenizer.h"
#include "tasks/text/draft.h"
#include "tasks/text/haystack.h"
#include "tasks/text/sentencepiece_model.h"
#include "tasks/text/sentencepiece_tokenizer.h"
#include "tasks/text/shipped_text.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

std::vector<std::int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.Encode(text, tokens);
  return tokens;
}

// Words, punctuation, digits, bytes without a piece, runs of spaces and newlines.
const std::vector<std::string>& OddTexts() {
  static const std::vector<std::string> texts = {"",
                                                 " ",
                                                 "  two  spaces ",
                                                 "\n\n\ttab\r\n",
                                                 "a\n\n b",
                                                 "caf\xc3\xa9 \xf0\x9f\x98\x80\xf0\x9f\x98\x80x",
                                                 "dec8e071-4edc-4f5f-b272-3b1d83022f05",
                                                 "1. abide 2. zoning 300. a-b-c (12345.)",
                                                 "\xe2\x96\x81 literal",
                                                 std::string(600, 'x')};
  return texts;
}

TEST_CASE("sqtok encodes the golden texts") {
  const auto sqtok = MakeShippedTokenizer();
  CHECK(sqtok->vocab_size() == 8192);
  CHECK(Encode(*sqtok, "In the beginning God created the heaven and the earth.") ==
        std::vector<std::int32_t>{1190, 262, 2189, 393, 3562, 262, 749, 271, 262, 637, 8143});
  CHECK(Encode(*sqtok, "One of the special magic numbers for tested-formal is: 3136088.") ==
        std::vector<std::int32_t>{2880, 272,  262,  733,  6601, 4610, 494,  1169, 2408,
                                  324,  1572, 284,  8180, 2221, 379,  342,  8147, 8120,
                                  8185, 8183, 8185, 8188, 8182, 8190, 8190, 8143});
}

TEST_CASE("sqtok gives the tokens of the SentencePiece library") {
  const auto sqtok = MakeShippedTokenizer();
  sentencepiece::SentencePieceProcessor library;
  REQUIRE(library.LoadFromSerializedProto(ShippedTokenizerModel()).ok());
  const auto check = [&](const std::string& text) {
    std::vector<int> expected;
    REQUIRE(library.Encode(text, &expected).ok());
    CAPTURE(text);
    CHECK(Encode(*sqtok, text) == expected);
  };
  for (const std::string& text : OddTexts()) check(text);
  const Haystack kjv("kjv", ShippedHaystack(), HaystackPart::kAll, "");
  constexpr std::uint32_t kEvery = 20;  // sentences: the library takes seconds for all of them
  for (std::uint32_t i = 0; i < kjv.num_sentences(); i += kEvery) {
    const std::string sentence(kjv.sentence(i));
    check(sentence);
    check(" " + sentence + "\n" + std::string(kjv.sentence(i / 2)) + " end");
  }
}

TEST_CASE("decoding gives back the text") {
  const ByteTokenizer bytes;
  const std::unique_ptr<const Tokenizer> sqtok = MakeShippedTokenizer();
  for (const Tokenizer* tokenizer : {static_cast<const Tokenizer*>(&bytes), sqtok.get()}) {
    for (const std::string& text : OddTexts()) {
      // The library cannot tell U+2581 from a space.
      if (tokenizer == sqtok.get() && text.starts_with("\xe2")) continue;
      std::vector<std::int32_t> tokens = Encode(*tokenizer, text);
      CHECK(tokens.size() <= text.size());
      tokens.insert(tokens.begin(), tokenizer->bos_id());
      tokens.push_back(tokenizer->eos_id());
      tokens.push_back(tokenizer->pad_id());
      CHECK(tokenizer->Decode(tokens) == text);
    }
  }
}

TEST_CASE("threads that fill the word cache together get the same tokens") {
  const auto sqtok = MakeShippedTokenizer();
  const std::string text = ShippedHaystack().substr(0, 20000);
  const std::vector<std::int32_t> expected = Encode(*MakeShippedTokenizer(), text);
  std::vector<std::vector<std::int32_t>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] { result = Encode(*sqtok, text); });
    }
  }
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("bytes are shifted by the special tokens") {
  CHECK(Encode(ByteTokenizer(), std::string("\0a\xff", 3)) ==
        std::vector<std::int32_t>{4, 101, 259});
  CHECK(ByteTokenizer().vocab_size() == 260);
}

// --- models that nobody vouches for -------------------------------------------------------------

std::string Field(int number, std::string_view bytes) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  if (number >= 16)
    field = {static_cast<char>((number << 3 & 0x7f) | 0x82), static_cast<char>(number >> 4)};
  for (std::size_t size = bytes.size();; size >>= 7) {
    if (size < 0x80) {
      field += static_cast<char>(size);
      break;
    }
    field += static_cast<char>((size & 0x7f) | 0x80);
  }
  return field.append(bytes);
}

std::string Flag(int number, int value) {
  std::string field(1, static_cast<char>(number << 3));
  if (number >= 16)
    field = {static_cast<char>((number << 3 & 0x7f) | 0x80), static_cast<char>(number >> 4)};
  return field + static_cast<char>(value);
}

std::string Piece(std::string_view text, int type = 1) {
  return Field(1, Field(1, text) + Flag(3, type));
}

const std::string kSpecials = Piece("<unk>", 2) + Piece("<s>", 3) + Piece("</s>", 3);
// BPE with byte fallback; neither a prefix nor white space removed.
const std::string kTrainer = Field(2, Flag(3, 2) + Flag(35, 1));
const std::string kNormalizer = Field(3, Flag(3, 0) + Flag(4, 0));

std::string Refusal(const std::string& model) {
  try {
    ReadSentencePieceModel(model, "here");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST_CASE("models whose lengths would not add up or that are malformed are refused") {
  CHECK(Refusal(kSpecials + Piece("ab") + kTrainer + kNormalizer).empty());
  const auto with_piece = [](std::string_view piece) {
    return Refusal(kSpecials + Piece(piece) + kTrainer + kNormalizer);
  };
  CHECK(with_piece(std::string(512, 'a')).empty());
  CHECK(with_piece(std::string(513, 'a')) ==
        "here: SentencePiece model has a piece that is not UTF-8 of 1 to 512 bytes");
  CHECK(with_piece("").find("1 to 512 bytes") != std::string::npos);
  CHECK(with_piece("\xff").find("not UTF-8") != std::string::npos);
  CHECK(with_piece("\xe2\x96\x81to").empty());
  CHECK(with_piece("\xe2\x96\x81\xe2\x96\x81").empty());
  CHECK(with_piece("\n\n").empty());
  CHECK(with_piece("of\xe2\x96\x81the").find("joins words or lines") != std::string::npos);
  CHECK(with_piece(".\n").find("joins words or lines") != std::string::npos);
  CHECK(with_piece("\xe2\x96\x81\n").find("joins words or lines") != std::string::npos);

  const std::string pieces = kSpecials + Piece("ab");
  const auto with_trainer = [&](const std::string& fields) {
    return Refusal(pieces + Field(2, fields) + kNormalizer);
  };
  CHECK(with_trainer(Flag(3, 3) + Flag(35, 1)) ==
        "here: SentencePiece model is neither BPE nor unigram");
  CHECK(with_trainer(Flag(3, 2)).find("no byte fallback") != std::string::npos);
  CHECK(with_trainer(Flag(24, 1) + Flag(35, 1)).find("suffix") != std::string::npos);
  CHECK(with_trainer(Flag(35, 1) + Flag(42, 9)).find("end of a text") != std::string::npos);
  CHECK(with_trainer(Flag(35, 1) + Flag(41, 9)).find("out of range") != std::string::npos);

  const auto with_normalizer = [&](const std::string& fields) {
    return Refusal(pieces + kTrainer + Field(3, fields));
  };
  CHECK(with_normalizer(Flag(4, 1)).find("removes white space") != std::string::npos);
  CHECK(with_normalizer(Flag(4, 0) + Flag(5, 0)).find("escape") != std::string::npos);
  CHECK(with_normalizer(Flag(4, 0) + Field(2, "map")).find("precompiled map") != std::string::npos);
  CHECK(Refusal(pieces + kTrainer + kNormalizer + Field(5, Field(2, "map"))).find("decoded text") !=
        std::string::npos);
  CHECK(Refusal(kTrainer + kNormalizer) == "here: SentencePiece model has no pieces");

  const std::string whole(ShippedTokenizerModel());
  CHECK(Refusal(whole).empty());
  CHECK(Refusal(whole.substr(0, whole.size() / 2)).find("ends inside a field") !=
        std::string::npos);
  CHECK(Refusal(std::string(kMaxModelBytes + 1, '\0')).find("16 MiB") != std::string::npos);
  CHECK(Refusal(std::string(20, '\xff')).find("64 bits") != std::string::npos);
  CHECK(Refusal(R"({"version": "1.0", "model": {"type": "BPE"}})") ==
        "here: is JSON, as Hugging Face's tokenizer.json; only SentencePiece models are read "
        "(docs/DATA.md says which and how to train one)");
}

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content)
      : path_(std::string(std::getenv("TEST_TMPDIR")) + "/model") {
    std::ofstream(path_, std::ios::binary) << content;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("a user's model is loaded when it passes, and named by its hash") {
  const TemporaryFile file(ShippedTokenizerModel());
  const auto tokenizer = LoadTokenizer(file.path(), "/task/tokenizer_file");
  CHECK(tokenizer->name() == "file:a6fc312e5a9a4348");
  CHECK(Encode(*tokenizer, OddTexts()[5]) == Encode(*MakeShippedTokenizer(), OddTexts()[5]));
  CHECK_FALSE(tokenizer->begins_with_space());
}

TEST_CASE("a model that only the library finds wrong fails in the child process") {
  // Two unknown tokens: the scan lets them pass, the library does not.
  const TemporaryFile file(Piece("<unk>", 2) + Piece("<unk2>", 2) + Piece("</s>", 3) + kTrainer +
                           kNormalizer);
  CHECK_THROWS_WITH(
      LoadTokenizer(file.path(), "here"),
      "here: " + file.path() + ": SentencePiece fails on this model (tried in a child process)");
  CHECK_THROWS_WITH(LoadTokenizer("/no/such/file", "here"), "here: cannot read '/no/such/file'");
}

TEST_CASE("models that begin texts with a space do so for prompts alone") {
  // A later normalizer field overrides the earlier one.
  const TemporaryFile file(std::string(ShippedTokenizerModel()) + Field(3, Flag(3, 1)));
  const auto tokenizer = LoadTokenizer(file.path(), "here");
  CHECK(tokenizer->begins_with_space());
  CHECK(Encode(*tokenizer, "earth") == Encode(*MakeShippedTokenizer(), "earth"));
  CHECK(CountTokensAtStart(*tokenizer, "earth") == CountTokens(*tokenizer, " earth"));
  Draft draft;
  draft.AddText("earth");
  std::vector<std::int32_t> tokens;
  draft.AppendTokens(*tokenizer, tokens);
  CHECK(tokens == Encode(*tokenizer, " earth"));
}

}  // namespace
}  // namespace mixerbench::tasks
