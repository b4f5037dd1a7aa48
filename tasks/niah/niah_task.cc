// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah_task.h"

#include <algorithm>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/text/haystack_fill.h"
#include "tasks/text/lists.h"
#include "tasks/text/noise_text.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::niah {
namespace {

constexpr std::uint32_t kNeedleOrderStream = 19, kQueryStream = 20;
// RULER's tokens for a response.
constexpr std::int64_t kReferenceGenTokens = 128;

}  // namespace

NiahTask::NiahTask(const NiahParams& params, std::shared_ptr<TextLibrary> library,
                   std::shared_ptr<const Haystack> haystack,
                   std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer), kReferenceGenTokens),
      params_(params),
      library_(std::move(library)),
      words_{library_->words("adj"), library_->words("noun")},
      haystack_(std::move(haystack)),
      noise_(kNoiseLine, '\n', this->tokenizer()) {}

NeedleCounts NiahTask::counts() const {
  return {.key_type = params_.type_needle_k,
          .value_type = params_.type_needle_v,
          .num_keys = params_.num_needle_k,
          .num_values = params_.num_needle_v,
          .phrase = {params_.phrase_words, params_.phrase_sep}};
}

std::string NiahTask::canon() const {
  const std::string haystack =
      haystack_ ? haystack_->name() : std::string(NameOf(params_.type_haystack));
  return Canon("niah")
      .Word("haystack", haystack)
      .Word("k_type", NameOf(params_.type_needle_k))
      .Integer("num_k", params_.num_needle_k)
      .Integer("num_q", params_.num_needle_q)
      .Integer("num_v", params_.num_needle_v)
      .Word("v_type", NameOf(params_.type_needle_v))
      .Text();
}

NiahTask::Sample NiahTask::DrawSample(const SampleStream& stream) const {
  Sample sample;
  sample.drawn = DrawNeedles(words_, stream, counts());
  sample.queried =
      PickVector(stream, kQueryStream, static_cast<std::uint32_t>(params_.num_needle_k),
                 static_cast<std::uint32_t>(params_.num_needle_q));
  const auto n = static_cast<std::uint32_t>(num_needles());
  sample.appearance = PickVector(stream, kNeedleOrderStream, n, n);
  // RULER gives lines to needles from the last line to the first.
  if (!haystack_) std::reverse(sample.appearance.begin(), sample.appearance.end());

  std::vector<std::string> keys, values;
  for (const std::uint32_t q : sample.queried) {
    keys.push_back(sample.drawn.keys[q]);
    for (const std::uint32_t i : sample.appearance) {
      const Needle& needle = sample.drawn.needles[i];
      if (needle.key == std::int64_t{q}) values.push_back(needle.value);
    }
  }
  sample.question = {params_.type_needle_v, values.size() > 1, WriteList(keys)};
  sample.answer = " " + WriteList(values);
  return sample;
}

Composition NiahTask::Compose(const SampleStream& stream) const {
  const Sample sample = DrawSample(stream);
  Context context = haystack_ ? FillSentences(stream, sample) : FillLines(stream, sample);
  Composition composed;
  composed.answer_prefix = AnswerPrefix(sample.question);
  composed.answer = sample.answer;
  composed.distractors = std::move(context.distractors);
  const std::vector<std::int64_t> tokens_before = LayOut(sample, context, composed.prompt);
  const auto num_tokens =
      static_cast<double>(tokens_before.back() + CountTokens(tokenizer(), composed.answer_prefix));

  // References in the order of the draws; where they stand, in the order of the text.
  Array keys, needle_units, token_depths;
  for (const std::uint32_t q : sample.queried) {
    keys.emplace_back(sample.drawn.keys[q]);
    for (const Needle& needle : sample.drawn.needles) {
      if (needle.key == std::int64_t{q}) composed.references.push_back(needle.value);
    }
  }
  for (std::size_t j = 0; j < sample.appearance.size(); ++j) {
    const Needle& needle = sample.drawn.needles[sample.appearance[j]];
    if (std::count(composed.references.begin(), composed.references.end(), needle.value) == 0) {
      composed.distractors.push_back(needle.value);
      continue;
    }
    needle_units.emplace_back(context.needle_units[j]);
    token_depths.emplace_back(static_cast<double>(tokens_before[j]) / num_tokens);
  }
  composed.metadata = {{"keys", std::move(keys)},
                       {"num_units", std::ssize(context.units)},
                       {"needle_units", std::move(needle_units)},
                       {"depth", 100 * token_depths.front().as_double()},
                       {"token_depths", std::move(token_depths)}};
  return composed;
}

