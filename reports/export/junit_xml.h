// JUnit XML, as CI systems read it: cases that passed, failed, broke down or were skipped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mixerbench::reports {

enum class CaseOutcome { kPassed, kFailure, kError, kSkipped };

struct JUnitCase {
  std::string suite;   // of cases that belong together: a task; becomes one line
  std::string name;    // becomes one line
  double seconds = 0;  // also where it is not known: the schema of Ant wants a number
  CaseOutcome outcome = CaseOutcome::kPassed;
  std::string message = {};  // of a case that passed, stands in the output of its suite
  std::string type = {};     // of a failure or an error: "regression", "oom"
  std::string details = {};  // its text
  // By name, such as "run_id"; of the suite, where the case's name follows theirs.
  std::vector<std::pair<std::string, std::string>> properties = {};
};

// Suites by name, each with its cases in their order. Both the schema of Ant and that of Jenkins
// take it: a host is not told (reports are published). `package` says what made it; `started` is
// UTC as ISO 8601, empty when it is not known.
std::string RenderJUnitXml(std::string_view package, const std::string& started,
                           const std::vector<JUnitCase>& cases);

// For XML 1.0: what it cannot hold becomes U+FFFD.
std::string EscapeXml(std::string_view text);

}  // namespace mixerbench::reports
