// Keys and values of the backward kernel of short sequences: a warp's scan over all queries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/softmax_attention/whole_tiles.cuh"

namespace mixerbench::kernels::softmax_attention {

// dK and dV of a warp's blocks of keys, in its registers, with dropout over its scale, as dl.
template <typename W, bool kDrops>
class KeyGradients {
 public:
  using Draws = DropoutDraws<kDrops>;

  // Scans all queries and leaves dl^T in shared memory. Each visit has two blocks of scores where a
  // warp owns two blocks of keys: 16 queries and both, or 32 queries and the one that they see.
  __device__ void Form(const W& w, const Draws& draws, int num_blocks, float scale) {
#pragma unroll
    for (int n = 0; n < W::kBlocks; ++n) {
      device::Clear(d_k[n]);
      device::Clear(d_v[n]);
    }
    int block = W::OwnBlock(0);
    if (block >= num_blocks) return;
    int num_arrived = block / 4;  // no tile before is needed
    Dropped dropped;
    const auto visit = [&]<int kKeys, int kQueries, bool kIsDiagonal>() {
      for (; num_arrived <= (block + kQueries - 1) / 4; ++num_arrived) {
        device::WaitForPhase(w.arrived + num_arrived, 0);
      }
      dropped.template DrawFor<kKeys, kQueries>(draws, block);
      Visit<kKeys, kQueries, kIsDiagonal>(w, dropped, block, scale);
      block += kQueries;
    };
    visit.template operator()<1, 1, true>();
    const int last_alone = W::kBlocks == 1 ? num_blocks : min(num_blocks, W::OwnBlock(1));
    if constexpr (W::kBlocks == 2) {
#pragma unroll 1
      while (block + 1 < last_alone) visit.template operator()<1, 2, false>();
    }
#pragma unroll 1
    while (block < last_alone) visit.template operator()<1, 1, false>();
    if constexpr (W::kBlocks == 2) {
      if (block < num_blocks) visit.template operator()<2, 1, true>();
#pragma unroll 1
      while (block < num_blocks) visit.template operator()<2, 1, false>();
    }
  }

  __device__ void Store(const AttentionProblem& p, const Head& head) {
#pragma unroll
    for (int n = 0; n < W::kBlocks; ++n) {
      const std::int64_t first = W::OwnBlock(n) * 16;
      const float kept = p.dropout.scale;
      StoreResult<W::kD>(Rows(p.d_k, head), first, p.seq_len, d_k[n], p.scale * kept,
                         p.scale * kept);
      StoreResult<W::kD>(Rows(p.d_v, head), first, p.seq_len, d_v[n], kept, kept);
    }
  }

 private:
  // This warp's words of DropoutDraws for four blocks of queries.
  struct Dropped {
    std::uint32_t words[W::kBlocks] = {};
    int first_block = 0;
    int num_keys = 0;  // blocks of keys that have words

    template <int kKeys, int kQueries>
    __device__ void DrawFor(const Draws& draws, int block) {
      if (!kDrops || (kKeys <= num_keys && block + kQueries <= first_block + 4)) return;
      first_block = block;
      num_keys = kKeys;
#pragma unroll
      for (int n = 0; n < kKeys; ++n) words[n] = draws.OfQueries(block, W::OwnBlock(n));
    }
  };

