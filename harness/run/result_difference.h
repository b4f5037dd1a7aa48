// In what two results of one cell differ, to the bit. Times are no part of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

struct Difference {
  std::string key;  // JSON pointer
  Value stored;     // null: absent
  Value again;
};

// Leaves of two values that differ; numbers by their bits.
std::vector<Difference> FindDifferences(const Value& stored, const Value& again);

// In what a cell answered: state, learning curve, accuracies, model facts, plans that ran. The
// pointers are those of result.json.
std::vector<Difference> FindResultDifferences(const reports::CellResult& stored,
                                              const reports::CellResult& again);

// In what it ran with: device, libraries, compiler. The commit is no part: the code has hashes of
// its own (CellResult::code).
std::vector<Difference> FindEnvironmentDifferences(const reports::CellResult& stored,
                                                   const reports::CellResult& again);

}  // namespace mixerbench::harness
