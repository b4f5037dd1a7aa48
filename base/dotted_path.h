// Paths of values in a configuration and of taps: "model.sequence_mixer.num_heads".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace mixerbench {

// "num_heads" of the above; a path without dots is its last part.
inline std::string LastPart(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

// "model.sequence_mixer"; empty for a path without dots.
inline std::string AllButLastPart(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == std::string_view::npos ? 0 : dot));
}

}  // namespace mixerbench
