// Responses of language models against references: the scores that publications use, each with its
// source. All are per sample; means and intervals are statistics (reports/).
//
// Case is ignored for ASCII letters where a source does so; texts are UTF-8 and otherwise compared
// byte by byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "tasks/text/text_task.h"

namespace mixerbench::tasks {

using References = std::vector<std::string>;

// RULER's post-processing: trimmed, control characters (0x00-0x1f) become newlines, trimmed again.
std::string CleanResponse(std::string_view response);

// Share of the references that `response` contains, ignoring case (RULER string_match_all). 0 when
// there are none.
double MatchAll(std::string_view response, const References& references);

// Whether the first piece of `response` that has the answer's form is one of the references,
// ignoring case. Unlike MatchAll it gives no credit for copying the context. Forms, with the first
// reference as the model: kNumber a maximal run of digits; kUuid 8-4-4-4-12 hexadecimal digits;
// kWord a maximal run of letters and hyphens with as many hyphens; kName a maximal run of capital
// letters of its length.
bool FirstMatch(std::string_view response, const References& references, AnswerType type);

// Whether `response` contains a distractor that no reference contains, ignoring case.
bool HasDistractor(std::string_view response, const References& references,
                   const std::vector<std::string>& distractors);

// RESONA's prefix score, 0..5: for each reference 5 * length / full length of its longest prefix
// that `response` contains, case-sensitive, at least `min_prefix` bytes; the mean over references.
// Single characters occur in nearly every text: report it with min_prefix 3 and its chance too.
double Prefix5(std::string_view response, const References& references,
               std::int64_t min_prefix = 1);

// What Prefix5 gives responses to other samples: the mean score of response i against the
// references of sample i + 1 (cyclic). Needs two samples and lists of equal size.
double Prefix5Chance(std::span<const std::string> responses, std::span<const References> references,
                     std::int64_t min_prefix = 1);

// Whether the first maximal run of digits is the number `reference`, which is decimal (landmark
// attention). Leading zeros do not count.
bool IntFirst(std::string_view response, std::string_view reference);

// Whether `response`, trimmed, starts with `reference` and goes on with neither letter nor digit.
bool ExactAnswer(std::string_view response, std::string_view reference);

// Whether the first generated tokens are those of the answer (LongLoRA).
bool TokenExact(std::span<const std::int32_t> generated, std::span<const std::int32_t> answer);

// One answer token, read with the answer before it as context (teacher forcing).
struct TokenLikelihood {
  double log_prob = 0;     // natural logarithm
  bool is_greedy = false;  // it was the most likely token
};

struct LikelihoodScore {
  bool exact = false;  // every token was the most likely one
  double nll = 0;      // mean of -log_prob over the tokens
};

// The form for models without decoding. Needs a token.
LikelihoodScore ScoreLikelihood(std::span<const TokenLikelihood> answer);

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::AnswerType> {
  using T = mixerbench::tasks::AnswerType;
  static constexpr std::array<std::pair<T, std::string_view>, 4> kNames = {
      {{T::kNumber, "number"}, {T::kWord, "word"}, {T::kUuid, "uuid"}, {T::kName, "name"}}};
};
