// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/attention/softmax_attention/key_gradients.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

// dQ of a warp's blocks of queries, from dl^T in shared memory.
template <typename W>
__device__ void StoreQueryGradients(const W& w, const AttentionProblem& p, const Head& head,
                                    int num_blocks) {
  Accumulators d_q[W::kBlocks][W::kD / 16];
#pragma unroll
  for (int n = 0; n < W::kBlocks; ++n) device::Clear(d_q[n]);
  // A lane's row of the four 8x8 blocks of the transposed operand, as Operand::LoadATransposed.
  const int row = device::LaneId() % 8 + device::LaneId() / 16 * 8;
  const int half = device::LaneId() / 8 % 2;
  const auto add = [&](int key_block, auto begin) {
    constexpr int kBegin = decltype(begin)::value;
    Operand::A d_scores[W::kBlocks];
#pragma unroll
    for (int n = kBegin; n < W::kBlocks; ++n) {
      device::LoadMatricesTransposed(d_scores[n].r,
                                     w.DScores(key_block, row, W::OwnBlock(n), half));
    }
#pragma unroll
    for (int d = 0; d < W::kD; d += 16) {
      const auto keys = Operand::LoadBTransposed(w.k + W::OfBlock(key_block) + d, W::kRow);
#pragma unroll
      for (int n = kBegin; n < W::kBlocks; ++n) {
        device::MultiplyAdd<Operand>(d_q[n][d / 16], d_scores[n], keys);
      }
    }
  };
  // Of blocks past the end, dl^T is whatever was there, and dQ is not stored.
  const int last = min(W::OwnBlock(W::kBlocks - 1), num_blocks - 1);
  int key_block = 0;
#pragma unroll 2
  for (; key_block <= min(W::OwnBlock(0), last); ++key_block) {
    add(key_block, std::integral_constant<int, 0>());
  }
#pragma unroll 4
  for (; key_block <= last; ++key_block) {
    add(key_block, std::integral_constant<int, W::kBlocks - 1>());
  }
#pragma unroll
  for (int n = 0; n < W::kBlocks; ++n) {
    const float factor = p.scale * p.dropout.scale;
    StoreResult<W::kD>(Rows(p.d_q, head), W::OwnBlock(n) * 16, p.seq_len, d_q[n], factor, factor);
  }
}

// All gradients of one (b, h), a CTA each. Each warp scans the queries for its keys
// and leaves dl^T in shared memory; after the only barrier it reads the rows of its queries there.
// Sums fp32 in registers, in a fixed order.
template <typename W, bool kDrops>
__global__ void __launch_bounds__(W::kWarps * 32, W::kBlocksPerMultiprocessor)
    WholeGradientKernel(const AttentionProblem p) {
  extern __shared__ __align__(16) char shared_bytes[];
  const W w(shared_bytes);
  const Head head(p, blockIdx.x);
  LoadTiles<W, kDrops>(w, p, head);
  const auto num_blocks = static_cast<int>((p.seq_len + 15) / 16);
  {
    KeyGradients<W, kDrops> gradients;
    gradients.Form(w, DropoutDraws<kDrops>(p, head.row), num_blocks, p.scale * kLog2E);
    gradients.Store(p, head);
  }
  __syncthreads();
  StoreQueryGradients(w, p, head, num_blocks);
}

template <typename W, bool kDrops>
cudaError_t LaunchWhole(const AttentionProblem& problem, cudaStream_t stream) {
  return device::Launch(WholeGradientKernel<W, kDrops>, problem.batch_size * problem.num_heads,
                        W::kWarps * 32, W::kBytes, stream, problem);
}

}  // namespace

int WholeBackward(const AttentionProblem& problem, CUstream_st* stream) {
  return ForKernel(problem, [&]<int kD, bool kDrops, bool kHasTerms>() {
    if constexpr (!kHasTerms) {
      if (problem.seq_len <= 64) return LaunchWhole<Whole<kD, 4, 1>, kDrops>(problem, stream);
      if (problem.seq_len <= 128) return LaunchWhole<Whole<kD, 8, 1>, kDrops>(problem, stream);
      if constexpr (kD < 128) {
        if (problem.seq_len <= 256) return LaunchWhole<Whole<kD, 8, 2>, kDrops>(problem, stream);
      }
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace mixerbench::kernels::softmax_attention
