// Launch shapes of the CUDA generator, as pure functions that the host can test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace mixerbench::tasks {

// Threads for one sample: a warp for every 128 tokens, since each thread turns one Philox block
// into four tokens; at most eight warps, so that many samples are resident at once.
constexpr unsigned GeneratorBlockSize(std::int64_t seq_len) {
  return 32 * static_cast<unsigned>(std::clamp<std::int64_t>((seq_len + 127) / 128, 1, 8));
}

// Blocks for `count` samples: enough to fill any GPU many times over, the rest is the grid-stride
// loop.
constexpr unsigned GeneratorGridSize(std::int64_t count) {
  return static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 16));
}

}  // namespace mixerbench::tasks
