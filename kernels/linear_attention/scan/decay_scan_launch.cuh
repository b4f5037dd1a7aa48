// Starting a scan: the choice among compiled kernels, and the plan with segments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/scan/decay_scan.cuh"

namespace mixerbench::kernels::decay_scan {

// Turns the sums of segments into the states that enter them, in place. One thread an element of
// the state; the loop over segments has independent loads. States are [segment, B H, M, N], dense.
template <DecayAxis kAxis>
__global__ void ScanSegmentsKernel(const ScanParams p, StatePlace initial_state, float* states) {
  const std::int64_t elements = static_cast<std::int64_t>(p.value_dim) * p.key_dim;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= elements * p.num_sequences) return;
  const std::int64_t sequence = index / elements;
  const int m = static_cast<int>(index % elements / p.key_dim);
  const int n = static_cast<int>(index % p.key_dim);
  const int num_channels = kAxis == DecayAxis::kNone  ? 1
                           : kAxis == DecayAxis::kKey ? p.key_dim
                                                      : p.value_dim;
  const int channel = kAxis == DecayAxis::kNone ? 0 : kAxis == DecayAxis::kKey ? n : m;

  float state = 0;
  if (initial_state.data != nullptr) {
    state = p.state_in_scale *
            initial_state.data[sequence * initial_state.sequence_stride +
                               m * initial_state.value_stride + n * initial_state.key_stride];
  }
  for (int i = 0; i < p.num_segments; ++i) {
    const int segment = p.reverse ? p.num_segments - 1 - i : i;
    float& place = states[segment * elements * p.num_sequences + index];
    const float written = place;
    place = state;
    float decay = 0;
    for (int slot = 0; slot < p.num_producers; ++slot) {
      decay += p.segment_decays[((static_cast<std::int64_t>(segment) * p.num_sequences + sequence) *
                                     p.num_producers +
                                 slot) *
                                    num_channels +
                                channel];
    }
    state = state * Exp(decay) + written;
  }
}

template <typename Operand, int kKeys, DecayAxis kAxis>
cudaError_t LaunchScanKernel(const ScanParams& p, cudaStream_t stream) {
  const ScanLayout layout(sizeof(typename Operand::Element), kKeys, p.value_tile, kAxis,
                          p.num_slots, p.lookahead * p.num_producers);
  const int num_threads = 32 * (p.value_tile / 16 + p.num_producers);
  const int num_blocks = p.num_value_tiles * p.num_sequences * p.num_segments;
  return Launch(DecayScanKernel<Operand, kKeys, kAxis>, num_blocks, num_threads,
                static_cast<std::size_t>(layout.bytes), stream, p);
}

// Launches what the plan needs; `launch` starts one scan.
template <DecayAxis kAxis, typename LaunchFunction>
cudaError_t LaunchPlan(ScanParams p, const ScanProblem& problem, const LaunchFunction& launch,
                       cudaStream_t stream) {
  if (p.num_segments > 1) {
    const StatePlace states = {
        .data = problem.segment_states,
        .segment_stride = static_cast<std::int64_t>(p.num_sequences) * p.value_dim * p.key_dim,
        .sequence_stride = static_cast<std::int64_t>(p.value_dim) * p.key_dim,
        .value_stride = p.key_dim,
        .key_stride = 1};
    ScanParams sums = p;
    sums.sum_only = true;
    sums.state_out_scale = 1;  // between launches, states stay those of the kernel
    sums.initial_state.data = nullptr;
    sums.final_state = states;
    sums.final_state_of_all = true;
    sums.states_to_save = nullptr;
    sums.states_to_compare = nullptr;
    sums.factor.data = nullptr;
    cudaError_t status = launch(sums);
    if (status != cudaSuccess) return status;

    constexpr int kThreads = 256;
    const std::int64_t elements = states.sequence_stride * p.num_sequences;
    const auto num_blocks = static_cast<unsigned>((elements + kThreads - 1) / kThreads);
    ScanSegmentsKernel<kAxis><<<num_blocks, kThreads, 0, stream>>>(p, p.initial_state, states.data);
    status = cudaGetLastError();
    if (status != cudaSuccess) return status;
    p.initial_state = states;
    p.state_in_scale = 1;
  }
  return launch(p);
}

inline ScanParams MakeScanParams(const ScanProblem& problem, const ScanPlan& plan) {
  ScanParams p = {};
  p.x = problem.x;
  p.y = problem.y;
  p.z = problem.z;
  p.out = problem.out;
  p.log_decay = problem.log_decay;
  p.initial_state = {.data = const_cast<float*>(problem.initial_state),
                     .sequence_stride = problem.value_dim * problem.key_dim,
                     .value_stride = problem.state_value_stride,
                     .key_stride = problem.state_key_stride};
  p.final_state = p.initial_state;
  p.final_state.data = problem.final_state;
  p.first_state = p.initial_state;
  p.first_state.data = const_cast<float*>(problem.first_state);
  p.factor = problem.factor;
  p.token_products = problem.token_products;
  p.segment_decays = problem.segment_decays;
  p.states_to_save = problem.states_to_save;
  p.states_to_compare = problem.states_to_compare;
  p.state_products = problem.state_products;
  p.scale = problem.x_scale * problem.y_scale;
  p.state_in_scale = 1 / problem.y_scale;
  p.state_out_scale = problem.y_scale;
  p.seq_len = static_cast<int>(problem.seq_len);
  p.num_heads = static_cast<int>(problem.num_heads);
  p.num_sequences = static_cast<int>(problem.batch_size * problem.num_heads);
  p.key_dim = static_cast<int>(problem.key_dim);
  p.value_dim = static_cast<int>(problem.value_dim);
  p.value_tile = plan.value_tile;
  p.num_value_tiles = (p.value_dim + plan.value_tile - 1) / plan.value_tile;
  p.num_producers = plan.num_producers;
  p.num_slots = plan.num_slots;
  p.lookahead = plan.lookahead;
  p.tokens_per_segment = plan.tokens_per_segment;
  p.num_segments = plan.num_segments;
  p.reverse = problem.reverse;
  return p;
}

// The ScanFunction for one kind of operands and one axis of decays.
template <typename Operand, DecayAxis kAxis>
int LaunchScan(const ScanProblem& problem, const ScanPlan& plan, CUstream_st* stream) {
  const auto launch = [&](const ScanParams& p) {
    switch (PaddedKeys(problem.key_dim)) {
      case 32:
        return LaunchScanKernel<Operand, 32, kAxis>(p, stream);
      case 64:
        return LaunchScanKernel<Operand, 64, kAxis>(p, stream);
      default:
        return LaunchScanKernel<Operand, 128, kAxis>(p, stream);
    }
  };
  return LaunchPlan<kAxis>(MakeScanParams(problem, plan), problem, launch, stream);
}

}  // namespace mixerbench::kernels::decay_scan
