// Heads of any size for device code that takes some sizes: keys and values are padded with zeros,
// the columns of a state cut in tiles that run as heads of their own.
//
// The columns of a state S [K,V] do not know of each other: each is a recurrence of its own with
// the same q, k and gates, the delta rule included. A tile of V is therefore a head whose o and
// final state are columns of the whole ones; gradients of q, k and scalar gates are sums over the
// tiles. Nothing is written to padded channels of a key, read from them or erased through them, so
// zeros change nothing. Without erasure the rows of S do not know of each other either: a tile of K
// is a head too, and o the sum over these tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/linear_attention/recurrence.h"
#include "kernels/runtime/device_plan.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {

// One axis of a head: `count` tiles of `size`, the last one padded. {K, 1}: as it is.
struct AxisTiles {
  std::int64_t size = 0;
  std::int64_t count = 1;

  friend bool operator==(const AxisTiles&, const AxisTiles&) = default;
};

struct HeadTiles {
  AxisTiles keys;
  AxisTiles values;

  friend bool operator==(const HeadTiles&, const HeadTiles&) = default;
};

// Whether the keys of a core may be cut: not where a write depends on all of them (delta rule).
enum class KeyTiles { kOne, kAny };

// The smallest size of `range` that holds `size` channels or, where the range ends before, that
// holds them in the fewest tiles; {size, 1} where one tile is all there may be.
AxisTiles TileAxis(std::int64_t size, const SizeRange& range, KeyTiles tiles);

// For the most general of `plans` with this dtype, the last one.
HeadTiles TileHeads(const PreparedRecurrence& sizes, const std::vector<DevicePlan>& plans,
                    std::string_view dtype, KeyTiles key_tiles);

// The sizes that `plans` take by way of tiles, for `list cores`: those of the most general plan of
// each dtype become any, which is added to its `when`.
std::vector<DevicePlan> WithTiledHeads(std::vector<DevicePlan> plans, KeyTiles key_tiles);

// What is added to the name of a plan: ", keys padded to 32, values in 2 tiles of 64". Empty for
// heads as they are.
std::string Describe(const HeadTiles& tiles, const PreparedRecurrence& sizes);

// The sizes of the recurrence in which tiles are heads.
PreparedRecurrence SizesOfTiles(const PreparedRecurrence& sizes, const HeadTiles& tiles);

using TiledCore = std::function<DeviceAttempt<RecurrenceResult>(const RecurrenceArgs& args,
                                                                const PreparedRecurrence& sizes)>;

// `core`, with its gradients by autograd around it, on heads cut into `tiles`; the plans that it
// records get Describe. Sums over tiles are formed at once, in fp32 or more, in a fixed order.
// Memory: copies of q, k and gates for each tile of V, of v for each tile of K and of all that is
// padded, kept for the backward pass, in which their gradients are as large again; none for heads
// as they are.
DeviceAttempt<RecurrenceResult> RunInTiles(const RecurrenceArgs& args,
                                           const PreparedRecurrence& sizes, const HeadTiles& tiles,
                                           const TiledCore& core);

}  // namespace mixerbench::kernels
