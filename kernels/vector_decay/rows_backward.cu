// Vector decay for chosen rows, every gradient. See kernels/cuda/decay_rows.h.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/cuda/decay_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {
namespace {

using namespace cuda;  // NOLINT: this file is written in its terms

// Zeros at keys after the row, in scores [key][row] of block n.
__device__ void MaskScores(Accumulators& scores, const int* positions, int n) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (n * kKeyBlock + BlockRow(e) > positions[BlockColumn(h, e)]) scores[h][e] = 0;
    }
  }
}

// Writes the 16 rows of block n that lie before `num_rows`.
template <int kTiles>
__device__ void StoreBlock(__nv_bfloat16* rows, std::int64_t stride, int n, int num_rows,
                           const Accumulators (&c)[kTiles]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = n * kKeyBlock + BlockRow(2 * i);
    __nv_bfloat16* p = rows + row * stride;
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
      StoreRowWords(p + 16 * d, row < num_rows, PackBf16(c[d][0][2 * i], c[d][0][2 * i + 1]),
                    PackBf16(c[d][1][2 * i], c[d][1][2 * i + 1]));
    }
  }
}

// Adds every warp's share of a tile of rows to d_q [row][channel], in the order of the warps but
// that the upper half first joins the lower. `partial`: [half of the warps][row][channel], free
// once all warps are here. The whole block of threads.
template <int kKeys>
__device__ void AddShares(float* d_q, float* partial, const Accumulators (&share)[kKeys / 16]) {
  const int num_warps = static_cast<int>(blockDim.x / 32);
  const int lower_warps = (num_warps + 1) / 2;
  constexpr int kSlot = kRowTile * RowsStride(kKeys);
  float* slot = partial + WarpId() % lower_warps * kSlot;
  __syncthreads();
  for (int half = 1; half >= 0; --half) {
    if (WarpId() / lower_warps == half) {
#pragma unroll
      for (int d = 0; d < kKeys / 16; ++d) {
#pragma unroll
        for (int e = 0; e < 8; e += 2) {
          auto* x = reinterpret_cast<float2*>(
              slot + GateIndex<kKeys>(BlockRow(e % 4), 16 * d + BlockColumn(e / 4, 0)));
          float2 sum = {share[d][e / 4][e % 4], share[d][e / 4][e % 4 + 1]};
          if (half == 0 && WarpId() + lower_warps < num_warps) {
            sum = {sum.x + x->x, sum.y + x->y};
          }
          *x = sum;
        }
      }
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRowTile * kKeys;
       i += static_cast<int>(blockDim.x)) {
    float sum = d_q[i];
    for (int w = 0; w < lower_warps; ++w) {
      sum += partial[w * kSlot + GateIndex<kKeys>(i / kKeys, i % kKeys)];
    }
    d_q[i] = sum;
  }
  __syncthreads();
}

// A block of threads owns one head of one sequence; a warp takes a block of 16 keys at a time, with
// its d_k and d_v in registers, and meets the others after every tile of 16 rows to add up d_q, in
// order. All sums in fp32. The gates' place ends up with what is to be summed over time for
// d_log_decay.
template <int kKeys, int kValues>
__global__ void __launch_bounds__(32 * kMaxRowWarps, kKeys < 64 ? 2 : 1)
    RowsBackwardKernel(const DecayRowsProblem p) {
  constexpr int kKeyStride = RowsStride(kKeys);
  constexpr int kValueStride = RowsStride(kValues);
  extern __shared__ __align__(16) char memory[];
  const int seq_len = static_cast<int>(p.seq_len);
  const int num_rows = static_cast<int>(p.rows_per_sequence);
  const DecayRowsCut cut(seq_len, num_rows);
  const int num_blocks = cut.num_blocks;
  const int num_tiles = cut.num_tiles;
  const int num_warps = cut.num_warps;
  const DecayRowsLayout layout(kKeys, kValues, cut, RowsPass::kBackward);
  const RowsMemory m(memory, layout);
  const auto [gates, k, v, q, row_gates, positions, prefix] = m;
  auto* d_o = reinterpret_cast<__nv_bfloat16*>(memory + layout.d_o);
  auto* d_q = reinterpret_cast<float*>(memory + layout.d_q);
  auto* partial = reinterpret_cast<float*>(memory + layout.partial);

  const std::int64_t head = blockIdx.x % p.num_heads;
  const std::int64_t batch = blockIdx.x / p.num_heads;
  const int padded_rows = num_tiles * kRowTile;
  const int num_tokens = num_blocks * kKeyBlock;

  CopyTokensAsync<kKeys>(gates, HeadRows<const float>(p.log_decay, batch, head),
                         p.log_decay.token_stride, seq_len, 0, num_tokens);
  CommitCopies();
  CopyTokensAsync<kKeys>(q, HeadRows<const __nv_bfloat16>(p.q, batch, head), p.q.token_stride,
                         num_rows, 0, padded_rows);
  CopyTokensAsync<kValues>(d_o, HeadRows<const __nv_bfloat16>(p.d_o, batch, head),
                           p.d_o.token_stride, num_rows, 0, padded_rows);
  CopyKeysAndValuesAsync<kKeys, kValues>(m, p, batch, head, cut);
  ListPositions(positions, p, batch, 0, padded_rows);
  for (int i = static_cast<int>(threadIdx.x); i < padded_rows * kKeys;
       i += static_cast<int>(blockDim.x)) {
    d_q[i] = 0;
  }
  WaitForCopies<2>();
  __syncthreads();
  SumGates<kKeys>(gates, prefix, row_gates, positions, num_blocks, padded_rows, p.scale);
  WaitForCopies<1>();
  __syncthreads();

  Accumulators d_q_share[kKeys / 16];
  Clear(d_q_share);
  for (int first = 0; first < num_blocks; first += num_warps) {
    if (first > 0) WaitForBlockCopies();
    const int n = first + WarpId();
    const __nv_bfloat16* block_k = k + n * kKeyBlock * kKeyStride;
    const __nv_bfloat16* block_v = v + n * kKeyBlock * kValueStride;
    Accumulators d_k[kKeys / 16];
    Accumulators d_v[kValues / 16];
    Clear(d_k);
    Clear(d_v);
    for (int tile = 0; tile < num_tiles; ++tile) {
      const int first_row = tile * kRowTile;
      if (n < num_blocks) {
        const int* tile_positions = positions + first_row;
        const __nv_bfloat16* tile_q = q + first_row * kKeyStride;
        const __nv_bfloat16* tile_d_o = d_o + first_row * kValueStride;
        const auto rows = TileRows::Find<kKeys>(prefix, tile_positions, n);
        if (rows.last >= n * kKeyBlock) {
          // Of o: d_o v^T, transposed: [key][row].
          Accumulators d_scores = {};
#pragma unroll
          for (int d = 0; d < kValues / 16; ++d) {
            MultiplyAdd<Bf16Operand>(d_scores, Bf16Operand::LoadA(block_v + 16 * d, kValueStride),
                                     Bf16Operand::LoadB(tile_d_o + 16 * d, kValueStride));
          }
          if (rows.inside != 0) MaskScores(d_scores, tile_positions, n);
          const auto d_weights = ToOperand<Bf16Operand>(d_scores);
          const auto d_weights_of_rows = TransposedOperand(d_weights);
          Accumulators scores = {};  // [key][row]
          rows.ForEachReference(
              tile_positions, [&](auto at_block_end, int reference, const bool(&counts)[2]) {
#pragma unroll
                for (int d = 0; d < kKeys / 16; ++d) {
                  Accumulators row_factors;
                  RowFactors<kKeys, at_block_end()>(row_factors, row_gates, prefix + n * kKeys,
                                                    gates, first_row, 16 * d, reference, counts);
                  const auto queries =
                      Scaled(Bf16Operand::LoadA(tile_q + 16 * d, kKeyStride), row_factors);
                  Accumulators key_factors;
                  KeyFactors<kKeys, at_block_end()>(key_factors, gates, n, 16 * d, reference);
                  const auto keys =
                      Scaled(Bf16Operand::LoadA(block_k + 16 * d, kKeyStride), key_factors);
                  MultiplyAdd<Bf16Operand>(scores, keys, RowsAsColumns(queries));
                  Accumulators sum = {};
                  MultiplyAdd<Bf16Operand>(sum, d_weights, RowsAsDepth(queries));
                  AddProduct(d_k[d], sum, key_factors);
                  Accumulators row_sum = {};
                  MultiplyAdd<Bf16Operand>(row_sum, d_weights_of_rows, RowsAsDepth(keys));
                  AddProduct(d_q_share[d], row_sum, row_factors);
                }
              });
          if (rows.inside != 0) MaskScores(scores, tile_positions, n);
          const auto weights = ToOperand<Bf16Operand>(scores);
#pragma unroll
          for (int d = 0; d < kValues / 16; ++d) {
            MultiplyAdd<Bf16Operand>(d_v[d], weights,
                                     Bf16Operand::LoadBTransposed(tile_d_o + 16 * d, kValueStride));
          }
        }
      }
      if (num_tiles > 1 || first + num_warps >= num_blocks) {
        AddShares<kKeys>(d_q + first_row * kKeys, partial, d_q_share);
        Clear(d_q_share);
      }
    }
    if (n >= num_blocks) continue;

#pragma unroll
    for (int d = 0; d < kKeys / 16; ++d) {
      const auto k_tile = Bf16Operand::LoadA(block_k + 16 * d, kKeyStride);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          *reinterpret_cast<float2*>(gates + GateIndex<kKeys>(n * kKeyBlock + BlockRow(2 * i),
                                                              16 * d + BlockColumn(h, 0))) = {
              -LowBf16(k_tile.r[i + 2 * h]) * d_k[d][h][2 * i],
              -HighBf16(k_tile.r[i + 2 * h]) * d_k[d][h][2 * i + 1]};
        }
      }
    }
    StoreBlock(HeadRows<__nv_bfloat16>(p.d_k, batch, head), p.d_k.token_stride, n, seq_len, d_k);
    StoreBlock(HeadRows<__nv_bfloat16>(p.d_v, batch, head), p.d_v.token_stride, n, seq_len, d_v);
  }
  __syncthreads();

  auto* out = HeadRows<__nv_bfloat16>(p.d_q, batch, head);
  for (int i = 2 * static_cast<int>(threadIdx.x); i < num_rows * kKeys;
       i += 2 * static_cast<int>(blockDim.x)) {
    const int r = i / kKeys;
    const int channel = i % kKeys;
    const float2 sum = *reinterpret_cast<const float2*>(d_q + i);
    *reinterpret_cast<std::uint32_t*>(out + r * p.d_q.token_stride + channel) =
        PackBf16(sum.x, sum.y);
    if (positions[r] >= 0) {
      const std::uint32_t query =
          *reinterpret_cast<const std::uint32_t*>(q + r * kKeyStride + channel);
      auto* x = reinterpret_cast<float2*>(gates + GateIndex<kKeys>(positions[r], channel));
      *x = {x->x + LowBf16(query) * sum.x, x->y + HighBf16(query) * sum.y};
    }
  }
  __syncthreads();
  SumOverLaterTokens<kKeys>(gates, prefix, HeadRows<float>(p.d_log_decay, batch, head),
                            p.d_log_decay.token_stride,
                            HeadRows<const float>(p.log_decay, batch, head),
                            p.log_decay.token_stride, seq_len, num_blocks);
}

template <int kKeys, int kValues>
int Start(const DecayRowsProblem& p, CUstream_st* stream) {
  const DecayRowsCut cut(p.seq_len, p.rows_per_sequence);
  const DecayRowsLayout layout(kKeys, kValues, cut, RowsPass::kBackward);
  return Launch(RowsBackwardKernel<kKeys, kValues>, p.batch_size * p.num_heads, 32 * cut.num_warps,
                static_cast<std::size_t>(layout.bytes), stream, p);
}

}  // namespace

int RowsBackward(const DecayRowsProblem& p, CUstream_st* stream) {
  return ForDecayDims(p,
                      [&](auto keys, auto values) { return Start<keys(), values()>(p, stream); });
}

}  // namespace mixerbench::kernels::vector_decay
