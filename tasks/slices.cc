// SPDX-License-Identifier: Apache-2.0
#include "tasks/slices.h"

#include "base/check.h"

namespace mixerbench::tasks {

SliceKey CountSlice(std::string_view name) {
  return {std::string(name), {"0", "1-3", "4-15", "16-63", "64+"}};
}

std::int32_t CountBucket(std::int64_t count) {
  Require(count >= 0, "a count is not negative");
  std::int32_t bucket = 0;
  for (std::int64_t limit = 1; bucket < 4 && count >= limit; limit *= 4) ++bucket;
  return bucket;
}

std::vector<SliceKey> EveryPositionSlices() {
  return {CountSlice("position"), {"last_position", {"last"}}};
}

void AssignEveryPosition(std::size_t num_positions, std::span<std::int32_t> buckets) {
  for (std::size_t t = 0; t < num_positions; ++t) {
    buckets[2 * t] = CountBucket(static_cast<std::int64_t>(t));
    buckets[2 * t + 1] = t + 1 == num_positions ? 0 : -1;
  }
}

SliceKey OccurrenceSlice(std::string_view name) {
  return {std::string(name), {"2", "3", "4-7", "8+"}};
}

std::int32_t OccurrenceBucket(std::int64_t occurrence) {
  Require(occurrence >= 2, "the first occurrence is not asked for");
  if (occurrence <= 3) return occurrence == 2 ? 0 : 1;
  return occurrence < 8 ? 2 : 3;
}

SliceKey DecileSlice(std::string_view name) {
  SliceKey slice{std::string(name), {}};
  for (int low = 0; low < 100; low += 10) {
    slice.buckets.push_back(std::to_string(low) + "-" + std::to_string(low + 10) + "%");
  }
  return slice;
}

std::int32_t DecileBucket(std::int64_t position, std::int64_t size) {
  Require(position >= 0 && position < size, "a position lies in its range");
  return static_cast<std::int32_t>(10 * position / size);
}

}  // namespace mixerbench::tasks
