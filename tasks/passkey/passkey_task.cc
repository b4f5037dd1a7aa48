// SPDX-License-Identifier: Apache-2.0
#include "tasks/passkey/passkey_task.h"

#include <algorithm>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/text/noise_text.h"

namespace mixerbench::tasks::passkey {
namespace {

constexpr std::uint32_t kKeyStream = 48, kPositionStream = 49;
constexpr std::int64_t kClassicKeys = 50000;
// Tokens for a response: ten for landmark attention, five for Stuffed Mamba.
constexpr std::int64_t kClassicGenTokens = 10, kBlocksGenTokens = 5;

// The texts of a style.
struct Template {
  std::string_view head, key_name, question, answer_prefix;
};
constexpr Template kClassic = {
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize "
    "them. I will quiz you about the important information there.\n",
    "pass key", "What is the pass key?", " The pass key is"};
constexpr Template kBlocks = {
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize "
    "it.\n\n",
    "passkey", "What is the pass key?", " The passkey is"};

const Template& TemplateOf(Style style) { return style == Style::kClassic ? kClassic : kBlocks; }

std::string KeyLine(const Template& texts, std::string_view key) {
  const std::string name(texts.key_name);
  const std::string text(key);
  return "The " + name + " is " + text + ". Remember it. " + text + " is the " + name + ".";
}

std::shared_ptr<const TextTable> FillerSentences() {
  TextTable sentences;
  for (std::size_t begin = 0; begin < kNoiseLine.size();) {
    const std::size_t end = kNoiseLine.find('.', begin) + 1;
    sentences.Add(kNoiseLine.substr(begin, end - begin));
    begin = end + 1;
  }
  return std::make_shared<const TextTable>(std::move(sentences));
}

// The first `size` characters of the filler line repeated with spaces.
std::string FillerCharacters(std::int64_t size) {
  std::string text;
  while (std::ssize(text) < size) text.append(kNoiseLine).append(" ");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace

PasskeyTask::PasskeyTask(const PasskeyParams& params, std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer),
                   params.style == Style::kClassic ? kClassicGenTokens : kBlocksGenTokens),
      params_(params),
      sentences_(FillerSentences(), ' ', this->tokenizer()),
      line_(kNoiseLine, '\n', this->tokenizer()) {}

std::string PasskeyTask::canon() const {
  // Lengths draw apart: where the key and its place are all that varies, a few samples at each of
  // many lengths would else be the same few.
  const bool is_cut = params_.cut == Cut::kCharacter;
  return Canon("passkey")
      .Integer("digits", params_.key_digits)
      .Integer("len", is_cut ? params_.garbage_chars : params_.input_seq_len)
      .Word("style", NameOf(params_.style))
      .Text();
}

std::uint32_t PasskeyTask::num_keys() const {
  if (params_.key_digits == 0) return kClassicKeys;
  std::uint32_t power = 1;
  for (std::int64_t d = 1; d < params_.key_digits; ++d) power *= 10;
  return (params_.style == Style::kBlocks ? 10 : 9) * power;
}

std::string PasskeyTask::DrawKey(const SampleStream& stream) const {
  const std::uint32_t number = Uniform(stream, kKeyStream, 0, num_keys());
  if (params_.key_digits == 0) return std::to_string(1 + number);
  if (params_.style == Style::kClassic) return std::to_string(num_keys() / 9 + number);
  const std::string digits = std::to_string(number);
  return std::string(static_cast<std::size_t>(params_.key_digits) - digits.size(), '0') + digits;
}

std::int64_t PasskeyTask::Position(const SampleStream& stream, std::int64_t size) const {
  const bool is_blocks = params_.style == Style::kBlocks;
  // Of blocks one is the key; other filler has `size` units and `size` + 1 places.
  const std::int64_t last = is_blocks ? size - 1 : size;
  switch (params_.depth_mode) {
    case DepthMode::kGrid: {
      const std::int64_t j =
          static_cast<std::int64_t>(stream.index % static_cast<std::uint64_t>(params_.depth_grid));
      // Stuffed Mamba asks in the middle of each of its steps, the others from end to end.
      return is_blocks ? last * (2 * j + 1) / (2 * params_.depth_grid)
                       : last * j / (params_.depth_grid - 1);
    }
    case DepthMode::kFixed:
      return last * params_.depth / 100;
    case DepthMode::kRandom:
      break;
  }
  return Uniform(stream, kPositionStream, 0, static_cast<std::uint32_t>(last + 1));
}

std::int64_t PasskeyTask::CountSentences(std::int64_t num_sentences) const {
  if (num_sentences == 0) return 0;
  std::int64_t round = 0;
  for (std::uint32_t s = 0; s < sentences_.size(); ++s) round += sentences_.num_tokens(s, true);
  std::int64_t count = num_sentences / sentences_.size() * round;
  for (std::uint32_t s = 0; s < num_sentences % sentences_.size(); ++s) {
    count += sentences_.num_tokens(s, true);
  }
  return count + sentences_.num_tokens(0, false) - sentences_.num_tokens(0, true);
}

Composition PasskeyTask::ComposeSentences(const SampleStream& stream) const {
  const std::string key = DrawKey(stream);
  const std::string head(kClassic.head);
  const std::string middle = "\n" + KeyLine(kClassic, key) + "\n";
  const std::string tail = "\n" + std::string(kClassic.question);
  const auto count = [this](const std::string& text) { return CountTokens(tokenizer(), text); };

  // Where filler is missing, the newlines around it meet and may be fewer tokens.
  const std::int64_t start = CountTokensAtStart(tokenizer(), head);
  const std::int64_t start_middle = CountTokensAtStart(tokenizer(), head + middle);
  const std::int64_t bare_middle = count(middle);
  const std::int64_t middle_tail = count(middle + tail);
  const std::int64_t bare_tail = count(tail);
  const std::int64_t start_middle_tail = CountTokensAtStart(tokenizer(), head + middle + tail);
  const auto total = [&](std::int64_t before, std::int64_t after) {
    const std::int64_t filler = CountSentences(before) + CountSentences(after);
    if (before == 0 && after == 0) return start_middle_tail;
    if (before == 0) return filler + start_middle + bare_tail;
    if (after == 0) return filler + start + middle_tail;
    return filler + start + bare_middle + bare_tail;
  };

  Composition composed;
  composed.answer = " " + key;
  const std::int64_t budget = prompt_budget(composed.answer) - (params_.bos ? 1 : 0) -
                              count(std::string(kClassic.answer_prefix));
  std::int64_t size = 0;
  std::int64_t before = 0;
  Require(total(0, 0) <= budget, "the key fits");
  for (std::int64_t next = 1;; ++next) {
    const std::int64_t position = Position(stream, next);
    if (total(position, next - position) > budget) break;
    size = next;
    before = position;
  }

  const auto add_filler = [&](std::int64_t num_sentences) {
    for (std::int64_t s = 0; s < num_sentences; ++s) {
      composed.prompt.AddUnit(sentences_, static_cast<std::uint32_t>(s % sentences_.size()), s > 0);
    }
  };
  composed.prompt.AddText(head);
  add_filler(before);
  composed.prompt.AddText(middle);
  add_filler(size - before);
  composed.prompt.AddText(tail);
  composed.metadata = {{"num_units", size}, {"position", before}};
  return composed;
}

Composition PasskeyTask::ComposeCharacters(const SampleStream& stream) const {
  const std::string key = DrawKey(stream);
  const std::int64_t before = Position(stream, params_.garbage_chars);
  Composition composed;
  composed.answer = " " + key;
  composed.prompt.AddText(kClassic.head);
  composed.prompt.AddText(FillerCharacters(before) + "\n");
  composed.prompt.AddText(KeyLine(kClassic, key) + "\n");
  composed.prompt.AddText(FillerCharacters(params_.garbage_chars - before) + "\n");
  composed.prompt.AddText(kClassic.question);
  composed.metadata = {{"num_units", params_.garbage_chars}, {"position", before}};
  return composed;
}

Composition PasskeyTask::ComposeBlocks(const SampleStream& stream) const {
  const std::string key = DrawKey(stream);
  Composition composed;
  composed.answer = " " + key;
  const std::string key_line = KeyLine(kBlocks, key);
  const std::string tail = "\n\n" + std::string(kBlocks.question);
  const std::int64_t line = line_.num_tokens(0, true);
  const std::int64_t room = prompt_budget(composed.answer) - (params_.bos ? 1 : 0) -
                            CountTokensAtStart(tokenizer(), kBlocks.head) -
                            CountTokens(tokenizer(), key_line) -
                            CountTokens(tokenizer(), tail + std::string(kBlocks.answer_prefix));
  Require(room >= 0, "the key fits");
  const std::int64_t num_blocks = 1 + room / line;
  const std::int64_t position = Position(stream, num_blocks);
  composed.prompt.AddText(kBlocks.head);
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    if (block == position) {
      composed.prompt.AddText((block > 0 ? "\n" : "") + key_line);
    } else {
      composed.prompt.AddUnit(line_, 0, block > 0);
    }
  }
  composed.prompt.AddText(tail);
  composed.metadata = {{"num_units", num_blocks}, {"position", position}};
  return composed;
}

Composition PasskeyTask::Compose(const SampleStream& stream) const {
  Composition composed = params_.style == Style::kBlocks ? ComposeBlocks(stream)
                         : params_.cut == Cut::kSentence ? ComposeSentences(stream)
                                                         : ComposeCharacters(stream);
  composed.answer_prefix = TemplateOf(params_.style).answer_prefix;
  composed.references = {composed.answer.substr(1)};
  const std::int64_t size = composed.metadata.at("num_units").as_int();
  const std::int64_t last = params_.style == Style::kBlocks ? size - 1 : size;
  composed.metadata["depth"] =
      last == 0 ? 0.0
                : 100 * composed.metadata.at("position").as_double() / static_cast<double>(last);
  return composed;
}

std::string PasskeyTask::DrawAnswer(const SampleStream& stream) const {
  return " " + DrawKey(stream);
}

std::string PasskeyTask::Answer(std::string_view prompt) const {
  const std::string opening = "The " + std::string(TemplateOf(params_.style).key_name) + " is ";
  const std::size_t end = prompt.find(". Remember it.");
  if (end == std::string_view::npos) return "";
  const std::size_t begin = prompt.rfind(opening, end);
  if (begin == std::string_view::npos) return "";
  return " " + std::string(prompt.substr(begin + opening.size(), end - begin - opening.size()));
}

void PasskeyTask::SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const {
  const std::size_t at = prompt.find(". Remember it.");
  buckets[0] = DecileBucket(static_cast<std::int64_t>(at), std::ssize(prompt));
}

std::int64_t PasskeyTask::max_answer_bytes() const {
  return 1 + (params_.key_digits == 0 ? 5 : params_.key_digits);
}

std::int64_t PasskeyTask::MinInputSeqLen() const {
  const Template& texts = TemplateOf(params_.style);
  const std::int64_t key = max_answer_bytes() - 1;
  std::int64_t filler = 0;
  if (params_.style == Style::kClassic && params_.cut == Cut::kCharacter) {
    // Each part ends in a whole line or less, cut inside a word of at most that many bytes.
    constexpr std::int64_t kMaxWordBytes = 8;
    const std::int64_t num_lines = params_.garbage_chars / (std::ssize(kNoiseLine) + 1) + 2;
    filler =
        num_lines * CountTokens(tokenizer(), " " + std::string(kNoiseLine)) + 2 * kMaxWordBytes;
  }
  return (params_.bos ? 1 : 0) + CountTokensAtStart(tokenizer(), texts.head) + filler +
         CountTokens(tokenizer(), "\n\n" + KeyLine(texts, "") + "\n\n") + 2 * key +
         CountTokens(tokenizer(),
                     "\n" + std::string(texts.question) + std::string(texts.answer_prefix)) +
         max_new_tokens_bound();
}

}  // namespace mixerbench::tasks::passkey
