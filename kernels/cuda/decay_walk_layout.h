// Shared memory of a walk: where the parts of one stage lie. Used by the kernel and by its plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/decay_walk.h"

#ifdef __CUDACC__
#define MIXERBENCH_HOST_DEVICE __host__ __device__
#else
#define MIXERBENCH_HOST_DEVICE
#endif

namespace mixerbench::kernels::cuda {

// Stages in shared memory at once: one is walked, the next prepared, a third on its way.
constexpr int kNumStages = 3;

// Key channels of the compiled kernels; fewer are padded with zeros.
MIXERBENCH_HOST_DEVICE constexpr int PaddedKeys(std::int64_t key_dim) {
  return key_dim <= 32 ? 32 : key_dim <= 64 ? 64 : 128;
}

// Byte offsets in a stage of `blocks` times 16 tokens; every part starts at a multiple of 16.
struct StageLayout {
  int x_stride, z_stride, gate_stride;  // elements between rows
  int y, z, gates, scores, factors;     // x lies at 0
  int bytes;

  MIXERBENCH_HOST_DEVICE constexpr StageLayout(int element_size, int keys, int value_tile,
                                               int blocks, DecayAxis axis)
      : x_stride(keys + 8),
        z_stride(value_tile + 8),
        gate_stride(value_tile + 4),
        y(16 * blocks * x_stride * element_size),
        z(2 * y),
        gates(z + 16 * blocks * z_stride * element_size),
        scores(gates + (axis == DecayAxis::kValue ? 16 * blocks * gate_stride * 4 : 0)),
        factors(scores + 256 * blocks * element_size),
        // kNone: a factor for each token on either side and a decay for each block, kKey: decays
        // for each block and channel and a flag for each block.
        bytes(factors + (axis == DecayAxis::kNone  ? 4 * (2 * 16 + 4) * blocks
                         : axis == DecayAxis::kKey ? 4 * (keys + 4) * blocks
                                                   : 0)) {}
};

}  // namespace mixerbench::kernels::cuda
