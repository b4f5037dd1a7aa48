// What text tasks read, loaded when first needed and shared by the tasks of one registry entry:
// tokenizers, haystacks with their tokens, word lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tasks/text/haystack.h"
#include "tasks/text/text_options.h"
#include "tasks/text/tokenized_units.h"
#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

// Every method may be called from any thread; a file is read once.
class TextLibrary {
 public:
  // Throws Error(kBadInput) at `where` for a model that cannot be used.
  std::shared_ptr<const Tokenizer> tokenizer(const TextOptions& options, const std::string& where);

  // The shipped King James Bible: "kjv", "kjv_train" or "kjv_test".
  std::shared_ptr<const Haystack> shipped_haystack(HaystackPart part);
  // A user's file. Throws Error(kBadInput) at `where`.
  std::shared_ptr<const Haystack> haystack_file(const std::string& path, const std::string& where);

  // The sentences of a haystack of this library in a tokenizer of this library.
  std::shared_ptr<const TokenizedUnits> sentences(const Haystack& haystack,
                                                  const Tokenizer& tokenizer);

  // ShippedWords(name), and the same with a space before each in a tokenizer of this library.
  const std::vector<std::string>& words(std::string_view name);
  std::shared_ptr<const TokenizedUnits> word_units(std::string_view name,
                                                   const Tokenizer& tokenizer);

 private:
  std::shared_ptr<const TokenizedUnits> Units(const void* source,
                                              std::shared_ptr<const TextTable> texts,
                                              const Tokenizer& tokenizer);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers_;
  std::map<std::string, std::shared_ptr<const Haystack>> haystacks_;
  // By the haystack or word list they are made of.
  std::map<std::pair<const void*, const Tokenizer*>, std::shared_ptr<const TokenizedUnits>> units_;
  std::map<std::string, std::vector<std::string>, std::less<>> words_;
};

}  // namespace mixerbench::tasks
