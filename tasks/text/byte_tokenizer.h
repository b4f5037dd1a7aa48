// One token a byte: text tasks without a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

// Four special tokens, then byte b is token 4 + b: the ids that byte fallback has in sqtok.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "bytes"; }
  std::int64_t vocab_size() const override { return kFirstByte + 256; }
  std::int32_t bos_id() const override { return 1; }
  std::int32_t eos_id() const override { return 2; }
  std::int32_t pad_id() const override { return 3; }

  void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const override {
    for (const char c : text) tokens.push_back(kFirstByte + static_cast<unsigned char>(c));
  }
  std::string Decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token >= kFirstByte) text += static_cast<char>(token - kFirstByte);
    }
    return text;
  }

 private:
  static constexpr std::int32_t kFirstByte = 4;
};

}  // namespace mixerbench::tasks
