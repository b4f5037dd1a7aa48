// How much haystack fits, where the needles stand in it, and the prompt that results.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "tasks/niah/niah_task.h"
#include "tasks/text/depth_grid.h"
#include "tasks/text/noise_text.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::niah {
namespace {

constexpr std::uint32_t kDepthStream = 18, kLineStream = 24, kDigitNoiseStream = 25,
                        kDigitNoiseNumberStream = 27;
// Redraws of one sentence's number lie so far apart.
constexpr std::uint32_t kDigitNoiseStride = 1u << 20;

}  // namespace

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
  if (params_.depth_mode == DepthMode::kFixed) return num_units * params_.depth / 100;
  const auto grid = static_cast<std::uint64_t>(params_.depth_grid);
  return num_units * static_cast<std::int64_t>(stream.index % grid) / (params_.depth_grid - 1);
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
  unit.own_text = haystack_->sentence(index);
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
      first_unit = CountFirst(is_own ? unit.own_text : haystack_->sentence(index)) - joined;
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

}  // namespace mixerbench::tasks::niah
