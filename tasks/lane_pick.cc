// SPDX-License-Identifier: Apache-2.0
#include "tasks/lane_pick.h"

namespace mixerbench::tasks {

std::vector<std::uint32_t> WeightSums(std::span<const std::uint32_t> weights) {
  const std::uint32_t num_blocks = NumSlotBlocks(static_cast<std::uint32_t>(weights.size()));
  std::vector<std::uint32_t> before_block;
  std::vector<std::uint32_t> in_block;
  std::uint32_t before = 0;
  for (std::size_t b = 0; b < num_blocks; ++b) {
    before_block.push_back(before);
    std::uint32_t sum = 0;
    for (std::size_t slot = b * kSlotsPerBlock; slot < (b + 1) * kSlotsPerBlock; ++slot) {
      if (slot < weights.size()) sum += weights[slot];
      in_block.push_back(sum);
    }
    before += sum;
  }
  before_block.insert(before_block.end(), in_block.begin(), in_block.end());
  return before_block;
}

}  // namespace mixerbench::tasks
