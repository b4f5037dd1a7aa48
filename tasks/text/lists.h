// Lists as English prompts write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::tasks {

// "a", "a, and b", "a, b, and c".
std::string WriteList(const std::vector<std::string>& items);

// The items of WriteList's text; they hold no comma.
std::vector<std::string> ReadList(std::string_view text);

// The pieces of `text` between `separator`s.
std::vector<std::string> Split(std::string_view text, char separator);

}  // namespace mixerbench::tasks
