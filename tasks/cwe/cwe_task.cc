// SPDX-License-Identifier: Apache-2.0
#include "tasks/cwe/cwe_task.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/text/lists.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::cwe {
namespace {

constexpr std::uint32_t kWordStream = 40, kOrderStream = 41, kExampleWordStream = 42,
                        kExampleOrderStream = 43;
// The draws of one attempt at a sample's words lie so far apart: more than there are words.
constexpr std::uint32_t kAttemptStride = 1u << 15, kMaxAttempts = 1u << 16;
constexpr std::int64_t kReferenceGenTokens = 120;
constexpr std::int64_t kLongLength = 4096;  // from here on RULER uses larger lists

constexpr std::string_view kHead =
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n";
constexpr std::string_view kQuestion = "\nQuestion: What are the ";
constexpr std::string_view kQuestionEnd = " most common words in the above list?";

std::string QuestionText(std::int64_t num_cw) {
  return std::string(kQuestion) + std::to_string(num_cw) + std::string(kQuestionEnd);
}

std::string AnswerPrefix(std::int64_t num_cw) {
  return " Answer: The top " + std::to_string(num_cw) +
         " words that appear most often in the list are:";
}

// "1. abide 2. zoning"
std::string Numbered(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i > 0 ? " " : "") + std::to_string(i + 1) + ". " + items[i];
  }
  return text;
}

// The list: every word as often as it is to appear, shuffled.
std::vector<std::uint32_t> ListedWords(const SampleStream& stream, std::uint32_t order_stream,
                                       const std::vector<std::uint32_t>& words, std::int64_t num_cw,
                                       std::int64_t freq_cw, std::int64_t freq_ucw) {
  std::vector<std::uint32_t> repeated;
  for (std::size_t w = 0; w < words.size(); ++w) {
    const bool is_common = static_cast<std::int64_t>(w) < num_cw;
    repeated.insert(repeated.end(), static_cast<std::size_t>(is_common ? freq_cw : freq_ucw),
                    words[w]);
  }
  const auto size = static_cast<std::uint32_t>(repeated.size());
  std::vector<std::uint32_t> listed;
  for (const std::uint32_t i : PickVector(stream, order_stream, size, size)) {
    listed.push_back(repeated[i]);
  }
  return listed;
}

// The `num_cw` words that `items` holds most often, in the order they first appear.
std::vector<std::string> CommonWords(const std::vector<std::string>& items, std::int64_t num_cw) {
  std::map<std::string_view, std::int64_t> counts;
  std::vector<std::string_view> words;  // as they appear
  for (const std::string& item : items) {
    if (++counts[item] == 1) words.push_back(item);
  }
  std::vector<std::int64_t> sorted;
  for (const auto& [word, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  const auto last = static_cast<std::size_t>(num_cw - 1);
  const std::int64_t least = last < sorted.size() ? sorted[last] : 0;
  std::vector<std::string> common;
  for (const std::string_view word : words) {
    if (counts[word] >= least) common.emplace_back(word);
  }
  return common;
}

}  // namespace

CweTask::CweTask(const CweParams& params, std::shared_ptr<TextLibrary> library,
                 std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer), kReferenceGenTokens),
      params_(params),
      library_(std::move(library)),
      words_(library_->words("cwe_words")),
      word_units_(library_->word_units("cwe_words", this->tokenizer())) {}

std::string CweTask::canon() const {
  return Canon("cwe")
      .Integer("freq_cw", params_.freq_cw)
      .Integer("freq_ucw", params_.freq_ucw)
      .Integer("num_cw", params_.num_cw)
      .Text();
}

std::vector<std::uint32_t> CweTask::DrawWords(const SampleStream& stream, std::uint32_t attempt,
                                              std::int64_t count) const {
  return PickVector(stream, kWordStream, static_cast<std::uint32_t>(words_.size()),
                    static_cast<std::uint32_t>(count), attempt * kAttemptStride);
}

std::string CweTask::ListCommon(const std::vector<std::uint32_t>& words) const {
  std::vector<std::string> common;
  for (std::int64_t w = 0; w < params_.num_cw; ++w) {
    common.push_back(words_[words[static_cast<std::size_t>(w)]]);
  }
  return " " + Numbered(common);
}

std::vector<std::uint32_t> CweTask::FitWords(const SampleStream& stream, std::uint32_t attempt,
                                             std::int64_t budget) const {
  // A word takes a token or more, so no more than `budget` of them can fit.
  const std::int64_t most = std::min<std::int64_t>(
      params_.num_cw + std::max<std::int64_t>(budget, 0) / params_.freq_ucw, std::ssize(words_));
  std::vector<std::uint32_t> drawn = DrawWords(stream, attempt, most);
  std::int64_t used = CountTokens(tokenizer(), "1.") - CountTokens(tokenizer(), " 1.");
  std::int64_t num_items = 0;
  std::size_t num_words = 0;
  for (; num_words < drawn.size(); ++num_words) {
    const bool is_common = static_cast<std::int64_t>(num_words) < params_.num_cw;
    const std::int64_t times = is_common ? params_.freq_cw : params_.freq_ucw;
    std::int64_t next = used + times * word_units_->num_tokens(drawn[num_words], true);
    for (std::int64_t i = 1; i <= times; ++i) {
      next += CountTokens(tokenizer(), " " + std::to_string(num_items + i) + ".");
    }
    if (next > budget) break;
    used = next;
    num_items += times;
  }
  drawn.resize(num_words);
  return drawn;
}

