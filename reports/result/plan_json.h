// What ran, as JSON: the plans of a cell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/value.h"
#include "io/object_reader.h"
#include "reports/result/result.h"

namespace mixerbench::reports {

// Phases and shapes with the same functions stand together: {"runs": [...], "functions": [...]}.
Value PlansToValue(const std::vector<PhasePlan>& plans);
// None where an older version wrote the document.
std::vector<PhasePlan> PlansFrom(const io::ObjectReader& reader, std::string_view key);

// Removes what --no-graph decides and no result depends on.
void DropExecution(Value& plans);

}  // namespace mixerbench::reports
