// Options and lists as text and as JSON, for every `list` and `describe`. The one place that
// formats them: libtorch brings headers of another fmt, which its users would pick up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"

namespace mixerbench::harness {

// "name                    text\n": one line of a list.
std::string NameAndText(const std::string& name, const std::string& text);

std::string FieldsToText(const std::vector<FieldInfo>& fields);
Value FieldsToValue(const std::vector<FieldInfo>& fields);

}  // namespace mixerbench::harness
