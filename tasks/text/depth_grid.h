// RULER's depths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::tasks {

inline constexpr std::uint32_t kNumGridDepths = 40;

// Point k of the grid in percent: 100k/39 rounded; 0, 3, 5, ..., 100.
constexpr std::int64_t GridDepth(std::uint32_t k) { return (200 * std::int64_t{k} + 39) / 78; }

}  // namespace mixerbench::tasks
