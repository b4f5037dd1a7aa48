// SPDX-License-Identifier: Apache-2.0
#include "harness/device/step_kernels.h"

namespace mixerbench::harness {

bool ListScoredOnCpu(const std::int32_t* labels, std::int64_t num_rows, std::int64_t seq_len,
                     std::int64_t max_scored, const ScoredLists& lists) {
  const std::int64_t none = num_rows * max_scored;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::int64_t entry = row * max_scored;
    const std::int64_t end = entry + max_scored;
    for (std::int64_t t = 0; t < seq_len; ++t) {
      const std::int64_t position = row * seq_len + t;
      const std::int32_t label = labels[position];
      lists.entries[position] = none;
      if (label == tasks::kIgnore) continue;
      if (entry == end) return false;
      lists.positions[entry] = position;
      lists.targets[entry] = label;
      lists.entries[position] = entry++;
    }
    for (; entry < end; ++entry) {
      lists.positions[entry] = 0;
      lists.targets[entry] = tasks::kIgnore;
    }
  }
  return true;
}

}  // namespace mixerbench::harness
