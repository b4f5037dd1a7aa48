// The common part of text tasks: a task composes a prompt and its answer; text, tokens, labels,
// oracle and slices follow from that here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text/draft.h"
#include "tasks/text/text_options.h"
#include "tasks/text/text_task.h"

namespace mixerbench::tasks {

// One sample before it is rendered.
struct Composition {
  Draft prompt;
  std::string answer_prefix;
  std::string answer;
  std::vector<std::string> references;
  std::vector<std::string> distractors;
  Object metadata;
};

class ComposedTask : public TextTask {
 public:
  TaskShape shape() const final;
  void Generate(const SampleStream& stream, LabelMode mode, std::span<std::int32_t> inputs,
                std::span<std::int32_t> labels, std::span<std::uint32_t> scratch) const final;
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const final;
  // Answer tokens guessed from their distribution alone, which is measured on samples of a split
  // of its own.
  std::vector<Baseline> baselines() const final;
  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const final;

  PromptRecord MakePrompt(const SampleStream& stream) const final;
  std::vector<std::int32_t> MakePromptTokens(const SampleStream& stream) const final;
  const Tokenizer& tokenizer() const final { return *tokenizer_; }

 protected:
  // reference_gen_tokens: tokens of a response that the published protocol allows.
  ComposedTask(const TextOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
               std::int64_t reference_gen_tokens)
      : options_(options),
        tokenizer_(std::move(tokenizer)),
        reference_gen_tokens_(reference_gen_tokens) {}

  // The sample. Its prompt, answer prefix and max_new_tokens(answer) fit into input_seq_len.
  virtual Composition Compose(const SampleStream& stream) const = 0;

  // The answer of the sample alone, without its context.
  virtual std::string DrawAnswer(const SampleStream& stream) const = 0;

  // Upper bound of the bytes of an answer, and so of its tokens.
  virtual std::int64_t max_answer_bytes() const = 0;

  // The bucket of a sample for each slice key, -1 for none. `prompt`: prompt + answer prefix.
  virtual void SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const;

  const TextOptions& options() const { return options_; }

  // Tokens left for the prompt, answer prefix and BOS included, when `answer` is to follow. There
  // is always room for the answer and EOS.
  std::int64_t prompt_budget(std::string_view answer) const {
    return options_.input_seq_len - max_new_tokens(answer);
  }
  std::int64_t max_new_tokens(std::string_view answer) const;
  // The same for the longest answer, or more.
  std::int64_t max_new_tokens_bound() const { return NewTokens(max_answer_bytes()); }

 private:
  std::int64_t NewTokens(std::int64_t answer_tokens) const;
  void AppendPromptTokens(const Composition& sample, std::vector<std::int32_t>& tokens) const;

  TextOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t reference_gen_tokens_;
};

}  // namespace mixerbench::tasks
