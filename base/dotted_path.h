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

// Whether a path is `outer` or leads into what `outer` leads to.
inline bool LiesIn(std::string_view path, std::string_view outer) {
  return path.starts_with(outer) && (path.size() == outer.size() || path[outer.size()] == '.');
}

// Whether the last parts of a path are `end`: "num_heads", "sequence_mixer.num_heads".
inline bool EndsWithPath(std::string_view path, std::string_view end) {
  return path.ends_with(end) &&
         (path.size() == end.size() || path[path.size() - end.size() - 1] == '.');
}

}  // namespace mixerbench
