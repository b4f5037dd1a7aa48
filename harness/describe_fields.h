// Options as text and as JSON, for every `describe`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"

namespace mixerbench::harness {

std::string FieldsToText(const std::vector<FieldInfo>& fields);
Value FieldsToValue(const std::vector<FieldInfo>& fields);

}  // namespace mixerbench::harness
