// The backward scan of the delta rule over the chunks of one sequence. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_scan.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

// Blocks, warps, memory and determinism as StatesKernel; the gradient of the state stays in
// registers, transposed.
template <typename Operand, int kDk>
__global__ void __launch_bounds__(kScanThreads, kDk <= 64 ? 3 : 1)
    StateGradientsKernel(const DeltaRuleSizes sizes, const int columns, const Sequence q,
                         const Sequence k, const Sequence d_o, const DeltaRuleFactorData factors,
                         const float* __restrict__ d_final_state, const Sequence p_out,
                         void* d_states, float* __restrict__ d_initial_state) {
  using Element = typename Operand::Element;
  constexpr int kC = kChunk<Operand>;
  constexpr int kKeyRow = PaddedRow(kDk);
  constexpr int kPairRow = PaddedRow(kC);
  extern __shared__ __align__(16) char shared_bytes[];
  Scan<Operand, kDk> scan(sizes, columns, shared_bytes);

  Accumulators d_state[kDk / 16];  // G^T, 16 x K
  if (scan.has_columns) {
    LoadState(d_state, StateColumn(d_final_state, sizes, scan.row, scan.warp_column),
              sizes.head_v_dim);
  }

  scan.Load(scan.num_chunks - 1, q, k, d_o, factors);
  for (std::int64_t n = scan.num_chunks - 1; n >= 0; --n) {
    const auto& tiles = scan.Next(n, n - 1, q, k, d_o, factors);
    if (!scan.has_columns) continue;
    scan.StoreState(d_states, n, d_state);

    Accumulators dy[kC / 16];  // dY^T = (w (K G))^T + dO^T A
    device::Clear(dy);
#pragma unroll
    for (int d = 0; d < kDk; d += 16) {
      const auto g = device::ToOperand<Operand>(d_state[d / 16]);
#pragma unroll
      for (int i = 0; i < kC; i += 16) {
        const auto b_k = Operand::LoadB(tiles.k + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(dy[i / 16], g, b_k);
      }
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = i + device::BlockColumn(e / 4, e % 4);
        dy[i / 16][e / 4][e % 4] *= tiles.gates[kLeaving][t];
      }
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
      const auto d_o_i = scan.LoadColumns(tiles.v, i);
#pragma unroll
      for (int j = 0; j <= i; j += 16) {  // A is lower triangular
        const auto b_a = Operand::LoadBTransposed(tiles.a + i * kPairRow + j, kPairRow);
        device::MultiplyAdd<Operand>(dy[j / 16], d_o_i, b_a);
      }
    }

    Accumulators p[kC / 16];  // P^T = dY^T X
    device::Clear(p);
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
      const auto dy_i = device::ToOperand<Operand>(dy[i / 16]);
#pragma unroll
      for (int j = 0; j <= i; j += 16) {
        const auto b_x = Operand::LoadBTransposed(tiles.x + i * kPairRow + j, kPairRow);
        device::MultiplyAdd<Operand>(p[j / 16], dy_i, b_x);
      }
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
      device::StoreColumns(
          TokenRow<Element>(p_out, sizes.num_heads, scan.row, n * kC + i) + scan.warp_column,
          static_cast<int>(p_out.token_stride), scan.NumValid(n) - i, p[i / 16]);
    }

    // dS = e^{b_C} G + (s e^b Q)^T dO - (beta e^b K)^T P, transposed; the factors go to the left.
    const float chunk_decay = tiles.gates[kEntering][kC - 1];
#pragma unroll
    for (int d = 0; d < kDk / 16; ++d) {
#pragma unroll
      for (int e = 0; e < 8; ++e) d_state[d][e / 4][e % 4] *= chunk_decay;
    }
#pragma unroll
    for (int i = 0; i < kC; i += 16) {
      Accumulators d_o_i;
      device::FromOperand<Operand>(d_o_i, scan.LoadColumns(tiles.v, i));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = i + device::BlockColumn(e / 4, e % 4);
        const float entering = tiles.gates[kEntering][t];
        d_o_i[e / 4][e % 4] *= sizes.scale * entering;
        p[i / 16][e / 4][e % 4] *= -tiles.gates[kBeta][t] * entering;
      }
      const auto read = device::ToOperand<Operand>(d_o_i);
      const auto erased = device::ToOperand<Operand>(p[i / 16]);
#pragma unroll
      for (int d = 0; d < kDk; d += 16) {
        const auto b_q = Operand::LoadBTransposed(tiles.q + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(d_state[d / 16], read, b_q);
        const auto b_k = Operand::LoadBTransposed(tiles.k + i * kKeyRow + d, kKeyRow);
        device::MultiplyAdd<Operand>(d_state[d / 16], erased, b_k);
      }
    }
  }
  if (scan.has_columns && d_initial_state != nullptr) {
    StoreState(d_state, StateColumn(d_initial_state, sizes, scan.row, scan.warp_column),
               sizes.head_v_dim);
  }
}

}  // namespace

int DeltaRuleStateGradients(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                            const Sequence& q, const Sequence& k, const Sequence& d_o,
                            const DeltaRuleFactorData& factors, const float* d_final_state, void* p,
                            void* d_states, float* d_initial_state, CUstream_st* stream) {
  if (plan.uses_wgmma) {
    return DeltaRuleWideStateGradients(sizes, q, k, d_o, factors, d_final_state, p, d_states,
                                       d_initial_state, stream);
  }
  const Sequence p_out = Contiguous(p, sizes, sizes.head_v_dim);
  return LaunchScan(sizes, plan, stream, [&]<typename Operand, int kDk>(const auto& launch) {
    return launch(StateGradientsKernel<Operand, kDk>, q, k, d_o, factors, d_final_state, p_out,
                  d_states, d_initial_state);
  });
}

}  // namespace mixerbench::kernels::delta_rule
