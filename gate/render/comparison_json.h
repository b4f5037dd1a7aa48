// A comparison as JSON: every row with its looks, and what it was judged by. The schema is
// gate/render/comparison-1.schema.json, docs/GATE.md describes every key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "gate/verdict/comparison.h"

namespace mixerbench::gate {

inline constexpr std::string_view kComparisonVersion = "1.0.0";

Value ComparisonToValue(const Comparison& comparison, ExitCode code);

// Sorted keys, indented, ends with a line end.
std::string RenderJson(const Comparison& comparison, ExitCode code);

std::string_view ComparisonSchema();

}  // namespace mixerbench::gate
