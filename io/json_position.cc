// SPDX-License-Identifier: Apache-2.0
#include "io/json_position.h"

#include <algorithm>

#include "base/error.h"
#include "io/json.h"

namespace mixerbench::io {
namespace {

// Walks over a text that is known to be JSON, so that it meets nothing unexpected.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  // The offset of what `steps` lead to.
  std::optional<std::size_t> Find(const std::vector<std::string>& steps) {
    std::size_t start = SkipSpace();
    for (const std::string& step : steps) {
      const auto found = text_[at_] == '{'   ? Member(step)
                         : text_[at_] == '[' ? Item(step)
                                             : std::nullopt;
      if (!found) return std::nullopt;
      start = *found;
    }
    return start;
  }

 private:
  std::size_t SkipSpace() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_;
  }

  // Steps behind a string.
  std::string_view SkipString() {
    const std::size_t start = at_++;
    while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    return text_.substr(start, ++at_ - start);
  }

  // Steps behind any value.
  void SkipValue() {
    int depth = 0;
    do {
      SkipSpace();
      const char c = text_[at_];
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        --depth, ++at_;
      } else if (c == ',' || c == ':') {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(" \t\r\n,:]}", at_), text_.size());
      }
    } while (depth > 0);
  }

  // To the value of a member; the offset of its key.
  std::optional<std::size_t> Member(const std::string& key) {
    ++at_;
    while (text_[SkipSpace()] == '"') {
      const std::size_t start = at_;
      const bool is_found = ParseJson(SkipString()).as_string() == key;
      SkipSpace();
      ++at_;  // :
      SkipSpace();
      if (is_found) return start;
      SkipValue();
      if (text_[SkipSpace()] == ',') ++at_;
    }
    return std::nullopt;
  }

  std::optional<std::size_t> Item(const std::string& index) {
    ++at_;
    for (std::size_t i = 0; text_[SkipSpace()] != ']'; ++i) {
      if (std::to_string(i) == index) return at_;
      SkipValue();
      if (text_[SkipSpace()] == ',') ++at_;
    }
    return std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool IsJson(std::string_view text) {
  try {
    ParseJson(text);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> PointerSteps(std::string_view pointer) {
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      steps.emplace_back();
    } else if (pointer[i] == '~' && i + 1 < pointer.size() && !steps.empty()) {
      steps.back() += pointer[++i] == '1' ? '/' : '~';
    } else if (!steps.empty()) {
      steps.back() += pointer[i];
    }
  }
  return steps;
}

std::optional<Position> FindPosition(std::string_view json, const std::vector<std::string>& steps) {
  if (!IsJson(json)) return std::nullopt;
  const auto offset = Walker(json).Find(steps);
  if (!offset) return std::nullopt;
  const std::string_view before = json.substr(0, *offset);
  const auto line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto num_lines = std::count(before.begin(), before.end(), '\n');
  return Position{static_cast<std::size_t>(num_lines) + 1, *offset - line_start + 1};
}

}  // namespace mixerbench::io
