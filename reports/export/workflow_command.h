// What GitHub's workflows take: lines that annotate a job, and pages that summarise it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mixerbench::reports {

inline constexpr std::size_t kMaxSummaryBytes = 900 * 1024;  // GitHub's cap is 1 MiB
inline constexpr std::size_t kMaxAnnotations = 10;           // of one step

// "::error title=TITLE::TEXT" and a line end; nothing of the texts, one line each, acts.
// level: "error" or "warning".
std::string Annotation(std::string_view level, std::string_view title, std::string_view text);

}  // namespace mixerbench::reports
