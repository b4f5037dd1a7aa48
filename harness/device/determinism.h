// `--deterministic strict`: what cannot be repeated bit by bit is refused, not declared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "reports/result/result.h"

namespace mixerbench::harness {

// From now on an operation without a deterministic form throws, and memory that is not written
// before it is read holds the same bytes each time. After SetNumerics; holds for the process.
void BeStrict();

// Names the flag in front of a cell's failure that BeStrict caused: the cell is then unsupported.
void ExplainRefusal(reports::CellResult& result);

// Whether a result is such a refusal.
bool IsStrictRefusal(const reports::CellResult& result);

// Whether a result was made in strict mode, by its environment.
bool WasStrict(const reports::CellResult& result);

}  // namespace mixerbench::harness
