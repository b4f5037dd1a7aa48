// SPDX-License-Identifier: Apache-2.0
#include "io/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "io/json.h"

namespace mixerbench::io {
namespace {

// The length in bytes of a C1 control (U+0080-9F) or of a bidirectional control (U+200E-F,
// U+202A-E, U+2066-9), or a line separator (U+2028-9), at the front of valid UTF-8; else 0.
std::size_t InvisibleLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() >= 2 && byte(0) == 0xC2 && byte(1) < 0xA0) return 2;
  if (text.size() >= 3 && byte(0) == 0xE2) {
    if (byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F)) return 3;
    if (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) return 3;
    if (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9) return 3;
  }
  return 0;
}

template <typename Escape>
std::string Escaped(std::string_view text, Escape escape) {
  std::string out;
  for (const char c : PlainLine(text)) {
    const std::string_view replacement = escape(c);
    if (replacement.empty()) {
      out += c;
    } else {
      out += replacement;
    }
  }
  return out;
}

std::string_view HtmlEntity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

std::string_view MarkdownEscape(char c) {
  switch (c) {
    case '|':
      return "\\|";
    case '*':
      return "\\*";
    case '_':
      return "\\_";
    case '`':
      return "\\`";
    case '[':
      return "\\[";
    case ']':
      return "\\]";
    case '\\':
      return "\\\\";
    case '~':
      return "\\~";
    case '!':
      return "\\!";
    case '#':
      return "\\#";
    case '@':
      return "&#64;";  // a forge would notify somebody
    default:
      return HtmlEntity(c);
  }
}

}  // namespace

std::string PlainLine(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  std::string line;
  for (std::string_view rest = valid; !rest.empty();) {
    const auto c = static_cast<unsigned char>(rest.front());
    if (const std::size_t length = InvisibleLength(rest); length > 0) {
      rest.remove_prefix(length);
    } else {
      if (c == '\n' || c == '\r' || c == '\t') {
        line += ' ';
      } else if (c >= 0x20 && c != 0x7F) {
        line += rest.front();
      }
      rest.remove_prefix(1);
    }
  }
  return line;
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string EscapeHtml(std::string_view text) { return Escaped(text, HtmlEntity); }

std::string EscapeHtmlLines(std::string_view text, std::string_view line_end) {
  std::string out;
  for (const std::string_view line : LinesOf(text)) {
    out += (line.data() == text.data() ? "" : line_end);
    out += EscapeHtml(line);
  }
  return out;
}

std::string EscapeMarkdown(std::string_view text) { return Escaped(text, MarkdownEscape); }

std::string CsvField(std::string_view text) {
  std::string field = PlainLine(text);
  if (!field.empty() && std::string_view("=+-@").find(field.front()) != std::string_view::npos) {
    field.insert(field.begin(), '\'');
  }
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string FormatPercent(double share) {
  // 99.96 must not read as a full 100.0, nor 0.04 as nothing.
  const double percent = 100 * share;
  if (percent < 100 && percent > 99.9) return fmt::format("{:.2f}", std::min(percent, 99.99));
  if (percent > 0 && percent < 0.1) return fmt::format("{:.2g}", percent);
  return fmt::format("{:.1f}", percent);
}

std::string FormatBytes(std::int64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string ShortHash(const std::string& hash) { return hash.substr(hash.find(':') + 1, 12); }

}  // namespace mixerbench::io