  // The first kKeys of this warp's blocks of keys and kQueries blocks of queries, which see them;
  // the last keys are those of the first queries if kIsDiagonal. Scores are transposed,
  // [key, query], so that they are left operands of both gradients.
  template <int kKeys, int kQueries, bool kIsDiagonal>
  __device__ void Visit(const W& w, const Dropped& dropped, int query_block, float scale) {
    const Element* const q = w.q + W::OfBlock(query_block);
    const Element* const d_o = w.d_o + W::OfBlock(query_block);
    float log_denominator[kQueries][2][2], delta[kQueries][2][2];
    Accumulators weights[kKeys][kQueries];    // P^T, then dl^T
    Accumulators d_weights[kKeys][kQueries];  // dP^T - delta
#pragma unroll
    for (int n = 0; n < kKeys; ++n) device::Clear(weights[n]);
#pragma unroll
    for (int m = 0; m < kQueries; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = (query_block + m) * 16 + device::BlockColumn(h, 0);
        const float2 lse = *reinterpret_cast<const float2*>(w.log_denominators + query);
        const float2 deltas = *reinterpret_cast<const float2*>(w.deltas + query);
        log_denominator[m][h][0] = lse.x, log_denominator[m][h][1] = lse.y;
        delta[m][h][0] = deltas.x, delta[m][h][1] = deltas.y;
#pragma unroll
        for (int n = 0; n < kKeys; ++n) {
          d_weights[n][m][h][0] = d_weights[n][m][h][2] = -delta[m][h][0];
          d_weights[n][m][h][1] = d_weights[n][m][h][3] = -delta[m][h][1];
        }
      }
    }
    MultiplyTransposed(weights, w.k, q);
    MultiplyTransposed(d_weights, w.v, d_o);
    Operand::A operands[kKeys][kQueries];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int m = 0; m < kQueries; ++m) {
        const std::uint32_t bits =
            Draws::TransposedBits(dropped.words[n], query_block + m - dropped.first_block);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float& x = weights[n][m][e / 4][e % 4];
          x = device::Exp2(x * scale - log_denominator[m][e / 4][e % 2]);
          const bool hidden = kIsDiagonal && n == kKeys - 1 && m == 0 &&
                              device::BlockColumn(e / 4, e % 4) < device::BlockRow(e % 4);
          if (hidden) x = 0;
          if (Draws::Has(bits, e / 4, e % 4)) {
            d_weights[n][m][e / 4][e % 4] = -delta[m][e / 4][e % 2];
          }
        }
        operands[n][m] = Draws::template KeptOperand<Operand>(bits, weights[n][m]);
      }
    }
    Multiply(d_v, operands, d_o);
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int m = 0; m < kQueries; ++m) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          weights[n][m][e / 4][e % 4] *= d_weights[n][m][e / 4][e % 4];
        }
        operands[n][m] = device::ToOperand<Operand>(weights[n][m]);
      }
    }
    Multiply(d_k, operands, q);
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int m = 0; m < kQueries; ++m) {
        // The operand's words: keys g and g + 8 of queries 2t and 2t + 1, then of 2t + 8 and
        // 2t + 9.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          Element* const to =
              w.DScores(W::OwnBlock(n), device::BlockRow(i % 2 * 2), query_block + m, i / 2);
          *reinterpret_cast<std::uint32_t*>(to + device::BlockColumn(0, 0)) = operands[n][m].r[i];
        }
      }
    }
  }

  // c [16,16] += a b^T for rows of this warp's keys in `a` and rows of queries from `b` on, both
  // [token][channel].
  template <int kKeys, int kQueries>
  __device__ static void MultiplyTransposed(Accumulators (&c)[kKeys][kQueries], const Element* a,
                                            const Element* b) {
#pragma unroll
    for (int d = 0; d < W::kD; d += 16) {
      Operand::B b_d[kQueries];
#pragma unroll
      for (int m = 0; m < kQueries; ++m) {
        b_d[m] = Operand::LoadB(b + W::OfBlock(m) + d, W::kRow);
      }
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        const auto a_d = Operand::LoadA(a + W::OfBlock(W::OwnBlock(n)) + d, W::kRow);
#pragma unroll
        for (int m = 0; m < kQueries; ++m) device::MultiplyAdd<Operand>(c[n][m], a_d, b_d[m]);
      }
    }
  }

  // c [16,kD] += a [16,16] b for each block of keys, summed over rows of queries from `b` on
  // [token][channel].
  template <int kKeys, int kQueries>
  __device__ static void Multiply(Accumulators (&c)[W::kBlocks][W::kD / 16],
                                  const Operand::A (&a)[kKeys][kQueries], const Element* b) {
#pragma unroll
    for (int m = 0; m < kQueries; ++m) {
#pragma unroll
      for (int d = 0; d < W::kD; d += 16) {
        const auto b_d = Operand::LoadBTransposed(b + W::OfBlock(m) + d, W::kRow);
#pragma unroll
        for (int n = 0; n < kKeys; ++n) device::MultiplyAdd<Operand>(c[n][d / 16], a[n][m], b_d);
      }
    }
  }

  Accumulators d_k[W::kBlocks][W::kD / 16];
  Accumulators d_v[W::kBlocks][W::kD / 16];
};

}  // namespace mixerbench::kernels::softmax_attention
