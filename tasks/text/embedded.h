// Data files compiled into the program (generated from tasks/text/data/).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mixerbench::tasks {

// The bytes of data/<file_name>; empty for an unknown name.
std::string_view EmbeddedData(std::string_view file_name);

}  // namespace mixerbench::tasks
