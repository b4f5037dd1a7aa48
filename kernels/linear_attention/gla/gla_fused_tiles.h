// How heads are cut for the fused plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/linear_attention/gla/gla_plan.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels::gla {

// Two tiles. Every tile of keys copies v and is one more o to add.
constexpr std::int64_t kMaxFusedKeys = 128;

// V of K or twice it, K above 64 in two tiles, wider values in any number. nullopt: K too wide, or
// values so few that more than half of the products would be with zeros.
inline std::optional<HeadTiles> FusedTiles(const PreparedRecurrence& sizes) {
  const SizeRange& dims = DevicePlans().front().head_k_dim;
  const AxisTiles keys = TileAxis(sizes.head_k_dim, dims, KeyTiles::kAny);
  SizeRange value_dims = {.values = {keys.size}};
  if (dims.Contains(2 * keys.size)) value_dims.values.push_back(2 * keys.size);
  const AxisTiles values = TileAxis(sizes.head_v_dim, value_dims, KeyTiles::kAny);
  if (sizes.head_k_dim > kMaxFusedKeys || 2 * sizes.head_v_dim < values.size) return std::nullopt;
  return HeadTiles{.keys = keys, .values = values};
}

}  // namespace mixerbench::kernels::gla
