// Good and broken documents, judged by two implementations of JSON Schema.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/value.h"

namespace mixerbench::reports {

struct SchemaExample {
  std::string name;  // of a file, without ".json"
  std::string kind;  // "cell", "report", "leaderboard", "score" or "dataset"
  bool is_valid = false;
  Value document;
};

std::vector<SchemaExample> SchemaExamples();

}  // namespace mixerbench::reports
