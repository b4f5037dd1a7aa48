// Words and numbers as people read them, and escaping for the formats that reports are written in.
// Names and reasons come from configs and from other programs: nothing of them may act.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::io {

// `text` on one line: valid UTF-8, without control characters (terminal escapes above all) and
// without those that change the direction of text.
std::string PlainLine(std::string_view text);

// The lines of `text`, which they are parts of: one more than it has line feeds.
std::vector<std::string_view> LinesOf(std::string_view text);

// For element content and for attributes in double quotes; a line feed is no text.
std::string EscapeHtml(std::string_view text);

// Each line of `text` by itself, with `line_end` between them.
std::string EscapeHtmlLines(std::string_view text, std::string_view line_end);

// For a cell of a Markdown table: no markup, no cell or line end, no HTML.
std::string EscapeMarkdown(std::string_view text);

// One CSV field (RFC 4180): quoted where needed; text that a spreadsheet would run as a formula
// gets a ' in front.
std::string CsvField(std::string_view text);

std::string FormatPercent(double share);         // 0.9871 -> "98.7"; "0.0" and "100.0" are exact
std::string FormatBytes(std::int64_t bytes);     // 65536 -> "64 KiB"
std::string ShortHash(const std::string& hash);  // "sha256:3f1c..." -> "3f1c5e0a91d2"

}  // namespace mixerbench::io
