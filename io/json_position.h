// Where in a text a value of its JSON stands, for messages about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::io {

// From 1; a column counts bytes, as in the messages of ParseJson.
struct Position {
  std::size_t line = 1;
  std::size_t column = 1;
};

// The reference tokens of a JSON pointer, unescaped; none for "".
std::vector<std::string> PointerSteps(std::string_view pointer);

// Of the member (its key) or the item that these steps lead to from the root; nothing when they
// lead nowhere, or `json` is no JSON.
std::optional<Position> FindPosition(std::string_view json, const std::vector<std::string>& steps);

}  // namespace mixerbench::io
