// What may stand at the top of a suite, for reading it and for its schema.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mixerbench::harness {

// Sorted. "smoke" is taken out before the others are read.
inline std::vector<std::string> SuiteKeys() {
  return {"$schema", "analyse", "description", "evaluate", "model",      "name", "schema_version",
          "seeds",   "smoke",   "sweep",       "task",     "throughput", "train"};
}

}  // namespace mixerbench::harness
