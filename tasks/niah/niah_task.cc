// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah_task.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/text/depth_grid.h"
#include "tasks/text/lists.h"
#include "tasks/text/noise_text.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::niah {
namespace {

constexpr std::uint32_t kDepthStream = 18, kNeedleOrderStream = 19, kQueryStream = 20,
                        kLineStream = 24, kDigitNoiseStream = 25, kDigitNoiseNumberStream = 27;
constexpr std::uint32_t kDigitNoiseStride = 1u << 20;
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
      noise_({std::string(kNoiseLine)}, '\n', this->tokenizer()) {}

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
      .Name("haystack", haystack)
      .Name("k_type", NameOf(params_.type_needle_k))
      .Integer("num_k", params_.num_needle_k)
      .Integer("num_q", params_.num_needle_q)
      .Integer("num_v", params_.num_needle_v)
      .Name("v_type", NameOf(params_.type_needle_v))
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

std::int64_t NiahTask::CountFirst(std::string_view text) const {
  const bool is_start = params_.fit_on == FitOn::kSelf && params_.inst == Instruction::kNone;
  return is_start ? CountTokensAtStart(tokenizer(), text) : CountTokens(tokenizer(), text);
}

std::int64_t NiahTask::ContextBudget(const Sample& sample) const {
  std::int64_t budget = prompt_budget(sample.answer) - (params_.bos ? 1 : 0);
  const Instruction inst = params_.fit_on == FitOn::kSelf ? params_.inst : Instruction::kStrong;
  if (inst != Instruction::kNone) {
    budget -= CountTokensAtStart(tokenizer(),
                                 InstructionText(sample.question, inst == Instruction::kStrong));
  }
  return budget - CountTokens(tokenizer(),
                              "\n" + QuestionText(sample.question) + AnswerPrefix(sample.question));
}

std::int64_t NiahTask::ChosenUnit(const SampleStream& stream, std::int64_t num_units) const {
  switch (params_.depth_mode) {
    case DepthMode::kGrid: {
      const auto grid = static_cast<std::uint64_t>(params_.depth_grid);
      return num_units * static_cast<std::int64_t>(stream.index % grid) / (params_.depth_grid - 1);
    }
    case DepthMode::kFixed:
      return num_units * params_.depth / 100;
    case DepthMode::kRandom40:
      break;
  }
  return num_units * GridDepth(PickVector(stream, kDepthStream, kNumGridDepths, 1)[0]) / 100;
}

NiahTask::Unit NiahTask::NoisyUnit(const SampleStream& stream, const Sample& sample,
                                   std::uint32_t index) const {
  Unit unit{index, ""};
  if (!Bernoulli(stream, kDigitNoiseStream, index, BernoulliThreshold(params_.digit_noise))) {
    return unit;
  }
  const auto is_value = [&](const std::string& text) {
    return std::any_of(sample.drawn.needles.begin(), sample.drawn.needles.end(),
                       [&](const Needle& needle) { return needle.value == text; });
  };
  std::string number;
  std::uint32_t draw = index;
  do {
    number = std::to_string(1000000 + Uniform(stream, kDigitNoiseNumberStream, draw, 9000000));
    draw += kDigitNoiseStride;
  } while (is_value(number));
  unit.own_text = haystack_->sentences()[index];
  // Before the last character, which may have several bytes.
  std::size_t last = unit.own_text.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(unit.own_text[last]) & 0xC0) == 0x80) --last;
  unit.own_text.insert(last, " (" + number + ")");
  return unit;
}

NiahTask::Context NiahTask::FillSentences(const SampleStream& stream, const Sample& sample) const {
  const auto sentences = library_->sentences(*haystack_, tokenizer());
  const auto n = static_cast<std::uint32_t>(num_needles());
  std::vector<std::uint32_t> depths = PickVector(stream, kDepthStream, kNumGridDepths, n);
  std::sort(depths.begin(), depths.end());
  const auto needle_unit = [&](std::size_t j, std::int64_t num_units) {
    return params_.depth_mode == DepthMode::kRandom40 ? num_units * GridDepth(depths[j]) / 100
                                                      : ChosenUnit(stream, num_units);
  };

  // Everything with a space before it; the first unit, which has none, is put right by `first`.
  std::int64_t used = 0;
  std::int64_t first_needle = 0;
  std::int64_t first_unit = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const std::string& text = sample.drawn.needles[sample.appearance[j]].sentence;
    const std::int64_t joined = CountTokens(tokenizer(), " " + text);
    if (j == 0) first_needle = CountFirst(text) - joined;
    used += joined;
  }
  const std::int64_t budget = ContextBudget(sample);
  Require(used + first_needle <= budget, "needles fit");

  Context context;
  constexpr std::int64_t kTypicalSentence = 30;  // tokens; more or less only costs time
  SentenceOrder order(*haystack_, params_.haystack_mode,
                      static_cast<std::uint64_t>(params_.haystack_seed), stream,
                      budget / kTypicalSentence + 1);
  for (std::int64_t m = 0;; ++m) {
    const std::uint32_t index = order[m];
    Unit unit = params_.digit_noise > 0 ? NoisyUnit(stream, sample, index) : Unit{index, ""};
    const bool is_own = !unit.own_text.empty();
    const std::int64_t joined =
        is_own ? CountTokens(tokenizer(), " " + unit.own_text) : sentences->num_tokens(index, true);
    if (m == 0) {
      first_unit = CountFirst(is_own ? unit.own_text : haystack_->sentences()[index]) - joined;
    }
    const std::int64_t first = needle_unit(0, m + 1) == 0 ? first_needle : first_unit;
    if (used + joined + first > budget) break;
    used += joined;
    context.units.push_back(std::move(unit));
  }
  for (std::size_t j = 0; j < n; ++j) {
    context.needle_units.push_back(needle_unit(j, std::ssize(context.units)));
  }
  return context;
}

