// Buckets that tasks sort scored positions into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace mixerbench::tasks {

// Buckets 0, 1-3, 4-15, 16-63, 64+ for counts and distances.
SliceKey CountSlice(std::string_view name);
std::int32_t CountBucket(std::int64_t count);

// For tasks that ask at every position: how far it is from the start, and whether it is the last.
std::vector<SliceKey> EveryPositionSlices();
// buckets: two for each of the positions.
void AssignEveryPosition(std::size_t num_positions, std::span<std::int32_t> buckets);

// Buckets 2, 3, 4-7, 8+ for which showing of a key this is.
SliceKey OccurrenceSlice(std::string_view name);
// occurrence >= 2: the first one is not asked for.
std::int32_t OccurrenceBucket(std::int64_t occurrence);

// Buckets 0-10%, ..., 90-100% for a position within a range.
SliceKey DecileSlice(std::string_view name);
// position in 0..size-1.
std::int32_t DecileBucket(std::int64_t position, std::int64_t size);

}  // namespace mixerbench::tasks
