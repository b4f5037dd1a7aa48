// From text to token ids and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::tasks {

// Immutable; every method may be called from any thread.
//
// Encoding is additive at word borders: the tokens of a text are those of "s0", " s1", " s2", ...,
// one after the other, wherever the cuts before spaces are, and a newline is a border on both
// sides. So the length of a text is the sum of its parts' lengths, each encoded once. A tokenizer
// that does not have this property is refused when it is loaded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "sqtok", "bytes", or "file:" and the first 16 hex digits of the model's SHA-256.
  virtual std::string_view name() const = 0;
  virtual std::int64_t vocab_size() const = 0;

  virtual std::int32_t bos_id() const = 0;
  virtual std::int32_t eos_id() const = 0;
  virtual std::int32_t pad_id() const = 0;

  // Whether the model was trained to see a space before the first word of a text. A prompt is then
  // encoded as if it began with one.
  virtual bool begins_with_space() const { return false; }

  // Appends the tokens of `text`, UTF-8, without BOS and EOS. Each token stands for one byte or
  // more, so there are at most text.size() of them.
  virtual void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;

  // The text of the tokens; BOS, EOS and padding give nothing.
  virtual std::string Decode(std::span<const std::int32_t> tokens) const = 0;
};

}  // namespace mixerbench::tasks
