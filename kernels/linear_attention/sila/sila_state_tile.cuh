// The state of a head, whose columns the warps of a CTA share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/sila/sila_plan.h"
#include "kernels/linear_attention/state_lanes.cuh"

namespace mixerbench::kernels::sila {

using token_scan::SpreadOverKeyLanes;
using token_scan::SumOverKeyLanes;
using token_scan::SumOverValueLanes;

// Columns are those of the head.
template <int kKeys>
struct StateTile : token_scan::StateLanes<kKeys> {
  using Lanes = token_scan::StateLanes<kKeys>;
  using typename Lanes::State;

  __device__ StateTile() : Lanes(static_cast<int>(threadIdx.x) / 32 * Lanes::kWidth) {}

  // From or to a dense matrix [num_rows,num_columns]; nullptr and what lies outside are zeros.
  __device__ void Load(State& s, const float* matrix, int num_rows, int num_columns) const {
#pragma unroll
    for (int r = 0; r < Lanes::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < Lanes::kColumns; ++c) {
        const bool exists =
            matrix != nullptr && this->Row(r) < num_rows && this->Column(c) < num_columns;
        s[r][c] = exists ? matrix[this->Row(r) * num_columns + this->Column(c)] : 0;
      }
    }
  }
  __device__ void Store(float* matrix, const State& s, int num_rows, int num_columns) const {
#pragma unroll
    for (int r = 0; r < Lanes::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < Lanes::kColumns; ++c) {
        if (this->Row(r) < num_rows && this->Column(c) < num_columns) {
          matrix[this->Row(r) * num_columns + this->Column(c)] = s[r][c];
        }
      }
    }
  }
};

}  // namespace mixerbench::kernels::sila
