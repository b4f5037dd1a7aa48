// The kernel of a scan (decay_scan.h, decay_scan.md). Included by the .cu files that instantiate
// it.
//
// Mapping: a CTA owns one (b, h), up to 64 channels of `out` and one segment of time.
// A consumer warp owns 16 channels and steps through time by blocks of 16 tokens; a producer warp
// loads such blocks into slots of shared memory, applies decays and computes their scores. Barriers
// in shared memory hand slots back and forth. Accumulators are fp32; no atomics, every sum has a
// fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/scan/decay_scan_consumer.cuh"
#include "kernels/linear_attention/scan/decay_scan_params.cuh"
#include "kernels/linear_attention/scan/decay_scan_producer.cuh"

namespace mixerbench::kernels::decay_scan {

// Threads: 32 (value_tile / 16 consumers + num_producers). Grid: value tiles, then sequences, then
// segments. Dynamic shared memory: ScanLayout. Registers: a consumer holds N / 2 fp32 values of
// state; below 128 key channels two CTAs share a multiprocessor.
template <typename Operand, int kKeys, DecayAxis kAxis>
__global__ void __launch_bounds__(256, kKeys == 128 ? 1 : 2)
    DecayScanKernel(const __grid_constant__ ScanParams p) {
  extern __shared__ __align__(16) char memory[];
  const ScanPosition at(p);
  const ScanLayout layout(sizeof(typename Operand::Element), kKeys, p.value_tile, kAxis,
                          p.num_slots, p.lookahead * p.num_producers);
  const SlotBarriers barriers(memory, p.num_slots);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int num_consumers = p.value_tile / 16;
  // In a tile that is not full the last consumers have nothing to do.
  const int num_busy = min(num_consumers, (p.value_dim - at.value_begin + 15) / 16);
  for (int slot = static_cast<int>(threadIdx.x); slot < p.num_slots; slot += blockDim.x) {
    InitBarrier(barriers.ready + slot, 32);
    InitBarrier(barriers.free + slot, 32 * num_busy);
  }
  SyncBlock();

  if (warp >= num_consumers) {
    Producer<Operand, kKeys, kAxis>(p, at, layout, memory, warp - num_consumers).Run(barriers);
  } else if (warp < num_busy) {
    Consumer<Operand, kKeys, kAxis>(p, at, layout, warp).Run(barriers, memory);
  }
}

}  // namespace mixerbench::kernels::decay_scan
