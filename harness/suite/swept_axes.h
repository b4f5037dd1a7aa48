// Where a suite has its axes: the grid, and the zip or each of a list of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/value.h"

namespace mixerbench::harness {

struct SweptAxes {
  Object* axes;  // values by paths; of the document
  bool is_zip;   // they have as many values each
};

// Those that are objects; what is of another form is an error of the suite, told where it is read.
std::vector<SweptAxes> SweptAxesOf(Object& document);

}  // namespace mixerbench::harness
