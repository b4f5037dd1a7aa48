// SPDX-License-Identifier: Apache-2.0
#include "reports/export/junit_xml.h"

#include <cstdint>
#include <fmt/format.h>
#include <map>

#include "io/json.h"
#include "io/text.h"

namespace mixerbench::reports {
namespace {

struct Suite {
  std::string properties, cases, passed;
  std::int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

// Names are tokens: one line.
std::string NameOf(const JUnitCase& one) { return io::PlainLine(one.name); }

std::string CaseText(const std::string& suite, const JUnitCase& one) {
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                 EscapeXml(suite), EscapeXml(NameOf(one)), one.seconds);
  if (one.outcome == CaseOutcome::kPassed) return text + "/>\n";
  const std::string message = EscapeXml(one.message);
  text += ">\n";
  if (one.outcome == CaseOutcome::kSkipped) {
    text += fmt::format("      <skipped message=\"{}\"/>\n", message);
  } else {
    text += fmt::format("      <{0} message=\"{1}\" type=\"{2}\">{3}</{0}>\n",
                        one.outcome == CaseOutcome::kFailure ? "failure" : "error", message,
                        EscapeXml(one.type), EscapeXml(one.details));
  }
  return text + "    </testcase>\n";
}

void Add(Suite& suite, const std::string& name, const JUnitCase& one) {
  suite.cases += CaseText(name, one);
  ++suite.tests;
  suite.failures += one.outcome == CaseOutcome::kFailure;
  suite.errors += one.outcome == CaseOutcome::kError;
  suite.skipped += one.outcome == CaseOutcome::kSkipped;
  suite.seconds += one.seconds;
  if (one.outcome == CaseOutcome::kPassed) suite.passed += NameOf(one) + ": " + one.message + "\n";
  for (const auto& [property, value] : one.properties) {
    suite.properties += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n",
                                    EscapeXml(property + " of " + NameOf(one)), EscapeXml(value));
  }
}

std::string SuiteText(std::string_view package, const std::string& name, const Suite& suite,
                      std::size_t id, const std::string& timestamp) {
  std::string text = fmt::format(
      "  <testsuite package=\"{}\" id=\"{}\" name=\"{}\" timestamp=\"{}\" hostname=\"localhost\" "
      "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n",
      package, id, EscapeXml(name), timestamp, suite.tests, suite.failures, suite.errors,
      suite.skipped, suite.seconds);
  text += "    <properties>\n" + suite.properties + "    </properties>\n" + suite.cases;
  text += "    <system-out>" + EscapeXml(suite.passed) + "</system-out>\n";
  return text + "    <system-err></system-err>\n  </testsuite>\n";
}

// "2026-11-22T01:30:54Z" without its zone, which the schema of Ant does not have.
std::string Timestamp(const std::string& started) {
  constexpr std::size_t kSeconds = 19;
  return started.size() >= kSeconds ? EscapeXml(started.substr(0, kSeconds))
                                    : "1970-01-01T00:00:00";
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  // ValidUtf8 leaves characters that XML 1.0 does not have: controls and the two noncharacters.
  const std::string valid = io::ValidUtf8(text);
  std::string out;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const char c = valid[i];
    if (std::string_view(valid).substr(i).starts_with("\xEF\xBF\xBE") ||
        std::string_view(valid).substr(i).starts_with("\xEF\xBF\xBF")) {
      out += "\xEF\xBF\xBD";
      i += 2;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\xEF\xBF\xBD";
    } else {
      out += c;
    }
  }
  return out;
}

std::string RenderJUnitXml(std::string_view package, const std::string& started,
                           const std::vector<JUnitCase>& cases) {
  std::map<std::string, Suite> suites;
  for (const JUnitCase& one : cases) {
    const std::string name = io::PlainLine(one.suite);
    Add(suites[name], name, one);
  }
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  std::size_t id = 0;
  for (const auto& [name, suite] : suites) {
    text += SuiteText(package, name, suite, id++, Timestamp(started));
  }
  return text + "</testsuites>\n";
}

}  // namespace mixerbench::reports
