// SPDX-License-Identifier: Apache-2.0
#include "io/text.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench {

TEST_CASE("text: lines are plain, whatever they hold") {
  CHECK(io::PlainLine("a\tb\r\nc\x1b[31m\x7f\xff") == "a b  c[31m\xEF\xBF\xBD");
  CHECK(io::PlainLine("a\xE2\x80\xAE\xE2\x81\xA6\xC2\x9B\x62") == "ab");
  CHECK(io::PlainLine("\xC3\xA9 \xE2\x80\x93 \xE6\xBC\xA2") ==
        "\xC3\xA9 \xE2\x80\x93 \xE6\xBC\xA2");
  CHECK(io::EscapeHtml("<a href=\"x\">'&") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  CHECK(io::EscapeMarkdown("a|b_c<d>@e") == "a\\|b\\_c&lt;d&gt;&#64;e");
}

TEST_CASE("text: lines are escaped one by one") {
  using Lines = std::vector<std::string_view>;
  CHECK(io::LinesOf("") == Lines{""});
  CHECK(io::LinesOf("a") == Lines{"a"});
  CHECK(io::LinesOf("\na\n\nb\n") == Lines{"", "a", "", "b", ""});
  CHECK(io::EscapeHtmlLines("a<b\n\nc", "&#10;") == "a&lt;b&#10;&#10;c");
  CHECK(io::EscapeHtmlLines("\na\n", "\n") == "\na\n");
  CHECK(io::EscapeHtmlLines("", "\n").empty());
}

TEST_CASE("text: CSV fields are quoted and never formulas") {
  CHECK(io::CsvField("a") == "a");
  CHECK(io::CsvField("a,\"b\"") == "\"a,\"\"b\"\"\"");
  for (const char* formula : {"=1+1", "+1", "-1", "@x"}) {
    CHECK(io::CsvField(formula) == "'" + std::string(formula));
  }
}

TEST_CASE("text: shares near 0 and 1 do not read as 0 and 1") {
  CHECK(io::FormatPercent(1) == "100.0");
  CHECK(io::FormatPercent(0.99999) == "99.99");
  CHECK(io::FormatPercent(0.9871) == "98.7");
  CHECK(io::FormatPercent(1.0 / 8192) == "0.012");
  CHECK(io::FormatPercent(0) == "0.0");
  CHECK(io::FormatBytes(65536) == "64 KiB");
  CHECK(io::FormatBytes(1000) == "1000 B");
}

}  // namespace mixerbench