NiahTask::Context NiahTask::FillLines(const SampleStream& stream, const Sample& sample) const {
  const bool is_noise = params_.type_haystack == HaystackType::kNoise;
  const auto n = static_cast<std::uint32_t>(num_needles());
  // Every line with a newline before it. What the first line saves by having none is the same
  // whichever it is, except for models that begin texts with a space: then the least counts.
  std::int64_t used = 0;
  std::int64_t first = CountFirst(kNoiseLine) - noise_.num_tokens(0, true);
  for (const Needle& needle : sample.drawn.needles) {
    const std::int64_t joined = CountTokens(tokenizer(), "\n" + needle.sentence);
    first = std::max(first, CountFirst(needle.sentence) - joined);
    used += joined;
  }
  const std::int64_t budget = ContextBudget(sample);
  Context context;
  for (std::uint32_t m = 0;; ++m) {
    Unit unit;
    std::int64_t joined = noise_.num_tokens(0, true);
    if (!is_noise) {
      Distractor line = DrawDistractor(words_, stream, counts(), sample.drawn.keys, m);
      joined = CountTokens(tokenizer(), "\n" + line.sentence);
      context.distractors.push_back(std::move(line.value));
      unit.own_text = std::move(line.sentence);
    }
    if (used + joined + first > budget) break;
    used += joined;
    context.units.push_back(std::move(unit));
  }
  if (!is_noise) context.distractors.pop_back();
  const auto num_lines = static_cast<std::uint32_t>(context.units.size());
  Require(num_lines >= n, "as many lines as needles fit");
  if (n == 1 && params_.depth_mode != DepthMode::kRandom40) {
    // At least one line follows the needle.
    context.needle_units = {std::min<std::int64_t>(ChosenUnit(stream, num_lines), num_lines - 1)};
  } else {
    std::vector<std::uint32_t> lines = PickVector(stream, kLineStream, num_lines, n);
    std::sort(lines.begin(), lines.end());
    context.needle_units.assign(lines.begin(), lines.end());
  }
  return context;
}

std::vector<std::int64_t> NiahTask::LayOut(const Sample& sample, const Context& context,
                                           Draft& draft) const {
  std::int64_t num_tokens = params_.bos ? 1 : 0;  // before what is added next
  const auto add_text = [&](const std::string& text) {
    num_tokens +=
        draft.empty() ? CountTokensAtStart(tokenizer(), text) : CountTokens(tokenizer(), text);
    draft.AddText(text);
  };
  if (params_.inst != Instruction::kNone) {
    add_text(InstructionText(sample.question, params_.inst == Instruction::kStrong));
  }
  // The library keeps the sentences.
  const TokenizedUnits& units = haystack_ ? *library_->sentences(*haystack_, tokenizer()) : noise_;
  const std::string joiner(1, units.joiner());
  bool is_joined = false;
  std::vector<std::int64_t> tokens_before;
  const std::int64_t num_units = std::ssize(context.units);
  for (std::int64_t m = 0; m <= num_units; ++m) {
    while (tokens_before.size() < context.needle_units.size() &&
           context.needle_units[tokens_before.size()] == m) {
      const std::uint32_t needle = sample.appearance[tokens_before.size()];
      tokens_before.push_back(num_tokens);
      add_text((is_joined ? joiner : "") + sample.drawn.needles[needle].sentence);
      is_joined = true;
    }
    if (m == num_units) break;
    const Unit& unit = context.units[static_cast<std::size_t>(m)];
    if (!unit.own_text.empty()) {
      add_text((is_joined ? joiner : "") + unit.own_text);
    } else {
      num_tokens += draft.empty() ? CountTokensAtStart(tokenizer(), units.text(unit.index))
                                  : units.num_tokens(unit.index, is_joined);
      draft.AddUnit(units, unit.index, is_joined);
    }
    is_joined = true;
  }
  add_text("\n" + QuestionText(sample.question));
  tokens_before.push_back(num_tokens);
  return tokens_before;
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

std::vector<Baseline> NiahTask::answer_baselines() const {
  // Shares of values: of phrases, of numbers, of UUIDs (122 random bits).
  double num_values = 0x1p122;
  if (params_.type_needle_v == NeedleType::kNumbers) num_values = 9e6;
  if (params_.type_needle_v == NeedleType::kWords) {
    num_values = 1;
    for (std::int64_t t = 0; t < params_.phrase_words; ++t) {
      num_values *=
          static_cast<double>(t % 2 == 0 ? words_.adjectives.size() : words_.nouns.size());
    }
  }
  std::vector<Baseline> baselines = {{"blind guess of a value", 1 / num_values}};
  if (params_.type_haystack != HaystackType::kNeedle) {
    baselines.push_back({"some needle's value", 1 / static_cast<double>(params_.num_needle_k)});
  }
  return baselines;
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

}  // namespace mixerbench::tasks::niah
