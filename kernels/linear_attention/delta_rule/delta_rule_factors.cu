// Chunk factors of the delta rule: gates, X = (I + L)^-1 and A. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_gates.cuh"
#include "kernels/linear_attention/delta_rule/unit_lower_inverse.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

constexpr int kThreads = 128;

// X is rounded to the tensors' precision: tf32 has three digits more than bf16.
template <typename Operand>
using InverseOperand =
    std::conditional_t<std::is_same_v<Operand, device::Bf16Operand>, device::Tf32Operand, Operand>;

// Shared memory of a block: 36 KB for bf16 and K = 128, so that six share a multiprocessor.
template <typename Operand, int kDk>
struct FactorsShared {
  using Element = typename Operand::Element;
  static constexpr int kC = kChunk<Operand>;
  struct Tokens {
    Element q[kC * PaddedRow(kDk)];
    Element k[kC * PaddedRow(kDk)];
  };
  union {
    alignas(16) Tokens tokens;
    alignas(16) float l[kC * PaddedRow(kC)];  // once the tokens are no longer needed
  };
  float gates[kNumGates][kC];
};

// A block [16,16] of (rows K^T) ∘ D, every row times its factor; zeros above the diagonal.
template <typename Operand, int kDk>
__device__ void MultiplyPairs(Accumulators (&c)[1], const typename Operand::Element* rows,
                              const typename Operand::Element* keys, int row_block,
                              int column_block, const float* cumulative_log_decay,
                              const float (&row_factors)[2]) {
  device::Clear(c);
#pragma unroll
  for (int d = 0; d < kDk; d += 16) {
    const auto a = Operand::LoadA(rows + row_block * 16 * PaddedRow(kDk) + d, PaddedRow(kDk));
    const auto b = Operand::LoadB(keys + column_block * 16 * PaddedRow(kDk) + d, PaddedRow(kDk));
    device::MultiplyAdd<Operand>(c[0], a, b);
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const int i = row_block * 16 + device::BlockRow(e % 4);
    const int j = column_block * 16 + device::BlockColumn(e / 4, e % 4);
    // The bound keeps the masked half finite; not by fminf, which would hide a NaN.
    const float difference = cumulative_log_decay[i] - cumulative_log_decay[j];
    const float exponent = difference > 0 ? 0 : difference;
    float& x = c[0][e / 4][e % 4];
    x = j <= i ? x * (device::Exp(exponent) * row_factors[e % 4 / 2]) : 0;
  }
}

// Block: one chunk of one (b, h); grid B H N. A warp owns 16 rows of K K^T and 16 of Q K^T, a long
// row of blocks and a short one (fp32: one of either). Accumulators fp32. Deterministic.
template <typename Operand, int kDk>
__global__ void __launch_bounds__(kThreads)
    FactorsKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                  const float* __restrict__ log_decay, const float* __restrict__ beta,
                  const DeltaRuleFactorData factors) {
  using Element = typename Operand::Element;
  constexpr int kC = kChunk<Operand>;
  constexpr int kRowBlocks = kC / 16;
  extern __shared__ char shared_bytes[];
  auto& shared = *reinterpret_cast<FactorsShared<Operand, kDk>*>(shared_bytes);

  const std::int64_t chunk = blockIdx.x;
  const std::int64_t num_chunks = (sizes.seq_len + kC - 1) / kC;
  const std::int64_t row = chunk / num_chunks;  // b H + h
  const std::int64_t n = chunk % num_chunks;
  const std::int64_t first = n * kC;
  const int num_valid = static_cast<int>(min(static_cast<std::int64_t>(kC), sizes.seq_len - first));
  device::CopyRowsAsync<kC>(shared.tokens.k, TokenRow<Element>(k, sizes.num_heads, row, first),
                            k.token_stride, num_valid, kDk);
  device::CopyRowsAsync<kC>(shared.tokens.q, TokenRow<Element>(q, sizes.num_heads, row, first),
                            q.token_stride, num_valid, kDk);
  device::CommitCopies();
  if (device::WarpId() == 0) {
    const std::int64_t gate =
        (row / sizes.num_heads * sizes.seq_len + first) * sizes.num_heads + row % sizes.num_heads;
    LaneGates<kC> lane;
    lane.Load(log_decay == nullptr ? nullptr : log_decay + gate, beta + gate, sizes.num_heads,
              num_valid);
    ComputeGates<kC>(shared.gates, lane);
  }
  device::WaitForBlockCopies();

  for (int i = static_cast<int>(threadIdx.x); i < kNumGates * kC; i += kThreads) {
    factors.gates[chunk * kNumGates * kC + i] = (&shared.gates[0][0])[i];
  }
  const int key_block = device::WarpId();
  const int query_block = kThreads / 32 - 1 - device::WarpId();
  Accumulators l[kRowBlocks][1];  // stays in registers until the tokens' place is free
  if (key_block < kRowBlocks) {
    const float beta[2] = {shared.gates[kBeta][key_block * 16 + device::BlockRow(0)],
                           shared.gates[kBeta][key_block * 16 + device::BlockRow(2)]};
#pragma unroll
    for (int j = 0; j < kRowBlocks; ++j) {
      if (j > key_block) continue;
      MultiplyPairs<Operand, kDk>(l[j], shared.tokens.k, shared.tokens.k, key_block, j,
                                  shared.gates[kCumulativeLogDecay], beta);
    }
  }
  if (query_block < kRowBlocks) {
    const float scale[2] = {sizes.scale, sizes.scale};
    Element* a_rows = static_cast<Element*>(factors.a) + (chunk * kC + query_block * 16) * kC;
    for (int j = 0; j <= query_block; ++j) {
      Accumulators a[1];
      MultiplyPairs<Operand, kDk>(a, shared.tokens.q, shared.tokens.k, query_block, j,
                                  shared.gates[kCumulativeLogDecay], scale);
      device::StoreRows(a_rows + j * 16, kC, 16, a[0]);
    }
  }
  __syncthreads();
  if (key_block < kRowBlocks) {
#pragma unroll
    for (int j = 0; j < kRowBlocks; ++j) {
      if (j > key_block) continue;
      device::StoreRows(shared.l + key_block * 16 * PaddedRow(kC) + j * 16, PaddedRow(kC), 16,
                        l[j][0]);
    }
  }
  __syncthreads();
  Element* x_out = static_cast<Element*>(factors.x) + chunk * kC * kC;
  InvertUnitLower<InverseOperand<Operand>, kRowBlocks>(
      shared.l, PaddedRow(kC), device::WarpId(), device::SyncBlock,
      [&](int i, int j, const Accumulators& x) {
        device::StoreColumns(x_out + i * 16 * kC + j * 16, kC, 16, x);
      });
}

}  // namespace

int DeltaRuleFactors(const DeltaRuleSizes& sizes, const Sequence& q, const Sequence& k,
                     const float* log_decay, const float* beta, const DeltaRuleFactorData& factors,
                     CUstream_st* stream) {
  const std::int64_t num_blocks = sizes.batch_size * sizes.num_heads * NumChunks(sizes);
  return ForSizes(sizes, [&]<typename Operand, int kDk>() {
    return device::Launch(FactorsKernel<Operand, kDk>, num_blocks, kThreads,
                          sizeof(FactorsShared<Operand, kDk>), stream, sizes, q, k, log_decay, beta,
                          factors);
  });
}

}  // namespace mixerbench::kernels::delta_rule
