// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/composed_task.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "tasks/dataset_checks.h"

namespace mixerbench::tasks {
namespace {

constexpr std::int64_t kExtraGenTokens = 8;  // of GenTokens::kAnswer

// The first scored position: where the first token of the answer is predicted.
std::size_t FirstScored(std::span<const std::int32_t> labels) {
  return static_cast<std::size_t>(
      std::find_if(labels.begin(), labels.end(), [](std::int32_t l) { return l != kIgnore; }) -
      labels.begin());
}

}  // namespace

std::int64_t ComposedTask::max_new_tokens(std::string_view answer) const {
  return NewTokens(CountTokens(*tokenizer_, answer));
}

std::int64_t ComposedTask::NewTokens(std::int64_t answer_tokens) const {
  if (options_.gen == GenTokens::kAnswer) return answer_tokens + kExtraGenTokens;
  return std::max(reference_gen_tokens_, answer_tokens + 1);
}

TaskShape ComposedTask::shape() const {
  const std::int64_t most = std::min(max_answer_bytes(), options_.input_seq_len);
  return {.vocab_size = tokenizer_->vocab_size(),
          .seq_len = options_.input_seq_len,
          .max_num_scored = most,
          .max_num_target = most};
}

void ComposedTask::AppendPromptTokens(const Composition& sample,
                                      std::vector<std::int32_t>& tokens) const {
  if (options_.bos) tokens.push_back(tokenizer_->bos_id());
  sample.prompt.AppendTokens(*tokenizer_, tokens);
  tokenizer_->Encode(sample.answer_prefix, tokens);
}

void ComposedTask::Generate(const SampleStream& stream, LabelMode mode,
                            std::span<std::int32_t> inputs, std::span<std::int32_t> labels,
                            std::span<std::uint32_t> /*scratch*/) const {
  Require(std::ssize(inputs) == options_.input_seq_len && labels.size() == inputs.size(),
          "inputs and labels hold one sequence");
  const Composition sample = Compose(stream);
  std::vector<std::int32_t> tokens;
  tokens.reserve(inputs.size());
  AppendPromptTokens(sample, tokens);
  const std::size_t answer_begin = tokens.size();
  tokenizer_->Encode(sample.answer, tokens);
  const std::size_t answer_end = tokens.size();
  tokens.push_back(tokenizer_->eos_id());
  Require(tokens.size() <= inputs.size(), "a composed sample fits");

  std::copy(tokens.begin(), tokens.end(), inputs.begin());
  std::fill(inputs.begin() + std::ssize(tokens), inputs.end(), tokenizer_->pad_id());
  std::fill(labels.begin(), labels.end(), kIgnore);
  // The token at t+1 is predicted at t. Padding is neither an input to learn from nor a target.
  const bool is_all = mode == LabelMode::kAllTokens;
  const std::size_t first = is_all ? 1 : answer_begin;
  const std::size_t last = is_all ? tokens.size() : answer_end;
  for (std::size_t t = first; t < last; ++t) labels[t - 1] = tokens[t];
}

void ComposedTask::Solve(std::span<const std::int32_t> inputs,
                         std::span<const std::int32_t> positions,
                         std::span<std::int32_t> answers) const {
  std::fill(answers.begin(), answers.end(), kIgnore);
  if (positions.empty()) return;
  // The answer follows the first scored position; what lies after it is not looked at.
  const auto prompt_size = static_cast<std::size_t>(positions.front()) + 1;
  std::vector<std::int32_t> tokens;
  tokenizer_->Encode(Answer(tokenizer_->Decode(inputs.first(prompt_size))), tokens);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto offset = static_cast<std::size_t>(positions[i] - positions.front());
    if (offset < tokens.size()) answers[i] = tokens[offset];
  }
}

std::vector<Baseline> ComposedTask::baselines() const {
  constexpr std::uint64_t kNumAnswers = 4000;
  constexpr std::uint64_t kSplit = 15;  // of no data set: user splits start at 16
  const PhiloxKey key = DeriveKey(canon(), 0, kSplit);
  const auto drawn = [&](std::uint64_t first) {
    std::vector<Answers> all(kNumAnswers);
    for (std::uint64_t i = 0; i < kNumAnswers; ++i) {
      tokenizer_->Encode(DrawAnswer({key, first + i}), all[i].labels);
      all[i].positions.resize(all[i].labels.size());
      std::iota(all[i].positions.begin(), all[i].positions.end(), 0);
    }
    return all;
  };
  const std::vector<Answers> answers = drawn(0);
  const std::vector<Answers> others = drawn(kNumAnswers);
  std::vector<Baseline> baselines = {
      {.name = "the commonest answer token"},
      {.name = "the commonest token at each place of the answer", .knows_position = true}};
  for (Baseline& baseline : baselines) {
    const Estimate estimate = OrderFreeAccuracy(answers, others, baseline);
    baseline.accuracy = estimate.mean;
    baseline.error = estimate.error;
  }
  return baselines;
}

void ComposedTask::SliceBuckets(std::string_view /*prompt*/,
                                std::span<std::int32_t> /*buckets*/) const {}

void ComposedTask::AssignSlices(std::span<const std::int32_t> inputs,
                                std::span<const std::int32_t> labels,
                                std::span<std::int32_t> buckets) const {
  const std::size_t num_keys = slice_keys().size();
  if (num_keys == 0 || buckets.empty()) return;
  SliceBuckets(tokenizer_->Decode(inputs.first(FirstScored(labels) + 1)), buckets.first(num_keys));
  for (std::size_t i = num_keys; i < buckets.size(); ++i) buckets[i] = buckets[i - num_keys];
}

PromptRecord ComposedTask::MakePrompt(const SampleStream& stream) const {
  Composition sample = Compose(stream);
  std::vector<std::int32_t> tokens;
  AppendPromptTokens(sample, tokens);
  const std::int64_t num_new = max_new_tokens(sample.answer);
  sample.metadata["answer_tokens"] = CountTokens(*tokenizer_, sample.answer);
  return {.prompt = sample.prompt.Text(),
          .answer_prefix = std::move(sample.answer_prefix),
          .answer = std::move(sample.answer),
          .references = std::move(sample.references),
          .distractors = std::move(sample.distractors),
          .prompt_tokens = std::ssize(tokens),
          .max_new_tokens = num_new,
          .metadata = std::move(sample.metadata)};
}

std::vector<std::int32_t> ComposedTask::MakePromptTokens(const SampleStream& stream) const {
  std::vector<std::int32_t> tokens;
  AppendPromptTokens(Compose(stream), tokens);
  return tokens;
}

}  // namespace mixerbench::tasks
