// What a CTA that forms the gradients of one chunk holds in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_chunk_sums.cuh"

namespace mixerbench::kernels::delta_rule {

// Columns of V a stage.
template <typename Operand>
constexpr int kMaxBlockV = kChunk<Operand>;

// A warp owns 16 tokens and a part of the key channels.
template <typename Operand, int kDk>
constexpr int kColumnWarps = kDk >= 32 ? 2 : 1;
template <typename Operand, int kDk>
constexpr int kGradientThreads = kChunk<Operand> / 16 * kColumnWarps<Operand, kDk> * 32;

template <typename Operand, int kDk>
struct GradientTiles {
  using Element = typename Operand::Element;
  static constexpr int kC = kChunk<Operand>;
  Element d_o[kC * PaddedRow(kMaxBlockV<Operand>)];
  Element y[kC * PaddedRow(kMaxBlockV<Operand>)];
  Element p[kC * PaddedRow(kMaxBlockV<Operand>)];
  Element v[kC * PaddedRow(kMaxBlockV<Operand>)];
  Element state[kMaxBlockV<Operand> * PaddedRow(kDk)];    // S^T
  Element d_state[kMaxBlockV<Operand> * PaddedRow(kDk)];  // G^T
};

template <typename Operand, int kDk>
struct alignas(16) GradientShared {
  using Element = typename Operand::Element;
  static constexpr int kC = kChunk<Operand>;
  Element q[kC * PaddedRow(kDk)];
  Element k[kC * PaddedRow(kDk)];
  Element d_a[kC * PaddedRow(kC)];
  Element d_kk[kC * PaddedRow(kC)];  // dKK
  float gates[kNumGates][kC];
  ChunkSums<kC, kColumnWarps<Operand, kDk>, kColumnWarps<Operand, kDk>,
            kGradientThreads<Operand, kDk> / 32>
      sums;
};  // one or two GradientTiles follow

// The sizes that the plan counts.
template <typename Operand, int kDk>
constexpr bool kFitsPlan = sizeof(GradientTiles<Operand, kDk>) ==
                               GradientStageBytes(sizeof(typename Operand::Element),
                                                  kChunk<Operand>, kDk) &&
                           sizeof(GradientShared<Operand, kDk>) <=
                               GradientBaseBytes(sizeof(typename Operand::Element), kChunk<Operand>,
                                                 kDk);

}  // namespace mixerbench::kernels::delta_rule
