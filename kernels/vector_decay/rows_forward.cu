// Vector decay for chosen rows, forward. See kernels/cuda/decay_rows.h.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/cuda/decay_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {
namespace {

using namespace cuda;  // NOLINT: this file is written in its terms

// A block of threads owns 16 rows of one head; a warp takes every kMaxRowWarps-th block of 16 keys
// and sums its share of o in registers, fp32; the shares are added in order. No atomics.
template <int kKeys, int kValues>
__global__ void __launch_bounds__(32 * kMaxRowWarps, kKeys < 64 ? 2 : 1)
    RowsForwardKernel(const DecayRowsProblem p) {
  constexpr int kKeyStride = RowsStride(kKeys);
  constexpr int kValueStride = RowsStride(kValues);
  extern __shared__ __align__(16) char memory[];
  const int seq_len = static_cast<int>(p.seq_len);
  const DecayRowsCut cut(seq_len, p.rows_per_sequence);
  const int num_blocks = cut.num_blocks;
  const int num_warps = cut.num_warps;
  const DecayRowsLayout layout(kKeys, kValues, cut, RowsPass::kForward);
  const RowsMemory m(memory, layout);
  const auto [gates, k, v, q, row_gates, positions, prefix] = m;

  const int first_row = static_cast<int>(blockIdx.x) % cut.num_tiles * kRowTile;
  const std::int64_t sequence = static_cast<int>(blockIdx.x) / cut.num_tiles;
  const std::int64_t head = sequence % p.num_heads;
  const std::int64_t batch = sequence / p.num_heads;
  const int num_rows = min(kRowTile, static_cast<int>(p.rows_per_sequence) - first_row);
  const int num_tokens = num_blocks * kKeyBlock;

  CopyTokensAsync<kKeys>(gates, HeadRows<const float>(p.log_decay, batch, head),
                         p.log_decay.token_stride, seq_len, 0, num_tokens);
  CommitCopies();
  CopyTokensAsync<kKeys>(
      q, HeadRows<const __nv_bfloat16>(p.q, batch, head) + first_row * p.q.token_stride,
      p.q.token_stride, num_rows, 0, kRowTile);
  CopyKeysAndValuesAsync<kKeys, kValues>(m, p, batch, head, cut);
  ListPositions(positions, p, batch, first_row, kRowTile);
  WaitForCopies<2>();
  __syncthreads();
  SumGates<kKeys>(gates, prefix, row_gates, positions, num_blocks, kRowTile, p.scale);
  WaitForCopies<1>();
  __syncthreads();

  Bf16Operand::A q_tiles[kKeys / 16];
#pragma unroll
  for (int d = 0; d < kKeys / 16; ++d) q_tiles[d] = Bf16Operand::LoadA(q + 16 * d, kKeyStride);
  Accumulators o[kValues / 16];
  Clear(o);
  for (int first = 0; first < num_blocks; first += num_warps) {
    if (first > 0) WaitForBlockCopies();
    const int n = first + WarpId();
    if (n >= num_blocks) break;
    const auto rows = TileRows::Find<kKeys>(prefix, positions, n);
    if (rows.last < n * kKeyBlock) continue;
    const __nv_bfloat16* block_k = k + n * kKeyBlock * kKeyStride;
    Accumulators scores = {};
    rows.ForEachReference(positions, [&](auto at_block_end, int reference, const bool(&counts)[2]) {
#pragma unroll
      for (int d = 0; d < kKeys / 16; ++d) {
        Accumulators factors;
        RowFactors<kKeys, at_block_end()>(factors, row_gates, prefix + n * kKeys, gates, 0, 16 * d,
                                          reference, counts);
        const auto queries = Scaled(q_tiles[d], factors);
        KeyFactors<kKeys, at_block_end()>(factors, gates, n, 16 * d, reference);
        const auto keys = Scaled(Bf16Operand::LoadA(block_k + 16 * d, kKeyStride), factors);
        MultiplyAdd<Bf16Operand>(scores, queries, RowsAsColumns(keys));
      }
    });
    if (rows.inside != 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (n * kKeyBlock + BlockColumn(h, e) > positions[BlockRow(e)]) scores[h][e] = 0;
        }
      }
    }
    const auto weights = ToOperand<Bf16Operand>(scores);
#pragma unroll
    for (int d = 0; d < kValues / 16; ++d) {
      MultiplyAdd<Bf16Operand>(
          o[d], weights,
          Bf16Operand::LoadBTransposed(v + n * kKeyBlock * kValueStride + 16 * d, kValueStride));
    }
  }

  __syncthreads();  // nobody reads gates, keys or values any more: the shares take their place
  auto* shares = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int d = 0; d < kValues / 16; ++d) {
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
      const int index =
          (WarpId() * kRowTile + BlockRow(e % 4)) * kValues + 16 * d + BlockColumn(e / 4, 0);
      *reinterpret_cast<float2*>(shares + index) = {o[d][e / 4][e % 4], o[d][e / 4][e % 4 + 1]};
    }
  }
  __syncthreads();
  auto* out = HeadRows<__nv_bfloat16>(p.o, batch, head) + first_row * p.o.token_stride;
  for (int i = 2 * static_cast<int>(threadIdx.x); i < num_rows * kValues;
       i += 2 * static_cast<int>(blockDim.x)) {
    float2 sum = {};
    for (int w = 0; w < num_warps; ++w) {
      const float2 share = *reinterpret_cast<const float2*>(shares + w * kRowTile * kValues + i);
      sum = {sum.x + share.x, sum.y + share.y};
    }
    *reinterpret_cast<std::uint32_t*>(out + i / kValues * p.o.token_stride + i % kValues) =
        PackBf16(sum.x, sum.y);
  }
}

template <int kKeys, int kValues>
int Start(const DecayRowsProblem& p, CUstream_st* stream) {
  const DecayRowsCut cut(p.seq_len, p.rows_per_sequence);
  const DecayRowsLayout layout(kKeys, kValues, cut, RowsPass::kForward);
  return Launch(RowsForwardKernel<kKeys, kValues>, p.batch_size * p.num_heads * cut.num_tiles,
                32 * cut.num_warps, static_cast<std::size_t>(layout.bytes), stream, p);
}

}  // namespace

int RowsForward(const DecayRowsProblem& p, CUstream_st* stream) {
  return ForDecayDims(p,
                      [&](auto keys, auto values) { return Start<keys(), values()>(p, stream); });
}

}  // namespace mixerbench::kernels::vector_decay
