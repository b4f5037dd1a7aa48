// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mixerbench::tasks {

// Whether `text` is well-formed UTF-8: shortest forms, no surrogates.
bool IsUtf8(std::string_view text);

}  // namespace mixerbench::tasks
