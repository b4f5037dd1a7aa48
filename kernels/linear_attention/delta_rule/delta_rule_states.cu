// The forward scan of the delta rule over the chunks of one sequence. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_scan.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

// Block: up to 64 columns of V of one (b, h); grid B H V / columns; a warp owns 16 columns.
// With the state transposed, S^T [V,K], the products of a chunk chain in the registers of a warp:
// an accumulator is the next product's left operand, and warps meet only to share the tiles of
// tokens. State and sums fp32 in registers. Shared memory: two stages of tiles, the next chunk
// arrives while this one is computed. Deterministic.
template <typename Operand, int kDk>
__global__ void __launch_bounds__(kScanThreads, kDk <= 64 ? 3 : 1)
    StatesKernel(const DeltaRuleSizes sizes, const int columns, const Sequence q, const Sequence k,
                 const Sequence v, const DeltaRuleFactorData factors,
                 const float* __restrict__ initial_state, const Sequence o,
                 float* __restrict__ final_state, const DeltaRuleSaved saved,
                 const Sequence saved_y) {
  using Element = typename Operand::Element;
  constexpr int kC = kChunk<Operand>;
  constexpr int kKeyRow = PaddedRow(kDk);
  constexpr int kPairRow = PaddedRow(kC);
  extern __shared__ __align__(16) char shared_bytes[];
  Scan<Operand, kDk> scan(sizes, columns, shared_bytes);
  const std::int64_t row = scan.row;

  Accumulators state[kDk / 16];  // S^T, 16 x K
  if (scan.has_columns)
    LoadState(state, StateColumn(initial_state, sizes, row, scan.warp_column), sizes.head_v_dim);

  scan.Load(0, q, k, v, factors);
  for (std::int64_t n = 0; n < scan.num_chunks; ++n) {
    const auto& tiles = scan.Next(n, n + 1 < scan.num_chunks ? n + 1 : -1, q, k, v, factors);
    if (!scan.has_columns) continue;
    const std::int64_t first = n * kC;
    const int num_valid = scan.NumValid(n);
    if (saved.states != nullptr) scan.StoreState(saved.states, n, state);

    Accumulators recalled[kC / 16];  // (K S)^T
    Accumulators out[kC / 16];       // (Q S)^T, then O^T
    device::Clear(recalled);
    device::Clear(out);
#pragma unroll
    for (int d = 0; d < kDk; d += 16) {
      const auto s = device::ToOperand<Operand>(state[d / 16]);
#pragma unroll
      for (int i = 0; i < kC; i += 16) {
        const auto b_k = Operand::LoadB(tiles.k + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(recalled[i / 16], s, b_k);
        const auto b_q = Operand::LoadB(tiles.q + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(out[i / 16], s, b_q);
      }
    }

    Accumulators y[kC / 16];  // Y^T = [X (beta (V - e^b K S))]^T
    device::Clear(y);
#pragma unroll
    for (int j = 0; j < kC; j += 16) {
      Accumulators corrected;
      device::FromOperand<Operand>(corrected, scan.LoadColumns(tiles.v, j));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = j + device::BlockColumn(e / 4, e % 4);
        float& x = corrected[e / 4][e % 4];
        x = tiles.gates[kBeta][t] *
            (x - tiles.gates[kEntering][t] * recalled[j / 16][e / 4][e % 4]);
      }
      const auto written = device::ToOperand<Operand>(corrected);
#pragma unroll
      for (int i = j; i < kC; i += 16) {  // X is lower triangular
        const auto b_x = Operand::LoadB(tiles.x + i * kPairRow + j, kPairRow);
        device::MultiplyAdd<Operand>(y[i / 16], written, b_x);
      }
    }

#pragma unroll
    for (int i = 0; i < kC; i += 16) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = i + device::BlockColumn(e / 4, e % 4);
        out[i / 16][e / 4][e % 4] *= sizes.scale * tiles.gates[kEntering][t];
      }
    }
#pragma unroll
    for (int j = 0; j < kC; j += 16) {
      const auto y_j = device::ToOperand<Operand>(y[j / 16]);
#pragma unroll
      for (int i = j; i < kC; i += 16) {
        const auto b_a = Operand::LoadB(tiles.a + i * kPairRow + j, kPairRow);
        device::MultiplyAdd<Operand>(out[i / 16], y_j, b_a);
      }
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
      const int valid = num_valid - i;
      device::StoreColumns(TokenRow<Element>(o, sizes.num_heads, row, first + i) + scan.warp_column,
                           static_cast<int>(o.token_stride), valid, out[i / 16]);
      if (saved.y != nullptr) {
        device::StoreColumns(
            TokenRow<Element>(saved_y, sizes.num_heads, row, first + i) + scan.warp_column,
            static_cast<int>(saved_y.token_stride), valid, y[i / 16]);
      }
    }

    const float chunk_decay = tiles.gates[kEntering][kC - 1];
#pragma unroll
    for (int d = 0; d < kDk / 16; ++d) {
#pragma unroll
      for (int e = 0; e < 8; ++e) state[d][e / 4][e % 4] *= chunk_decay;
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = i + device::BlockColumn(e / 4, e % 4);
        y[i / 16][e / 4][e % 4] *= tiles.gates[kLeaving][t];
      }
      const auto y_i = device::ToOperand<Operand>(y[i / 16]);
#pragma unroll
      for (int d = 0; d < kDk; d += 16) {
        const auto b_k = Operand::LoadBTransposed(tiles.k + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(state[d / 16], y_i, b_k);
      }
    }
  }
  if (scan.has_columns) {
    StoreState(state, StateColumn(final_state, sizes, row, scan.warp_column), sizes.head_v_dim);
  }
}

}  // namespace

int DeltaRuleStates(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, const Sequence& q,
                    const Sequence& k, const Sequence& v, const DeltaRuleFactorData& factors,
                    const float* initial_state, const Sequence& o, float* final_state,
                    const DeltaRuleSaved& saved, CUstream_st* stream) {
  if (plan.uses_wgmma) {
    return DeltaRuleWideStates(sizes, q, k, v, factors, initial_state, o, final_state, saved,
                               stream);
  }
  const Sequence saved_y = Contiguous(saved.y, sizes, sizes.head_v_dim);
  return LaunchScan(sizes, plan, stream, [&]<typename Operand, int kDk>(const auto& launch) {
    return launch(StatesKernel<Operand, kDk>, q, k, v, factors, initial_state, o, final_state,
                  saved, saved_y);
  });
}

}  // namespace mixerbench::kernels::delta_rule