std::string NiahTask::DrawAnswer(const SampleStream& stream) const {
  return DrawSample(stream).answer;
}

std::string NiahTask::Answer(std::string_view prompt) const {
  const auto read = ReadPrompt(prompt);
  if (!read) return "";
  const std::string_view context = prompt.substr(0, read->begin);
  std::vector<std::string> values;
  for (const std::string& key : read->keys) {
    std::string opening = NeedleSentence(read->question.value_type, key, "");
    opening.pop_back();
    for (std::size_t at = context.find(opening); at != std::string_view::npos;
         at = context.find(opening, at + 1)) {
      const std::size_t begin = at + opening.size();
      values.emplace_back(context.substr(begin, context.find('.', begin) - begin));
    }
  }
  return values.empty() ? "" : " " + WriteList(values);
}

void NiahTask::SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const {
  const auto read = ReadPrompt(prompt);
  Require(read.has_value(), "prompts ask a question");
  const std::string opening = NeedleSentence(read->question.value_type, read->keys.front(), "");
  const std::size_t at = prompt.find(opening.substr(0, opening.size() - 1));
  buckets[0] = DecileBucket(static_cast<std::int64_t>(at), std::ssize(prompt));
}

AnswerType NiahTask::answer_type() const {
  switch (params_.type_needle_v) {
    case NeedleType::kNumbers:
      return AnswerType::kNumber;
    case NeedleType::kUuids:
      return AnswerType::kUuid;
    case NeedleType::kWords:
      break;
  }
  return AnswerType::kWord;
}

std::int64_t NiahTask::max_answer_bytes() const {
  constexpr std::int64_t kSeparator = 2, kAnd = 4;
  const std::int64_t value = MaxBytes(params_.type_needle_v, params_.phrase_words);
  const std::int64_t num_values = params_.num_needle_q * params_.num_needle_v;
  return num_values == 1 ? 1 + value : num_values * (value + kSeparator) + kAnd;
}

std::int64_t NiahTask::MinInputSeqLen() const {
  constexpr std::int64_t kSeparator = 2, kAnd = 4;
  const std::int64_t key = MaxBytes(params_.type_needle_k, 2);
  const std::int64_t value = MaxBytes(params_.type_needle_v, params_.phrase_words);
  const std::int64_t query = params_.num_needle_q * (key + kSeparator) + kAnd;
  const std::int64_t needle =
      CountTokens(tokenizer(), "\n" + NeedleSentence(params_.type_needle_v, "x", "x")) + key +
      value;
  const Question question{params_.type_needle_v, max_answer_bytes() > 1 + value, "x"};
  const std::int64_t num_lines = haystack_ ? 0 : num_needles();
  const std::int64_t line =
      params_.type_haystack == HaystackType::kNeedle ? needle : noise_.num_tokens(0, true);
  return (params_.bos ? 1 : 0) + CountTokensAtStart(tokenizer(), InstructionText(question, true)) +
         CountTokens(tokenizer(), "\n" + QuestionText(question) + AnswerPrefix(question)) +
         3 * query + num_needles() * needle + num_lines * line + max_new_tokens_bound();
}

void NiahTask::CheckHaystack(const std::string& where) const {
  CheckFill(*library_->sentences(*haystack_, tokenizer()), HaystackRoom(), where);
}

std::vector<std::string> NiahTask::warnings() const {
  if (!haystack_) return {};
  return FillWarnings(*library_->sentences(*haystack_, tokenizer()), HaystackRoom(),
                      params_.haystack_file.empty() ? haystack_->name() : params_.haystack_file);
}

}  // namespace mixerbench::tasks::niah
