// The words around the context of NIAH, and how a question is read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/niah/needles.h"

namespace mixerbench::tasks::niah {

// What a prompt asks: RULER's template for several values, or the one it turns it into for one.
struct Question {
  NeedleType value_type = NeedleType::kNumbers;
  bool is_plural = false;
  std::string query;  // the keys asked for: "a", "a, and b", "a, b, c, and d"
};

// The text before the context, newline included. is_strong: it names the keys (SILA).
std::string InstructionText(const Question& question, bool is_strong);

// The question, and the beginning of the answer that a model continues.
std::string QuestionText(const Question& question);
std::string AnswerPrefix(const Question& question);

// What a prompt with its answer prefix asks and where its question begins.
struct ReadQuestion {
  Question question;
  std::vector<std::string> keys;
  std::size_t begin = 0;
};
std::optional<ReadQuestion> ReadPrompt(std::string_view prompt);

}  // namespace mixerbench::tasks::niah
