// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/haystack.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tasks/text/utf8.h"

namespace mixerbench::tasks {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\v\f";

std::string_view Trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kWhiteSpace) - begin + 1);
}

bool IsInPart(std::size_t paragraph, HaystackPart part) {
  const bool is_held_out = paragraph % 10 == 9;
  return part == HaystackPart::kAll || is_held_out == (part == HaystackPart::kTest);
}

}  // namespace

Haystack::Haystack(std::string name, std::string_view text, HaystackPart part,
                   const std::string& where)
    : name_(std::move(name)) {
  if (!IsUtf8(text)) throw Error(ExitCode::kBadInput, where + ": the haystack is not UTF-8");
  TextTable sentences;
  sentences.Reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1,
                    text.size());
  std::size_t num_paragraphs = 0;  // of the text
  bool is_inside = false;          // a paragraph has begun
  std::int64_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.size() > kMaxSentenceBytes) {
      throw Error(ExitCode::kBadInput,
                  where + ": line " + std::to_string(line_number) + " has " +
                      std::to_string(line.size()) + " bytes; a haystack has one sentence a line, " +
                      "of at most " + std::to_string(kMaxSentenceBytes) + " bytes");
    }
    if (line.empty()) {
      is_inside = false;
      continue;
    }
    if (!is_inside) ++num_paragraphs;
    const bool is_first = !std::exchange(is_inside, true);
    if (!IsInPart(num_paragraphs - 1, part)) continue;
    if (is_first) paragraph_begins_.push_back(sentences.size());
    sentences.Add(line);
  }
  if (sentences.size() == 0) {
    throw Error(ExitCode::kBadInput,
                where +
                    ": the haystack has no sentences; it needs one a line, and for its test "
                    "part ten paragraphs");
  }
  paragraph_begins_.push_back(sentences.size());
  sentences_ = std::make_shared<const TextTable>(std::move(sentences));
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace mixerbench::tasks
