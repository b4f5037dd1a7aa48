// Options that all text tasks have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "tasks/rules.h"

namespace mixerbench::tasks {

enum class TokenizerKind { kSqtok, kBytes, kFile };

// How many tokens are left for the response.
enum class GenTokens {
  kReference,  // what the published protocol allows
  kAnswer,     // the answer and eight more
};

// None of these enters the sampling key, so that prompts of all lengths have the same needles
// (passkey's length does: passkey.md says why).
struct TextOptions {
  std::int64_t input_seq_len = 1024;  // prompt, answer prefix, BOS and the response together
  TokenizerKind tokenizer = TokenizerKind::kSqtok;
  std::string tokenizer_file;  // of kFile
  bool bos = false;
  GenTokens gen = GenTokens::kReference;
};

// Adds the fields above to those of a struct derived from TextOptions.
template <typename Params>
Fields<Params>& AddTextFields(Fields<Params>& fields) {
  fields.template Add<std::int64_t>(
      "input_seq_len", &Params::input_seq_len,
      "length in tokens: prompt, answer prefix, BOS and the response together");
  fields.template Add<TokenizerKind>(
      "tokenizer", &Params::tokenizer,
      "sqtok: the shipped SentencePiece model; bytes: one token a byte; file: tokenizer_file");
  fields.template Add<std::string>("tokenizer_file", &Params::tokenizer_file,
                                   "SentencePiece model, for tokenizer file");
  fields.template Add<bool>("bos", &Params::bos, "begin the prompt with the BOS token");
  fields.template Add<GenTokens>(
      "gen", &Params::gen,
      "tokens left for the response: reference, of the published protocol; answer, 8 more than it");
  return fields;
}

inline std::vector<std::string> TextPresentationParams() {
  return {"input_seq_len", "tokenizer", "tokenizer_file", "bos", "gen"};
}

// The rules that every text task has.
inline void CheckTextOptions(const TextOptions& options, const Rules& rules) {
  rules.SequenceLength({{"input_seq_len", options.input_seq_len}});
  const bool is_file = options.tokenizer == TokenizerKind::kFile;
  rules.Must(is_file != options.tokenizer_file.empty(),
             "tokenizer_file must be given with tokenizer file, and only then", {});
}

// The rule that every sample fits: `minimum` tokens hold any with the least context.
inline void CheckFits(std::string_view task, const std::string& where, std::int64_t input_seq_len,
                      std::int64_t minimum) {
  Rules(task, where)
      .Must(input_seq_len >= minimum,
            "input_seq_len too small: needs at least " + std::to_string(minimum) + " tokens",
            {{"input_seq_len", input_seq_len}});
}

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::TokenizerKind> {
  using Kind = tasks::TokenizerKind;
  static constexpr std::pair<Kind, std::string_view> kNames[] = {
      {Kind::kSqtok, "sqtok"}, {Kind::kBytes, "bytes"}, {Kind::kFile, "file"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::GenTokens> {
  using Gen = tasks::GenTokens;
  static constexpr std::pair<Gen, std::string_view> kNames[] = {{Gen::kReference, "reference"},
                                                                {Gen::kAnswer, "answer"}};
};
