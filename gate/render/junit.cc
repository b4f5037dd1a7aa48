// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <map>

#include "gate/render/row_text.h"
#include "gate/render/text_renderers.h"
#include "gate/verdict/failure_rows.h"
#include "io/json.h"
#include "io/text.h"

namespace mixerbench::gate {
namespace {

enum class Outcome { kPass, kFailure, kError, kSkipped };

Outcome OutcomeOf(const Row& row, const Comparison& comparison, const Tolerance& tolerance) {
  const GateSettings& settings = comparison.settings;
  switch (row.verdict) {
    case Verdict::kRegression:
      return row.metric == kStateMetric ? Outcome::kError : Outcome::kFailure;
    case Verdict::kSuspicious:
      return settings.suspicious_fails ? Outcome::kFailure : Outcome::kPass;
    case Verdict::kInconclusive:
      return settings.inconclusive_fails && !tolerance.inconclusive ? Outcome::kFailure
                                                                    : Outcome::kSkipped;
    case Verdict::kMissing:
      return tolerance.missing ? Outcome::kSkipped : Outcome::kError;
    case Verdict::kNotComparable:
      return Outcome::kError;
    case Verdict::kNotGated:
      return Outcome::kSkipped;
    default:
      return Outcome::kPass;
  }
}

std::string OneLine(const Row& row) {
  std::string text = VerdictWord(row.verdict) + ": " + EffectText(row);
  if (row.margin && row.effect.kind != EffectKind::kNone) text += ", margin " + MarginText(row);
  return text + ". " + row.say;
}

std::string Property(const std::string& name, const std::string& value) {
  return fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", EscapeXml(name),
                     EscapeXml(value));
}

// Names are tokens: one line.
std::string NameOfRow(const Row& row) {
  return io::PlainLine(SplitCell(row.cell).mixer + ": " + WhatText(row));
}

std::string TestCase(const std::string& task, const Row& row, Outcome outcome) {
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"",
                                 EscapeXml(task), EscapeXml(NameOfRow(row)));
  if (outcome == Outcome::kPass) return text + "/>\n";
  const std::string message = EscapeXml(OneLine(row));
  text += ">\n";
  if (outcome == Outcome::kSkipped) {
    text += fmt::format("      <skipped message=\"{}\"/>\n", message);
  } else {
    text += fmt::format("      <{0} message=\"{1}\" type=\"{2}\">{3}</{0}>\n",
                        outcome == Outcome::kFailure ? "failure" : "error", message,
                        NameOf(row.verdict), EscapeXml(ValuesText(row)));
  }
  return text + "    </testcase>\n";
}

struct Suite {
  std::string properties, cases, passed;
  std::int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
};

// What the schemas of Ant and of Jenkins both take: times of the whole are not measured, and a
// host is not told (reports are published).
std::string SuiteText(const std::string& task, const Suite& suite, std::size_t id,
                      const std::string& timestamp) {
  std::string text = fmt::format(
      "  <testsuite package=\"mixerbench.compare\" id=\"{}\" name=\"{}\" timestamp=\"{}\" "
      "hostname=\"localhost\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"0\">\n",
      id, EscapeXml(task), timestamp, suite.tests, suite.failures, suite.errors, suite.skipped);
  text += "    <properties>\n" + suite.properties + "    </properties>\n" + suite.cases;
  text += "    <system-out>" + EscapeXml(suite.passed) + "</system-out>\n";
  return text + "    <system-err></system-err>\n  </testsuite>\n";
}

// "2026-11-22T01:30:54Z" without its zone, which the schema of Ant does not have.
std::string Timestamp(const Comparison& comparison) {
  constexpr std::size_t kSeconds = 19;
  const std::string& started = comparison.candidate.started;
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

std::string RenderJUnit(const Comparison& comparison, const Tolerance& tolerance) {
  std::map<std::string, Suite> suites;  // by task
  for (const Row& row : comparison.rows) {
    const Outcome outcome = OutcomeOf(row, comparison, tolerance);
    std::string task = io::PlainLine(SplitCell(row.cell).task);
    if (task.empty()) task = "compare";
    Suite& suite = suites[task];
    suite.cases += TestCase(task, row, outcome);
    ++suite.tests;
    suite.failures += outcome == Outcome::kFailure;
    suite.errors += outcome == Outcome::kError;
    suite.skipped += outcome == Outcome::kSkipped;
    if (outcome == Outcome::kPass) suite.passed += NameOfRow(row) + ": " + OneLine(row) + "\n";
    if (!row.experiment_id.empty()) {
      suite.properties += Property("experiment_id of " + NameOfRow(row), row.experiment_id);
    }
  }
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  std::size_t id = 0;
  for (const auto& [task, suite] : suites) {
    text += SuiteText(task, suite, id++, Timestamp(comparison));
  }
  return text + "</testsuites>\n";
}

}  // namespace mixerbench::gate
