// Tasks whose samples are text: what a language model is asked, what it should answer, and the
// same as rows of tokens for training. A Task gives its text form by Task::text().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "tasks/task.h"
#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

// One sample as text, UTF-8. A model reads prompt + answer_prefix and continues.
struct PromptRecord {
  std::string prompt;
  // Starts with the space or newline that separates it from `prompt`. Scored generation starts
  // after it.
  std::string answer_prefix;
  // The continuation of a perfect model, leading space included: what the token form is labelled
  // with and what likelihood is measured on.
  std::string answer;
  // What a response is searched for, in the order of the question.
  std::vector<std::string> references;
  // Answers of the same kind that stand in the prompt and are wrong: the values of needles that
  // are not asked for. Empty when the task has none.
  std::vector<std::string> distractors;
  std::int64_t prompt_tokens = 0;   // of prompt + answer_prefix, with BOS when there is one
  std::int64_t max_new_tokens = 0;  // of the response; prompt_tokens + this <= input_seq_len
  // Facts of this sample by name: "depth", "num_units", ... Numbers, strings and lists of them.
  Object metadata;
};

// What a response should be made of, which tells how to find an answer in it.
enum class AnswerType { kNumber, kWord, kUuid, kName };

// A task with a text form. The token form (Task::Generate) of sample i holds the same prompt:
// [BOS] prompt, answer prefix, answer, EOS, then padding up to input_seq_len. Labels stand where
// the tokens of the answer are predicted. Samples are made on the CPU.
class TextTask : public Task {
 public:
  const TextTask* text() const final { return this; }

  // Sample `stream.index` of `stream.key`. Pure, from any thread.
  virtual PromptRecord MakePrompt(const SampleStream& stream) const = 0;

  // The tokens that a model reads in MakePrompt's record: [BOS], prompt, answer prefix. Equal to
  // encoding the text at once, and much faster for long contexts.
  virtual std::vector<std::int32_t> MakePromptTokens(const SampleStream& stream) const = 0;

  // Answers from the text alone: `prompt` is prompt + answer_prefix; the result is what the
  // record's `answer` should be. Empty when the question is not understood.
  virtual std::string Answer(std::string_view prompt) const = 0;

  virtual AnswerType answer_type() const = 0;

  // Metrics of tasks/README.md that fit the task, the usual one first: "match_all", "int_first",
  // "exact", "prefix5".
  virtual std::vector<std::string> metrics() const = 0;

  // Lengths are counted in its tokens; token ids of samples are its ids.
  virtual const Tokenizer& tokenizer() const = 0;
};

}  // namespace mixerbench::tasks
