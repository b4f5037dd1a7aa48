// SPDX-License-Identifier: Apache-2.0
#include "tasks/phonebook/phonebook_task.h"

#include <unordered_set>

#include "tasks/canon.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::phonebook {
namespace {

constexpr std::uint32_t kNameStream = 52, kNumberStream = 53, kQueryStream = 54, kSizeStream = 55;
// Redraws of one name lie so far apart.
constexpr std::uint32_t kStride = 1u << 20;
constexpr std::uint32_t kDigits = 10;
constexpr std::int64_t kReferenceGenTokens = 16;
constexpr std::string_view kBlankLine = "\n\n";

std::string Capitalised(std::string word) {
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

// The number of an entry; the first digit is one of 6 to 9.
std::string DrawNumber(const SampleStream& sample, std::uint32_t entry) {
  std::string number = std::to_string(6 + Uniform(sample, kNumberStream, kDigits * entry, 4));
  for (std::uint32_t c = 1; c < kDigits; ++c) {
    number += static_cast<char>('0' + Uniform(sample, kNumberStream, kDigits * entry + c, 10));
  }
  return number;
}

}  // namespace

PhonebookTask::PhonebookTask(const PhonebookParams& params, std::shared_ptr<TextLibrary> library,
                             std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer), kReferenceGenTokens),
      params_(params),
      library_(std::move(library)),
      adjectives_(library_->words("adj")),
      nouns_(library_->words("noun")) {}

std::string PhonebookTask::canon() const {
  return Canon("phonebook")
      .Integer("max", params_.max_entries)
      .Integer("min", params_.min_entries)
      .Text();
}

PhonebookTask::Plan PhonebookTask::DrawPlan(const SampleStream& stream) const {
  const auto choices = static_cast<std::uint32_t>(params_.max_entries - params_.min_entries + 1);
  const std::uint32_t num_entries =
      static_cast<std::uint32_t>(params_.min_entries) + Uniform(stream, kSizeStream, 0, choices);
  return {num_entries, PickVector(stream, kQueryStream, num_entries, 3)};
}

Composition PhonebookTask::Compose(const SampleStream& stream) const {
  const Plan plan = DrawPlan(stream);
  std::unordered_set<std::string> taken;
  std::vector<std::string> names;
  const auto draw = [&](std::uint32_t e) {
    const auto word = [&](const std::vector<std::string>& list, std::uint32_t j) {
      return Capitalised(
          list[Uniform(stream, kNameStream, j, static_cast<std::uint32_t>(list.size()))]);
    };
    return word(adjectives_, 2 * e) + " " + word(nouns_, 2 * e + 1);
  };
  for (std::uint32_t entry = 0; entry < plan.num_entries; ++entry) {
    std::uint32_t e = entry;
    std::string name = draw(e);
    while (!taken.insert(name).second) name = draw(e += kStride);
    names.push_back(std::move(name));
  }
  const auto line = [&](std::uint32_t entry) {
    return names[entry] + ": " + DrawNumber(stream, entry);
  };

  Composition composed;
  for (std::uint32_t entry = 0; entry < plan.num_entries; ++entry) {
    composed.prompt.AddText((entry > 0 ? "\n" : "") + line(entry));
    if (entry != plan.repeated[2]) composed.distractors.push_back(DrawNumber(stream, entry));
  }
  composed.prompt.AddText(std::string(kBlankLine) + line(plan.repeated[0]) + "\n" +
                          line(plan.repeated[1]));
  const std::uint32_t asked = plan.repeated[2];
  composed.answer_prefix = std::string(kBlankLine) + names[asked] + ":";
  composed.answer = " " + DrawNumber(stream, asked);
  composed.references = {DrawNumber(stream, asked)};
  composed.metadata = {{"name", names[asked]},
                       {"num_units", std::int64_t{plan.num_entries}},
                       {"position", std::int64_t{asked}},
                       {"depth", 100.0 * asked / plan.num_entries}};
  return composed;
}

std::string PhonebookTask::DrawAnswer(const SampleStream& stream) const {
  return " " + DrawNumber(stream, DrawPlan(stream).repeated[2]);
}

std::string PhonebookTask::Answer(std::string_view prompt) const {
  const std::size_t asked = prompt.rfind(kBlankLine);
  if (asked == std::string_view::npos) return "";
  // The line of the name, which is the first or follows another.
  const std::string opening = std::string(prompt.substr(asked + kBlankLine.size())) + " ";
  std::size_t begin = prompt.starts_with(opening) ? 0 : prompt.find("\n" + opening);
  if (begin == std::string_view::npos) return "";
  begin = prompt.find(": ", begin) + 1;
  return std::string(prompt.substr(begin, prompt.find('\n', begin) - begin));
}

void PhonebookTask::SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const {
  const std::string_view book = prompt.substr(0, prompt.find(kBlankLine));
  const std::string_view name = prompt.substr(prompt.rfind('\n') + 1);
  std::int64_t num_entries = 1, position = 0;
  const std::size_t at = book.starts_with(name) ? 0 : book.find("\n" + std::string(name)) + 1;
  for (std::size_t i = 0; i < book.size(); ++i) {
    if (book[i] != '\n') continue;
    ++num_entries;
    position += i < at;
  }
  buckets[0] = DecileBucket(position, num_entries);
  buckets[1] = CountBucket(num_entries);
}

std::int64_t PhonebookTask::max_answer_bytes() const { return 1 + kDigits; }

std::int64_t PhonebookTask::MinInputSeqLen() const {
  // The most tokens that a name of either list is, capitalised.
  const auto most = [this](const std::vector<std::string>& list) {
    std::int64_t tokens = 0;
    for (const std::string& word : list) {
      tokens = std::max(tokens, CountTokens(tokenizer(), " " + Capitalised(word) + ":"));
    }
    return tokens;
  };
  const std::int64_t line = CountTokens(tokenizer(), "\n") + most(adjectives_) + most(nouns_) +
                            CountTokens(tokenizer(), " 0123456789");
  return (params_.bos ? 1 : 0) + (params_.max_entries + 3) * line +
         2 * CountTokens(tokenizer(), kBlankLine) + max_new_tokens_bound();
}

}  // namespace mixerbench::tasks::phonebook
