// A SentencePiece model as a Tokenizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tasks/text/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace mixerbench::tasks {

// The model the program carries.
std::unique_ptr<Tokenizer> MakeShippedTokenizer();

// The model in a file, which nobody vouches for: its bytes are checked first
// (sentencepiece_model.h), then the library loads it in a child process, and only what that
// survives is loaded here. Throws Error(kBadInput) at `where`.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path, const std::string& where);

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // `bytes`: a model that ReadSentencePieceModel accepts.
  SentencePieceTokenizer(std::string name, std::string_view bytes, const std::string& where);
  ~SentencePieceTokenizer() override;
  SentencePieceTokenizer(const SentencePieceTokenizer&) = delete;
  SentencePieceTokenizer& operator=(const SentencePieceTokenizer&) = delete;

  std::string_view name() const override { return name_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  std::int32_t bos_id() const override { return bos_id_; }
  std::int32_t eos_id() const override { return eos_id_; }
  std::int32_t pad_id() const override { return pad_id_; }
  bool begins_with_space() const override { return begins_with_space_; }
  void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  std::string Decode(std::span<const std::int32_t> tokens) const override;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  // Whether no piece can reach from before `position` to after it.
  bool IsBorder(std::string_view text, std::size_t position) const;
  std::vector<std::int32_t> EncodeWord(std::string_view word) const;

  std::string name_;
  std::vector<std::string> pieces_;  // text by id; empty for special tokens
  std::int32_t bos_id_ = 0;
  std::int32_t eos_id_ = 0;
  std::int32_t pad_id_ = 0;
  bool begins_with_space_ = false;
  // Characters that no piece holds beside others: a border on both sides.
  std::array<bool, 256> is_alone_{};
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;

  // Words seen before: texts repeat theirs, and the library takes microseconds for each. A cache
  // of a pure function, so it changes no result.
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<std::int32_t>, Hash, std::equal_to<>> words_;
};

}  // namespace mixerbench::tasks
