// The kernel of a walk (decay_walk.h, decay_walk.md). Included by the .cu files that instantiate
// it.
//
// Mapping: a block of threads owns one (b, h), up to 64 channels of `out` and one segment of time.
// A walker warp owns 16 channels and steps through time by blocks of 16 tokens; a preparer warp
// loads such blocks into slots of shared memory, applies decays and computes their scores. Barriers
// in shared memory hand slots back and forth. Accumulators are fp32; no atomics, every sum has a
// fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/decay_preparer.cuh"
#include "kernels/cuda/decay_walk_params.cuh"
#include "kernels/cuda/decay_walker.cuh"

namespace mixerbench::kernels::cuda {

// Threads: 32 (value_tile / 16 walkers + num_preparers). Grid: value tiles, then sequences, then
// segments. Dynamic shared memory: WalkLayout. Registers: a walker holds N / 2 fp32 values of
// state; below 128 key channels two blocks of threads share a multiprocessor.
template <typename Operand, int kKeys, DecayAxis kAxis>
__global__ void __launch_bounds__(256, kKeys == 128 ? 1 : 2)
    DecayWalkKernel(const __grid_constant__ WalkParams p) {
  extern __shared__ __align__(16) char memory[];
  const WalkPosition at(p);
  const WalkLayout layout(sizeof(typename Operand::Element), kKeys, p.value_tile, kAxis,
                          p.num_slots, p.lookahead * p.num_preparers);
  const SlotBarriers barriers(memory, p.num_slots);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int num_walkers = p.value_tile / 16;
  // In a tile that is not full the last walkers have nothing to do.
  const int num_busy = min(num_walkers, (p.value_dim - at.value_begin + 15) / 16);
  for (int slot = static_cast<int>(threadIdx.x); slot < p.num_slots; slot += blockDim.x) {
    InitBarrier(barriers.ready + slot, 32);
    InitBarrier(barriers.free + slot, 32 * num_busy);
  }
  SyncBlock();

  if (warp >= num_walkers) {
    Preparer<Operand, kKeys, kAxis>(p, at, layout, memory, warp - num_walkers).Run(barriers);
  } else if (warp < num_busy) {
    Walker<Operand, kKeys, kAxis>(p, at, layout, warp).Run(barriers, memory);
  }
}

}  // namespace mixerbench::kernels::cuda
