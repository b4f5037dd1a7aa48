// Running text that needles are hidden in: sentences, in paragraphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text/text_table.h"

namespace mixerbench::tasks {

// Which part of a haystack: `kTrain` has the paragraphs whose index modulo 10 is not 9, `kTest` the
// rest, so that no sentence is in both.
enum class HaystackPart { kAll, kTrain, kTest };

class Haystack {
 public:
  // `text`: one sentence a line, an empty line between paragraphs. Lines lose white space at both
  // ends. Throws Error(kBadInput) at `where` when there is no sentence, one is no sentence by its
  // size, or the text is not UTF-8.
  Haystack(std::string name, std::string_view text, HaystackPart part, const std::string& where);

  // "kjv", "kjv_train", "file:0123456789abcdef": enters the sampling key.
  const std::string& name() const { return name_; }

  std::uint32_t num_sentences() const { return sentences_->size(); }
  std::string_view sentence(std::uint32_t index) const { return (*sentences_)[index]; }
  const std::shared_ptr<const TextTable>& sentences() const { return sentences_; }

  // Paragraph p has the sentences paragraph_begin(p) .. paragraph_begin(p+1)-1.
  std::uint32_t num_paragraphs() const {
    return static_cast<std::uint32_t>(paragraph_begins_.size() - 1);
  }
  std::uint32_t paragraph_begin(std::uint32_t paragraph) const {
    return paragraph_begins_[paragraph];
  }

 private:
  std::string name_;
  std::shared_ptr<const TextTable> sentences_;
  std::vector<std::uint32_t> paragraph_begins_;  // and the end
};

// Limits on a user's haystack. With them the text, its sentences and their tokens stay below 1 GiB,
// whatever the tokenizer and however short the lines.
inline constexpr std::size_t kMaxHaystackBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxSentenceBytes = std::size_t{64} << 10;

// A file's text without the mark that some editors put before UTF-8.
std::string_view WithoutByteOrderMark(std::string_view text);

}  // namespace mixerbench::tasks
