// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"

namespace mixerbench::io {
namespace {

constexpr int kMaxDumpDepth = 256;

// Bytes of the well-formed UTF-8 sequence at the front of `text` (Unicode table 3-7), 0 if none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // up to U+10FFFF
    return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

std::string LineAndColumn(std::string_view text, std::size_t position) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < std::min(position, text.size()); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

// What the library says, without its prefix "[json.exception...] parse error at line ...: " and
// without its echo of the input.
std::string SyntaxReason(std::string_view what) {
  if (const auto begin = what.find("while parsing "); begin != what.npos) {
    what.remove_prefix(begin);
  }
  return ValidUtf8(what.substr(0, what.find("; last read")));
}

// Over the text, telling how far the library has read, which its events of well-formed text do not.
struct TellingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reference operator*() const { return *at; }
  TellingIterator& operator++() {
    ++at;
    ++*num_read;
    return *this;
  }
  friend bool operator==(const TellingIterator& a, const TellingIterator& b) {
    return a.at == b.at;
  }
  friend bool operator!=(const TellingIterator& a, const TellingIterator& b) { return !(a == b); }

  std::string_view::const_iterator at;
  std::size_t* num_read;
};

// Builds a Value from the library's events. Iterative, so depth costs no stack; every limit is
// checked before anything is stored.
class ValueBuilder {
 public:
  ValueBuilder(std::string_view text, const JsonLimits& limits, const TakenElements& taken)
      : text_(text), limits_(limits), taken_(taken) {}

  bool null() { return Place(Value()); }
  bool boolean(bool v) { return Place(Value(v)); }
  bool number_integer(std::int64_t v) { return Place(Value(v)); }
  bool number_unsigned(std::uint64_t v) {
    if (v > static_cast<std::uint64_t>(INT64_MAX)) IntegerOverflow(std::to_string(v));
    return Place(Value(v));
  }
  bool number_float(double v, const std::string& token) {
    // The library turns integers of more than 64 bits into doubles without a word.
    if (token.find_first_of(".eE") == std::string::npos) IntegerOverflow(token);
    return Place(Value(v));
  }
  bool string(std::string& v) { return Place(Value(std::move(v))); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // JSON text has none

  bool start_object(std::size_t) { return Open(Value(Object{})); }
  bool start_array(std::size_t) { return Open(Value(Array{})); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    Frame& top = stack_.back();
    top.key = std::move(name);
    if (top.node->as_object().contains(top.key)) {
      throw ConfigError(Pointer(), "duplicate key, " + LineAndColumn(text_, num_read_ - 1));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    // 406 is a number such as 1e999, which is well-formed text.
    const std::string reason =
        e.id == 406 ? "number out of the range of a double" : SyntaxReason(e.what());
    throw ConfigError(LineAndColumn(text_, position == 0 ? 0 : position - 1), reason);
  }

  Value Take() { return std::move(root_); }

  TellingIterator begin() { return {text_.begin(), &num_read_}; }
  TellingIterator end() { return {text_.end(), &num_read_}; }

 private:
  struct Frame {
    Value* node;
    std::string key;  // of the member being read, for objects
  };

  bool Place(Value value) {
    Insert(std::move(value));
    return true;
  }

  Value* Insert(Value value) {
    if (++num_nodes_ > limits_.max_nodes) {
      throw ConfigError(Pointer(), fmt::format("more than {} values", limits_.max_nodes));
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    // Only the last element of an open array is itself open, so growth moves nothing on the stack.
    Frame& top = stack_.back();
    if (top.node->is_array()) return &top.node->as_array().emplace_back(std::move(value));
    return &(top.node->as_object()[top.key] = std::move(value));
  }

  bool Open(Value container) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) {
      throw ConfigError(Pointer(), fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    stack_.push_back({Insert(std::move(container)), ""});
    return true;
  }

  bool Close() {
    stack_.pop_back();
    const bool is_taken = taken_.take && stack_.size() == 2 && stack_[0].key == taken_.key &&
                          stack_[0].node->is_object() && stack_[1].node->is_array();
    if (is_taken) {
      Array& elements = stack_[1].node->as_array();
      elements.back() = taken_.take(std::move(elements.back()), elements.size() - 1);
    }
    return true;
  }

  [[noreturn]] void IntegerOverflow(const std::string& token) const {
    throw ConfigError(Pointer(), "integer " + token.substr(0, 40) +
                                     " does not fit in 64 bits; write it as a string");
  }

  // Where the value that is being read will stand.
  std::string Pointer() const {
    std::string pointer;
    for (std::size_t i = 0; i < stack_.size(); ++i) {
      const Frame& frame = stack_[i];
      if (frame.node->is_object()) {
        pointer += "/" + PointerToken(frame.key);
      } else {
        const bool child_is_open = i + 1 < stack_.size();
        const std::size_t size = frame.node->as_array().size();
        pointer += "/" + std::to_string(child_is_open ? size - 1 : size);
      }
    }
    return pointer;
  }

  std::string_view text_;
  JsonLimits limits_;
  const TakenElements& taken_;
  std::size_t num_read_ = 0;  // bytes of the text
  Value root_;
  std::vector<Frame> stack_;
  std::size_t num_nodes_ = 0;
};

bool IsWrittenAsItIs(char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; }

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void Write(const Value& value, int depth) {
    Require(depth <= kMaxDumpDepth, "a value to be written is nested too deep");
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.as_int());
    } else if (value.is_double()) {
      WriteDouble(value.as_double());
    } else if (value.is_string()) {
      WriteString(value.as_string());
    } else if (value.is_array()) {
      WriteArray(value.as_array(), depth);
    } else {
      WriteObject(value.as_object(), depth);
    }
  }