std::string CweTask::Example(const SampleStream& stream) const {
  const bool is_long = params_.input_seq_len >= kLongLength;
  const std::uint32_t num_words = static_cast<std::uint32_t>(params_.num_cw) + (is_long ? 30 : 10);
  const std::vector<std::uint32_t> drawn =
      PickVector(stream, kExampleWordStream, static_cast<std::uint32_t>(words_.size()), num_words);
  std::vector<std::string> items;
  for (const std::uint32_t word : ListedWords(stream, kExampleOrderStream, drawn, params_.num_cw,
                                              is_long ? 10 : 3, is_long ? 3 : 1)) {
    items.push_back(words_[word]);
  }
  return std::string(kHead) + Numbered(items) + QuestionText(params_.num_cw) +
         AnswerPrefix(params_.num_cw) + " " + Numbered(CommonWords(items, params_.num_cw)) + "\n";
}

Composition CweTask::Compose(const SampleStream& stream) const {
  Composition composed;
  const std::string head = (params_.example ? Example(stream) : "") + std::string(kHead);
  const std::string question = QuestionText(params_.num_cw);
  composed.answer_prefix = AnswerPrefix(params_.num_cw);
  const std::int64_t frame = (params_.bos ? 1 : 0) + CountTokensAtStart(tokenizer(), head) +
                             CountTokens(tokenizer(), question + composed.answer_prefix);
  std::vector<std::uint32_t> drawn;
  for (std::uint32_t attempt = 0; std::ssize(drawn) <= params_.num_cw; ++attempt) {
    Require(attempt < kMaxAttempts, "words of average length fit");
    const std::string answer = ListCommon(DrawWords(stream, attempt, params_.num_cw));
    drawn = FitWords(stream, attempt, prompt_budget(answer) - frame);
  }
  for (std::int64_t w = 0; w < params_.num_cw; ++w) {
    composed.references.push_back(words_[drawn[static_cast<std::size_t>(w)]]);
  }
  composed.prompt.AddText(head);
  std::vector<std::string> items;
  for (const std::uint32_t word : ListedWords(stream, kOrderStream, drawn, params_.num_cw,
                                              params_.freq_cw, params_.freq_ucw)) {
    items.push_back(words_[word]);
    composed.prompt.AddText((items.size() > 1 ? " " : "") + std::to_string(items.size()) + ".");
    composed.prompt.AddUnit(*word_units_, word, true);
  }
  composed.prompt.AddText(question);
  composed.answer = " " + Numbered(CommonWords(items, params_.num_cw));
  composed.metadata = {{"num_words", std::ssize(drawn)}, {"num_units", std::ssize(items)}};
  return composed;
}

std::string CweTask::DrawAnswer(const SampleStream& stream) const {
  return ListCommon(DrawWords(stream, 0, params_.num_cw));
}

std::string CweTask::Answer(std::string_view prompt) const {
  const std::size_t head = prompt.rfind(kHead);
  const std::size_t question = prompt.rfind(kQuestion);
  if (head == std::string_view::npos || question == std::string_view::npos) return "";
  const std::size_t begin = head + kHead.size();
  std::vector<std::string> items;
  // "1." and its word in turn.
  for (const std::string& piece : Split(prompt.substr(begin, question - begin), ' ')) {
    if (!piece.ends_with('.')) items.push_back(piece);
  }
  std::int64_t num_cw = 0;
  const char* const number = prompt.data() + question + kQuestion.size();
  std::from_chars(number, prompt.data() + prompt.size(), num_cw);
  return num_cw < 1 ? "" : " " + Numbered(CommonWords(items, num_cw));
}

std::int64_t CweTask::max_answer_bytes() const {
  constexpr std::int64_t kWord = 8;
  std::int64_t numbers = 0;
  for (std::int64_t i = 1; i <= params_.num_cw; ++i) {
    numbers += std::ssize(" " + std::to_string(i) + ". ");
  }
  return numbers + params_.num_cw * kWord;
}

std::int64_t CweTask::MinInputSeqLen() const {
  std::int64_t word_tokens = 0;
  for (std::uint32_t w = 0; w < word_units_->size(); ++w) {
    word_tokens += word_units_->num_tokens(w, true);
  }
  const double mean = static_cast<double>(word_tokens) / word_units_->size();
  const auto list = [&](std::int64_t num_items) {
    std::int64_t tokens =
        static_cast<std::int64_t>(std::ceil(mean * static_cast<double>(num_items)));
    for (std::int64_t i = 1; i <= num_items; ++i) {
      tokens += CountTokens(tokenizer(), " " + std::to_string(i) + ".");
    }
    return tokens;
  };
  const std::int64_t frame =
      CountTokensAtStart(tokenizer(), kHead) +
      CountTokens(tokenizer(), QuestionText(params_.num_cw) + AnswerPrefix(params_.num_cw));
  const bool is_long = params_.input_seq_len >= kLongLength;
  std::int64_t example = 0;
  if (params_.example) {
    example = frame + 1 + list(params_.num_cw) +
              (is_long ? list(10 * params_.num_cw + 3 * 30) : list(3 * params_.num_cw + 10));
  }
  return (params_.bos ? 1 : 0) + example + frame +
         list(params_.freq_cw * params_.num_cw + params_.freq_ucw) +
         NewTokens(list(params_.num_cw));
}

}  // namespace mixerbench::tasks::cwe
