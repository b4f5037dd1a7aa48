// SPDX-License-Identifier: Apache-2.0
#include "tasks/scoring/answer_scores.h"

#include <algorithm>

#include "base/check.h"

namespace mixerbench::tasks {
namespace {

// The standard functions depend on the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLetter(char c) { return IsUpper(c) || (c >= 'a' && c <= 'z'); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (IsUpper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool Contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != text.npos;
}

// Maximal runs of characters that satisfy `is_part`, the first one that satisfies `fits`.
template <typename IsPart, typename Fits>
std::string_view FirstRun(std::string_view text, IsPart is_part, Fits fits) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_part(text[end])) ++end;
    if (end > begin && fits(text.substr(begin, end - begin))) {
      return text.substr(begin, end - begin);
    }
    begin = end + 1;
  }
  return {};
}

std::string_view FirstNumber(std::string_view text) {
  return FirstRun(text, IsDigit, [](std::string_view) { return true; });
}

bool IsUuid(std::string_view run) {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return std::equal(run.begin(), run.end(), kForm.begin(), kForm.end(),
                    [](char c, char form) { return form == '-' ? c == '-' : IsHex(c); });
}

// As many words as `model`, one space apart.
std::string_view FirstWords(std::string_view text, std::string_view model) {
  const auto num_spaces = std::count(model.begin(), model.end(), ' ');
  const auto cut = [&](std::string_view run) {
    std::size_t end = run.find(' ');
    for (std::ptrdiff_t i = 0; i < num_spaces && end != run.npos; ++i) end = run.find(' ', end + 1);
    return run.substr(0, end);
  };
  const std::string_view run = FirstRun(
      text, [](char c) { return IsLetter(c) || c == ' '; },
      [&](std::string_view part) {
        const std::string_view words = cut(Trim(part));
        return std::count(words.begin(), words.end(), ' ') == num_spaces;
      });
  return cut(Trim(run));
}

std::string_view FirstOfType(std::string_view text, AnswerType type, std::string_view model) {
  switch (type) {
    case AnswerType::kNumber:
      return FirstNumber(text);
    case AnswerType::kUuid:
      return FirstRun(
          text, [](char c) { return IsHex(c) || c == '-'; }, IsUuid);
    case AnswerType::kWord: {
      if (Contains(model, " ")) return FirstWords(text, model);
      const auto num_hyphens = std::count(model.begin(), model.end(), '-');
      return FirstRun(
          text, [](char c) { return IsLetter(c) || c == '-'; },
          [&](std::string_view run) {
            return std::count(run.begin(), run.end(), '-') == num_hyphens;
          });
    }
    case AnswerType::kName:
      return FirstRun(text, IsUpper,
                      [&](std::string_view run) { return run.size() == model.size(); });
  }
  Require(false, "an answer type without a form");
  return {};
}

std::string_view WithoutLeadingZeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

// Length of the longest prefix of `needle` in `text`, 0 when it is below `min_prefix`. Containing a
// prefix implies containing the shorter ones, so this may bisect.
std::size_t LongestPrefix(std::string_view text, std::string_view needle, std::size_t min_prefix) {
  std::size_t low = 0;
  std::size_t high = needle.size();
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (Contains(text, needle.substr(0, middle))) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low >= min_prefix ? low : 0;
}

}  // namespace

std::string CleanResponse(std::string_view response) {
  std::string text(Trim(response));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '\n';
  }
  return std::string(Trim(text));
}

double MatchAll(std::string_view response, const References& references) {
  if (references.empty()) return 0;
  const std::string lower = Lower(response);
  const auto num_found = std::count_if(
      references.begin(), references.end(),
      [&](const std::string& reference) { return Contains(lower, Lower(reference)); });
  return static_cast<double>(num_found) / static_cast<double>(references.size());
}

bool FirstMatch(std::string_view response, const References& references, AnswerType type) {
  if (references.empty()) return false;
  const std::string first = Lower(FirstOfType(response, type, references.front()));
  return !first.empty() &&
         std::any_of(references.begin(), references.end(),
                     [&](const std::string& reference) { return Lower(reference) == first; });
}

bool HasDistractor(std::string_view response, const References& references,
                   const std::vector<std::string>& distractors) {
  const std::string lower = Lower(response);
  return std::any_of(distractors.begin(), distractors.end(), [&](const std::string& distractor) {
    const std::string wrong = Lower(distractor);
    return Contains(lower, wrong) &&
           std::none_of(references.begin(), references.end(), [&](const std::string& reference) {
             return Contains(Lower(reference), wrong);
           });
  });
}

double Prefix5(std::string_view response, const References& references, std::int64_t min_prefix) {
  Require(min_prefix >= 1, "a prefix has a character");
  if (references.empty()) return 0;
  double sum = 0;
  for (const std::string& reference : references) {
    if (reference.empty()) continue;
    sum += 5 *
           static_cast<double>(
               LongestPrefix(response, reference, static_cast<std::size_t>(min_prefix))) /
           static_cast<double>(reference.size());
  }
  return sum / static_cast<double>(references.size());
}

double Prefix5Chance(std::span<const std::string> responses, std::span<const References> references,
                     std::int64_t min_prefix) {
  Require(responses.size() == references.size() && responses.size() >= 2,
          "chance needs two samples, each with a response");
  double sum = 0;
  for (std::size_t i = 0; i < responses.size(); ++i) {
    sum += Prefix5(responses[i], references[(i + 1) % references.size()], min_prefix);
  }
  return sum / static_cast<double>(responses.size());
}

bool IntFirst(std::string_view response, std::string_view reference) {
  const std::string_view number = FirstNumber(response);
  return !number.empty() && WithoutLeadingZeros(number) == WithoutLeadingZeros(reference);
}

bool ExactAnswer(std::string_view response, std::string_view reference) {
  const std::string_view text = Trim(response);
  if (!text.starts_with(reference)) return false;
  return text.size() == reference.size() ||
         (!IsLetter(text[reference.size()]) && !IsDigit(text[reference.size()]));
}

bool TokenExact(std::span<const std::int32_t> generated, std::span<const std::int32_t> answer) {
  return generated.size() >= answer.size() &&
         std::equal(answer.begin(), answer.end(), generated.begin());
}

LikelihoodScore ScoreLikelihood(std::span<const TokenLikelihood> answer) {
  Require(!answer.empty(), "an answer has a token");
  LikelihoodScore score{.exact = true};
  for (const TokenLikelihood& token : answer) {
    score.exact = score.exact && token.is_greedy;
    score.nll -= token.log_prob / static_cast<double>(answer.size());
  }
  return score;
}

}  // namespace mixerbench::tasks
