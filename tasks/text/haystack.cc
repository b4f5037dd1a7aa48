// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/haystack.h"

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
  std::vector<std::string_view> paragraph;
  std::size_t index = 0;
  const auto end_paragraph = [&] {
    if (paragraph.empty()) return;
    if (IsInPart(index++, part)) {
      paragraph_begins_.push_back(num_sentences());
      sentences_.insert(sentences_.end(), paragraph.begin(), paragraph.end());
    }
    paragraph.clear();
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) {
      end_paragraph();
    } else {
      paragraph.push_back(line);
    }
  }
  end_paragraph();
  if (sentences_.empty()) {
    throw Error(ExitCode::kBadInput,
                where +
                    ": the haystack has no sentences; it needs one a line, and for its test "
                    "part ten paragraphs");
  }
  paragraph_begins_.push_back(num_sentences());
}

}  // namespace mixerbench::tasks
