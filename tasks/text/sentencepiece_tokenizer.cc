// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/sentencepiece_tokenizer.h"

#include <cerrno>
#include <mutex>
#include <optional>
#include <sentencepiece_processor.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/sha256.h"
#include "tasks/text/read_file.h"
#include "tasks/text/sentencepiece_model.h"
#include "tasks/text/shipped_text.h"

// libsentencepiece and libc10 both export a FLAGS_minloglevel, of 32 bytes in the one and of 4 in
// the other. Whichever is found first serves both, and where that is libc10's, sentencepiece writes
// over what lies behind it when it is loaded: a mutex of libc10, on which torch.jit.script then
// hangs for ever. This one is found before either and holds both; libc10 does not read its own.
// NOLINTNEXTLINE(readability-identifier-naming)
alignas(16) __attribute__((visibility("default"), used)) char FLAGS_minloglevel[64] = {};

namespace mixerbench::tasks {
namespace {

// Entries of the word cache; a long word or one more than these goes to the library each time.
constexpr std::size_t kMaxCachedWords = 1 << 17;
constexpr std::size_t kMaxCachedWordBytes = 32;

// normalizer_spec { add_dummy_prefix: false }: appended to a serialised model, it overrides that
// field, since the parser merges repeated messages. The space is added where a prompt begins.
constexpr std::string_view kNoDummyPrefix("\x1a\x02\x18\x00", 4);

std::string LoadableBytes(std::string_view bytes) {
  return std::string(bytes).append(kNoDummyPrefix);
}

// Texts that reach most of an encoder: words, digits, bytes without a piece, runs of spaces.
constexpr std::string_view kTrialTexts[] = {"One of the special magic numbers is: 8434177.",
                                            "  two  spaces\n\n\ttab", "\xc3\xa9\xf0\x9f\x98\x80",
                                            ""};

// Whether a child process can load and use the model. What goes wrong in it ends with it. Forking
// without exec is safe beside other threads here: the child allocates memory, which the C library
// allows, and takes no lock of this program.
bool LoadsInChild(std::string_view bytes) {
  constexpr unsigned kSeconds = 20;
  const std::string loadable = LoadableBytes(bytes);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    sentencepiece::SentencePieceProcessor processor;
    bool is_good = processor.LoadFromSerializedProto(loadable).ok();
    for (const std::string_view text : kTrialTexts) {
      std::vector<int> ids;
      is_good = is_good && processor.Encode(text, &ids).ok();
    }
    _exit(is_good ? 0 : 1);
  }
  if (child < 0) throw Error(ExitCode::kEnvironment, "cannot start a process to try the model in");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// "<0x41>" to its byte.
std::optional<char> ByteOf(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const std::size_t digit = std::string_view("0123456789ABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = 16 * value + static_cast<int>(digit);
  }
  return static_cast<char>(value);
}

// The text that a piece stands for.
std::string TextOf(const ModelPiece& piece, const std::string& where) {
  if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown) return "";
  if (piece.type == PieceType::kByte) {
    const std::optional<char> byte = ByteOf(piece.text);
    if (!byte) {
      throw Error(ExitCode::kBadInput,
                  where + ": SentencePiece model has the byte piece '" + piece.text + "'");
    }
    return {*byte};
  }
  std::string text = piece.text;
  for (std::size_t at = 0; (at = text.find(kSpacePiece, at)) != std::string::npos; ++at) {
    text.replace(at, kSpacePiece.size(), " ");
  }
  return text;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string name, std::string_view bytes,
                                               const std::string& where)
    : name_(std::move(name)),
      processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const SentencePieceModel model = ReadSentencePieceModel(bytes, where);
  bos_id_ = model.bos_id;
  eos_id_ = model.eos_id;
  pad_id_ = model.pad_id;
  begins_with_space_ = model.add_dummy_prefix;
  is_alone_.fill(true);
  for (std::size_t c = 0x80; c < 256; ++c) is_alone_[c] = false;  // parts of longer characters
  is_alone_[' '] = false;
  for (const ModelPiece& piece : model.pieces) {
    pieces_.push_back(TextOf(piece, where));
    if (piece.type == PieceType::kByte || pieces_.back().size() == 1) continue;
    for (const char c : pieces_.back()) is_alone_[static_cast<unsigned char>(c)] = false;
  }
  is_alone_['\n'] = true;  // runs of newlines aside, see IsBorder
  if (!processor_->LoadFromSerializedProto(LoadableBytes(bytes)).ok()) {
    throw Error(ExitCode::kBadInput, where + ": SentencePiece refuses the model");
  }
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

bool SentencePieceTokenizer::IsBorder(std::string_view text, std::size_t position) const {
  const char before = text[position - 1];
  const char after = text[position];
  if (before == after && (after == '\n' || after == ' ')) return false;
  return after == ' ' || is_alone_[static_cast<unsigned char>(before)] ||
         is_alone_[static_cast<unsigned char>(after)];
}

std::vector<std::int32_t> SentencePieceTokenizer::EncodeWord(std::string_view word) const {
  std::vector<int> ids;
  Require(processor_->Encode(word, &ids).ok(), "a loaded model encodes every text");
  return {ids.begin(), ids.end()};
}

void SentencePieceTokenizer::Encode(std::string_view text,
                                    std::vector<std::int32_t>& tokens) const {
  std::shared_lock<std::shared_mutex> reading(mutex_);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && !IsBorder(text, end)) ++end;
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    const auto found = words_.find(word);
    if (found != words_.end()) {
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
      continue;
    }
    reading.unlock();
    const std::vector<std::int32_t> ids = EncodeWord(word);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    if (word.size() <= kMaxCachedWordBytes) {
      const std::unique_lock<std::shared_mutex> writing(mutex_);
      if (words_.size() < kMaxCachedWords) words_.emplace(word, ids);
    }
    reading.lock();
  }
}

std::string SentencePieceTokenizer::Decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) text += pieces_.at(static_cast<std::size_t>(token));
  return text;
}

std::unique_ptr<Tokenizer> MakeShippedTokenizer() {
  return std::make_unique<SentencePieceTokenizer>("sqtok", ShippedTokenizerModel(), "sqtok");
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path, const std::string& where) {
  const std::string bytes = ReadTextFile(path, kMaxModelBytes, where);
  ReadSentencePieceModel(bytes, where + ": " + path);
  if (!LoadsInChild(bytes)) {
    throw Error(
        ExitCode::kBadInput,
        where + ": " + path + ": SentencePiece fails on this model (tried in a child process)");
  }
  return std::make_unique<SentencePieceTokenizer>("file:" + Sha256Hex(bytes).substr(0, 16), bytes,
                                                  where + ": " + path);
}

}  // namespace mixerbench::tasks