  std::string Take() {
    if (indent_ >= 0) out_ += '\n';
    return std::move(out_);
  }

 private:
  void WriteDouble(double v) {
    if (!std::isfinite(v)) {
      throw std::logic_error("a report holds no NaN and no infinity: write null and a state");
    }
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
    const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
    out_ += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  void WriteString(const std::string& raw) {
    out_ += '"';
    if (std::ranges::all_of(raw, IsWrittenAsItIs)) {
      out_ += raw;
      out_ += '"';
      return;
    }
    for (const char c : ValidUtf8(raw)) {
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
          } else {
            out_ += c;
          }
      }
    }
    out_ += '"';
  }

  void WriteArray(const Array& items, int depth) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    bool first = true;
    for (const Value& item : items) {
      if (!std::exchange(first, false)) out_ += ',';
      NewLine(depth + 1);
      Write(item, depth + 1);
    }
    NewLine(depth);
    out_ += ']';
  }

  void WriteObject(const Object& members, int depth) {
    if (members.empty()) {
      out_ += "{}";
      return;
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, item] : members) {
      if (!std::exchange(first, false)) out_ += ',';
      NewLine(depth + 1);
      WriteString(key);
      out_ += indent_ >= 0 ? ": " : ":";
      Write(item, depth + 1);
    }
    NewLine(depth);
    out_ += '}';
  }

  void NewLine(int depth) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(depth) * static_cast<std::size_t>(indent_), ' ');
  }

  int indent_;
  std::string out_;
};

// The library skips a byte order mark and takes a NUL byte for the end of the text.
void RefuseHiddenBytes(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    throw ConfigError("line 1, column 1", "a byte order mark; save the file as UTF-8 without it");
  }
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    throw ConfigError(LineAndColumn(text, nul), "a NUL byte, which is no JSON");
  }
}

}  // namespace

Value ParseJson(std::string_view text, const JsonLimits& limits) {
  return ParseJson(text, limits, TakenElements{});
}

Value ParseJson(std::string_view text, const JsonLimits& limits, const TakenElements& taken) {
  if (text.size() > limits.max_bytes) {
    throw ConfigError(
        "", fmt::format("{} bytes of JSON; the limit is {}", text.size(), limits.max_bytes));
  }
  RefuseHiddenBytes(text);
  ValueBuilder builder(text, limits, taken);
  nlohmann::json::sax_parse(builder.begin(), builder.end(), &builder);
  return builder.Take();
}

std::string DumpJson(const Value& value, int indent) {
  Writer writer(indent);
  writer.Write(value, 0);
  return writer.Take();
}

std::string ValueText(const Value& value) {
  return value.is_string() ? value.as_string() : DumpJson(value);
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) {
      valid += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

std::string PointerToken(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

}  // namespace mixerbench::io
