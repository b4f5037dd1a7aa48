// What the delta rule's kernels share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/launch.cuh"
#include "kernels/device/tiles.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_layout.h"

namespace mixerbench::kernels::delta_rule {

using device::Accumulators;
using device::PaddedRow;
using device::Sequence;

template <typename Operand>
constexpr int kChunk = sizeof(typename Operand::Element) == 2 ? 64 : 32;

// Rows of DeltaRuleFactorData::gates.
enum Gate { kCumulativeLogDecay, kEntering, kLeaving, kBeta };

// The row of a token tensor that holds token `t` of (b, h) = row.
template <typename Element>
__device__ Element* TokenRow(const Sequence& x, std::int64_t num_heads, std::int64_t row,
                             std::int64_t t) {
  return static_cast<Element*>(x.data) + row / num_heads * x.batch_stride +
         row % num_heads * x.head_stride + t * x.token_stride;
}

// Column `column` of the state of (b, h) = row in [B,H,K,V]; null when there are no states.
template <typename Float>
__device__ Float* StateColumn(Float* states, const DeltaRuleSizes& sizes, std::int64_t row,
                              std::int64_t column) {
  return states == nullptr ? nullptr : states + row * sizes.head_k_dim * sizes.head_v_dim + column;
}

// 16 columns of a state [K,V] in fp32, transposed; zeros for a null pointer. `stride` is V.
template <int kBlocks>
__device__ void LoadState(Accumulators (&state)[kBlocks], const float* column,
                          std::int64_t stride) {
  device::Clear(state);
  if (column == nullptr) return;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      state[n][e / 4][e % 4] =
          column[(16 * n + device::BlockColumn(e / 4, e % 4)) * stride + device::BlockRow(e % 4)];
    }
  }
}

template <int kBlocks>
__device__ void StoreState(const Accumulators (&state)[kBlocks], float* column,
                           std::int64_t stride) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      column[(16 * n + device::BlockColumn(e / 4, e % 4)) * stride + device::BlockRow(e % 4)] =
          state[n][e / 4][e % 4];
    }
  }
}

// A contiguous [B,T,H,D] tensor.
inline Sequence Contiguous(void* data, const DeltaRuleSizes& sizes, std::int64_t head_dim) {
  return {data, sizes.seq_len * sizes.num_heads * head_dim, sizes.num_heads * head_dim, head_dim};
}

// Calls launch.template operator()<Operand, head_k_dim>(); launch returns a cudaError_t.
template <typename Launch>
cudaError_t ForSizes(const DeltaRuleSizes& sizes, const Launch& launch) {
  const auto for_dim = [&]<typename Operand>() {
    switch (sizes.head_k_dim) {
      case 16:
        return launch.template operator()<Operand, 16>();
      case 32:
        return launch.template operator()<Operand, 32>();
      case 64:
        return launch.template operator()<Operand, 64>();
      default:
        return launch.template operator()<Operand, 128>();
    }
  };
  switch (sizes.precision) {
    case device::OperandPrecision::kBf16:
      return for_dim.template operator()<device::Bf16Operand>();
    case device::OperandPrecision::kTf32:
      return for_dim.template operator()<device::Tf32Operand>();
    default:
      return for_dim.template operator()<device::Fp32Operand>();
  }
}

}  // namespace mixerbench::kernels::delta_rule
