// A scan with one decay a token, in chunks of 64 tokens, by the warpgroup products of sm_90a
// (decay_scan.md). Included by the .cu file that instantiates it.
//
// Mapping: a CTA owns one (b, h), 64 channels of `out` and one segment of time at a
// time. Its first warpgroup holds the state in registers and steps through time by chunks; the
// others load chunks into slots of shared memory and form their scores, in turn. Operands are bf16,
// accumulators fp32; no atomics, every sum has a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"
#include "kernels/linear_attention/scan/wgmma_scan_consumer.cuh"
#include "kernels/linear_attention/scan/wgmma_scan_producer.cuh"

namespace mixerbench::kernels::decay_scan {

// Threads: a warpgroup for the consumer and one for each producer. One block a multiprocessor scans
// one position after the other, so that producers are at the next one while the consumer ends the
// last.
constexpr int kWgmmaScanThreads = warpgroup::kThreads * (1 + kWgmmaScanProducers);

// Grid: any number of blocks; positions are value tiles, then sequences, then segments. Dynamic
// shared memory: WgmmaScanLayout.
template <int kKeys, WgmmaScanKind kKind>
__global__ void __launch_bounds__(kWgmmaScanThreads, 1)
    WgmmaScanKernel(const __grid_constant__ ScanParams p) {
  extern __shared__ char shared[];
  constexpr auto kAlignment = static_cast<std::uintptr_t>(WgmmaScanLayout::kAlignment);
  char* memory = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(shared) + kAlignment - 1) / kAlignment * kAlignment);
  const WgmmaScanLayout layout(kKeys, p.num_slots, HasFactor(kKind));
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
    WgmmaScanConsumer<kKeys, kKind>(p, layout).Run(barriers, memory);
  } else {
    warpgroup::GiveRegisters<128>();
    // From one lane, so that the compiler knows it to be uniform.
    const int index = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup::kThreads, 0) - 1;
    WgmmaScanProducer<kKeys, kKind>(p, layout, memory, index).Run(barriers);
  }
}

template <int kKeys, WgmmaScanKind kKind>
cudaError_t LaunchWgmmaScanKernel(const ScanParams& p, int max_blocks, cudaStream_t stream) {
  const WgmmaScanLayout layout(kKeys, p.num_slots, HasFactor(kKind));
  const int num_positions = p.num_value_tiles * p.num_sequences * p.num_segments;
  return Launch(WgmmaScanKernel<kKeys, kKind>, std::min(num_positions, max_blocks),
                kWgmmaScanThreads, static_cast<std::size_t>(layout.bytes), stream, p);
}

// The ScanFunction for plans that scan by chunks.
template <int kKeys>
int LaunchWgmmaScan(const ScanProblem& problem, const ScanPlan& plan, CUstream_st* stream) {
  const auto launch = [&](const ScanParams& p) {
    if (p.sum_only) {
      return LaunchWgmmaScanKernel<kKeys, WgmmaScanKind::kSum>(p, plan.max_blocks, stream);
    }
    if (p.states_to_save != nullptr) {
      return LaunchWgmmaScanKernel<kKeys, WgmmaScanKind::kSave>(p, plan.max_blocks, stream);
    }
    if (p.states_to_compare != nullptr) {
      return LaunchWgmmaScanKernel<kKeys, WgmmaScanKind::kCompare>(p, plan.max_blocks, stream);
    }
    return LaunchWgmmaScanKernel<kKeys, WgmmaScanKind::kRead>(p, plan.max_blocks, stream);
  };
  return LaunchPlan<DecayAxis::kNone>(MakeScanParams(problem, plan), problem, launch, stream);
}

}  // namespace mixerbench::kernels::decay_scan
