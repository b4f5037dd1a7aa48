// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/text_library.h"

#include "base/sha256.h"
#include "tasks/text/byte_tokenizer.h"
#include "tasks/text/read_file.h"
#include "tasks/text/sentencepiece_tokenizer.h"
#include "tasks/text/shipped_text.h"

namespace mixerbench::tasks {
namespace {

std::unique_ptr<Tokenizer> Make(const TextOptions& options, const std::string& where) {
  switch (options.tokenizer) {
    case TokenizerKind::kSqtok:
      return MakeShippedTokenizer();
    case TokenizerKind::kBytes:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::kFile:
      break;
  }
  return LoadTokenizer(options.tokenizer_file, where);
}

std::string_view ShippedName(HaystackPart part) {
  switch (part) {
    case HaystackPart::kTrain:
      return "kjv_train";
    case HaystackPart::kTest:
      return "kjv_test";
    case HaystackPart::kAll:
      break;
  }
  return "kjv";
}

}  // namespace

std::shared_ptr<const Tokenizer> TextLibrary::tokenizer(const TextOptions& options,
                                                        const std::string& where) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& tokenizer =
      tokenizers_[std::string(NameOf(options.tokenizer)) + " " + options.tokenizer_file];
  if (!tokenizer) tokenizer = Make(options, where);
  return tokenizer;
}

std::shared_ptr<const Haystack> TextLibrary::shipped_haystack(HaystackPart part) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string name(ShippedName(part));
  auto& haystack = haystacks_[name];
  if (!haystack) haystack = std::make_shared<Haystack>(name, ShippedHaystack(), part, name);
  return haystack;
}

std::shared_ptr<const Haystack> TextLibrary::haystack_file(const std::string& path,
                                                           const std::string& where) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& haystack = haystacks_["file " + path];
  if (!haystack) {
    const std::string bytes = ReadTextFile(path, kMaxHaystackBytes, where);
    const std::string_view text = WithoutByteOrderMark(bytes);
    haystack = std::make_shared<Haystack>("file:" + Sha256Hex(text).substr(0, 16), text,
                                          HaystackPart::kAll, where + ": '" + path + "'");
  }
  return haystack;
}

std::shared_ptr<const TokenizedUnits> TextLibrary::Units(const void* source,
                                                         std::shared_ptr<const TextTable> texts,
                                                         const Tokenizer& tokenizer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& units = units_[{source, &tokenizer}];
  if (!units) units = std::make_shared<TokenizedUnits>(std::move(texts), ' ', tokenizer);
  return units;
}

std::shared_ptr<const TokenizedUnits> TextLibrary::sentences(const Haystack& haystack,
                                                             const Tokenizer& tokenizer) {
  return Units(&haystack, haystack.sentences(), tokenizer);
}

std::shared_ptr<const TokenizedUnits> TextLibrary::word_units(std::string_view name,
                                                              const Tokenizer& tokenizer) {
  const std::vector<std::string>& list = words(name);
  return Units(&list, std::make_shared<const TextTable>(list), tokenizer);
}

const std::vector<std::string>& TextLibrary::words(std::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = words_.find(name);
  if (found != words_.end()) return found->second;
  return words_.emplace(name, ShippedWords(name)).first->second;
}

}  // namespace mixerbench::tasks
