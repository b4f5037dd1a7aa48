// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah_prompt.h"

#include "tasks/text/lists.h"

namespace mixerbench::tasks::niah {
namespace {

constexpr std::string_view kMentioned = " mentioned in the provided text";

std::string Noun(const Question& question) {
  return std::string(TypeNoun(question.value_type, question.is_plural));
}

}  // namespace

std::string InstructionText(const Question& question, bool is_strong) {
  const std::string noun = Noun(question);
  std::string text = question.is_plural ? "Some special magic " + noun + " are"
                                        : "A special magic " + noun + " is";
  text += " hidden within the following text. Make sure to memorize it. I will quiz you about the ";
  text += noun;
  if (is_strong) text += " for " + question.query;
  return text + " afterwards.\n";
}

std::string QuestionText(const Question& question) {
  const std::string verb =
      question.is_plural ? "What are all the special magic " : "What is the special magic ";
  return verb + Noun(question) + " for " + question.query + std::string(kMentioned) + "?";
}

std::string AnswerPrefix(const Question& question) {
  return " The special magic " + Noun(question) + " for " + question.query +
         std::string(kMentioned) + (question.is_plural ? " are" : " is");
}

std::optional<ReadQuestion> ReadPrompt(std::string_view prompt) {
  for (const NeedleType type : {NeedleType::kWords, NeedleType::kNumbers, NeedleType::kUuids}) {
    for (const bool is_plural : {false, true}) {
      Question question{type, is_plural, ""};
      // The question up to its keys: "What is the special magic number for ".
      std::string opening = QuestionText(question);
      opening.resize(opening.size() - kMentioned.size() - 1);
      const std::size_t begin = prompt.rfind(opening);
      if (begin == std::string_view::npos) continue;
      const std::size_t first = begin + opening.size();
      const std::size_t last = prompt.find(kMentioned, first);
      if (last == std::string_view::npos) continue;
      question.query = prompt.substr(first, last - first);
      std::vector<std::string> keys = ReadList(question.query);
      return ReadQuestion{std::move(question), std::move(keys), begin};
    }
  }
  return std::nullopt;
}

}  // namespace mixerbench::tasks::niah
