// A comparison as text: a table for terminals, Markdown, JUnit XML. Names come from files of others
// and are escaped for each form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gate/verdict/comparison.h"

namespace mixerbench::gate {

// Rows that decide first; of the rest their number, all of them when `with_passes`.
std::string RenderTerminal(const Comparison& comparison, ExitCode code, bool with_passes);

// At most `max_bytes`: rows that are no pass first, then as many others as fit.
std::string RenderMarkdown(const Comparison& comparison, ExitCode code,
                           std::size_t max_bytes = std::size_t{64} << 20);

// "::error title=...::..." lines for the first rows that fail.
std::string RenderAnnotations(const Comparison& comparison);

// A testsuite per task, a testcase per mixer and metric; regressions are failures, what is missing
// or cannot be compared is an error, what was not judged is skipped.
std::string RenderJUnit(const Comparison& comparison, const Tolerance& tolerance);

}  // namespace mixerbench::gate
