// What device code there is for the selective scan, and how it cuts a problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/host_device.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::selective_scan {

// Of the one plan, chunk_scan: head_k_dim is the size of a channel's state, head_v_dim the channels
// of a group.
const std::vector<DevicePlan>& DevicePlans();

constexpr int kStatesPerThread = 4;
constexpr int kMaxStateSize = 32 * kStatesPerThread;

// How a CTA owns channels: `lanes` neighbouring threads of one warp hold the states
// of one channel, four each.
struct ScanLayout {
  int lanes;

  // 1, 2, 4, ... 32: the fewest for the states.
  static constexpr int LanesFor(std::int64_t state_size) {
    int lanes = 1;
    while (lanes * kStatesPerThread < state_size) lanes *= 2;
    return lanes;
  }

  MIXERBENCH_HOST_DEVICE constexpr int num_threads() const { return 64 * (lanes < 4 ? lanes : 4); }
  MIXERBENCH_HOST_DEVICE constexpr int num_channels() const { return num_threads() / lanes; }
  MIXERBENCH_HOST_DEVICE constexpr int num_warps() const { return num_threads() / 32; }
  // Tokens of a chunk, whose states a CTA keeps in shared memory in the backward pass. With 16 a
  // multiprocessor holds half the threads, and the pass takes 1.2 times as long.
  static constexpr int kChunk = 8;
  // States with padding, of which every thread has four.
  MIXERBENCH_HOST_DEVICE constexpr int padded_states() const { return kStatesPerThread * lanes; }

  constexpr std::int64_t NumChunks(std::int64_t seq_len) const {
    return (seq_len + kChunk - 1) / kChunk;
  }
  constexpr std::int64_t BlocksPerGroup(std::int64_t channels_per_group) const {
    return (channels_per_group + num_channels() - 1) / num_channels();
  }
};

}  // namespace mixerbench::kernels::selective_scan
