// A walk with one decay a token, in chunks of 64 tokens, by the warpgroup products of sm_90a
// (decay_walk.md). Included by the .cu file that instantiates it.
//
// Mapping: a block of threads owns one (b, h), 64 channels of `out` and one segment of time at a
// time. Its first warpgroup holds the state in registers and steps through time by chunks; the
// others load chunks into slots of shared memory and form their scores, in turn. Operands are bf16,
// accumulators fp32; no atomics, every sum has a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/cuda/chunk_preparer.cuh"
#include "kernels/cuda/chunk_walker.cuh"
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/cuda/launch.cuh"

namespace mixerbench::kernels::cuda {

// Threads: a warpgroup for the walker and one for each preparer. One block a multiprocessor walks
// one position after the other, so that preparers are at the next one while the walker ends the
// last.
constexpr int kChunkWalkThreads = warpgroup::kThreads * (1 + kChunkPreparers);

// Grid: any number of blocks; positions are value tiles, then sequences, then segments. Dynamic
// shared memory: ChunkWalkLayout.
template <int kKeys, ChunkWalkKind kKind>
__global__ void __launch_bounds__(kChunkWalkThreads, 1)
    ChunkWalkKernel(const __grid_constant__ WalkParams p) {
  extern __shared__ char shared[];
  constexpr auto kAlignment = static_cast<std::uintptr_t>(ChunkWalkLayout::kAlignment);
  char* memory = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(shared) + kAlignment - 1) / kAlignment * kAlignment);
  const ChunkWalkLayout layout(kKeys, p.num_slots, HasFactor(kKind));
  const SlotBarriers barriers(memory + layout.barriers, p.num_slots);
  for (int slot = static_cast<int>(threadIdx.x); slot < p.num_slots; slot += blockDim.x) {
    InitBarrier(barriers.ready + slot, warpgroup::kThreads);
    InitBarrier(barriers.free + slot, warpgroup::kThreads);
  }
  for (int slot = 0; slot < p.num_slots; ++slot) {
    auto* scores = reinterpret_cast<uint4*>(ChunkSlot<kKeys>(memory, layout, slot).scores);
    constexpr int kCount = sizeof(warpgroup::Tile) / sizeof(uint4);
    for (int i = static_cast<int>(threadIdx.x); i < kCount; i += blockDim.x) scores[i] = {};
  }
  warpgroup::PublishToProducts();
  SyncBlock();
  if (threadIdx.x < warpgroup::kThreads) {
    warpgroup::TakeRegisters<248>();
    ChunkWalker<kKeys, kKind>(p, layout).Run(barriers, memory);
  } else {
    warpgroup::GiveRegisters<128>();
    // From one lane, so that the compiler knows it to be uniform.
    const int index = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup::kThreads, 0) - 1;
    ChunkPreparer<kKeys, kKind>(p, layout, memory, index).Run(barriers);
  }
}

template <int kKeys, ChunkWalkKind kKind>
cudaError_t LaunchChunkWalkKernel(const WalkParams& p, int max_blocks, cudaStream_t stream) {
  const ChunkWalkLayout layout(kKeys, p.num_slots, HasFactor(kKind));
  const int num_positions = p.num_value_tiles * p.num_sequences * p.num_segments;
  return Launch(ChunkWalkKernel<kKeys, kKind>, std::min(num_positions, max_blocks),
                kChunkWalkThreads, static_cast<std::size_t>(layout.bytes), stream, p);
}

// The WalkFunction for plans that walk by chunks.
template <int kKeys>
int LaunchChunkWalk(const WalkProblem& problem, const WalkPlan& plan, CUstream_st* stream) {
  const auto launch = [&](const WalkParams& p) {
    if (p.sum_only) {
      return LaunchChunkWalkKernel<kKeys, ChunkWalkKind::kSum>(p, plan.max_blocks, stream);
    }
    if (p.states_to_save != nullptr) {
      return LaunchChunkWalkKernel<kKeys, ChunkWalkKind::kSave>(p, plan.max_blocks, stream);
    }
    if (p.states_to_compare != nullptr) {
      return LaunchChunkWalkKernel<kKeys, ChunkWalkKind::kCompare>(p, plan.max_blocks, stream);
    }
    return LaunchChunkWalkKernel<kKeys, ChunkWalkKind::kRead>(p, plan.max_blocks, stream);
  };
  return LaunchPlan<DecayAxis::kNone>(MakeWalkParams(problem, plan), problem, launch, stream);
}

}  // namespace mixerbench::kernels::cuda
