// Buckets that tasks sort scored positions into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tasks/task.h"

namespace mixerbench::tasks {

// Buckets 0, 1-3, 4-15, 16-63, 64+ for counts and distances.
SliceKey CountSlice(std::string_view name);
std::int32_t CountBucket(std::int64_t count);

// Buckets 2, 3, 4-7, 8+ for which showing of a key this is.
SliceKey OccurrenceSlice(std::string_view name);
// occurrence >= 2: the first one is not asked for.
std::int32_t OccurrenceBucket(std::int64_t occurrence);

// Buckets 0-10%, ..., 90-100% for a position within a range.
SliceKey DecileSlice(std::string_view name);
// position in 0..size-1.
std::int32_t DecileBucket(std::int64_t position, std::int64_t size);

}  // namespace mixerbench::tasks
