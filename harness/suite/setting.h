// What the command line or a collection sets in a suite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/value.h"

namespace mixerbench::harness {

// --set path=text in every cell of the suite `document`. `text` is JSON, else a plain string; it
// replaces what is swept over the same path, in the grid or in a zip. Several values,
// comma-separated at the top level, become an axis of sweep.grid; so does one value of a path that
// sweep.select chooses over, and one below a path that is swept, for ExpandSweep sets inner paths
// after outer ones. Throws ConfigError.
void ApplySetting(Object& document, const std::string& path, std::string_view text);

}  // namespace mixerbench::harness
