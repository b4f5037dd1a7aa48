// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/lists.h"

namespace mixerbench::tasks {

std::string WriteList(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? ", and " : ", ";
    text += items[i];
  }
  return text;
}

std::vector<std::string> ReadList(std::string_view text) {
  constexpr std::string_view kAnd = " and ";
  std::vector<std::string> items = Split(text, ',');
  for (std::string& item : items) {
    if (item.starts_with(kAnd)) item.erase(0, kAnd.size());
    if (item.starts_with(' ')) item.erase(0, 1);
  }
  return items;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

}  // namespace mixerbench::tasks
