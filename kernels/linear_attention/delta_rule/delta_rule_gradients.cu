// Gradients of the delta rule's inputs, chunk by chunk. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_gradient_tiles.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

// Multiplies every row of a right operand, 16 of its depth, by its factor.
__device__ void ScaleDepth(device::Bf16Operand::B& b, const float* factors) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 pair = *reinterpret_cast<const float2*>(factors + device::BlockColumn(half, 0));
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::uint32_t x = b.r[n][half];
      b.r[n][half] = device::PackBf16(device::LowBf16(x) * pair.x, device::HighBf16(x) * pair.y);
    }
  }
}
__device__ void ScaleDepth(device::Fp32Layout::B& b, const float* factors) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    b.x[e / 4][e / 2 % 2][e % 2] *= factors[device::BlockColumn(e / 2 % 2, e % 2)];
  }
}

// Block: one chunk of one (b, h), grid B H N; a warp owns 16 tokens x (K or K / 2) of dq, M and dk.
// V is scanned in blocks of columns, the next one arrives during the products of this one. Sums
// over V therefore need no other block. Accumulators fp32. Deterministic.
template <typename Operand, int kDk>
__global__ void __launch_bounds__(kGradientThreads<Operand, kDk>, kDk <= 64 ? 2 : 1)
    GradientsKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                    const Sequence v, const Sequence d_o, const DeltaRuleFactorData factors,
                    const DeltaRuleSaved saved, const Sequence saved_y, const Sequence p,
                    const void* d_states, const DeltaRuleGradientData gradients, const int block_v,
                    const int num_stages) {
  using Element = typename Operand::Element;
  static_assert(kFitsPlan<Operand, kDk>);
  constexpr int kC = kChunk<Operand>;
  constexpr int kThreads = kGradientThreads<Operand, kDk>;
  constexpr int kParts = kColumnWarps<Operand, kDk>;
  constexpr int kWarpK = kDk / kParts;     // key channels of a warp
  constexpr int kWarpPairs = kC / kParts;  // columns of dA and dL of a warp
  constexpr int kKeyRow = PaddedRow(kDk);
  constexpr int kPairRow = PaddedRow(kC);
  extern __shared__ __align__(16) char shared_bytes[];
  auto& shared = *reinterpret_cast<GradientShared<Operand, kDk>*>(shared_bytes);
  auto* const stages = reinterpret_cast<GradientTiles<Operand, kDk>*>(&shared + 1);

  const std::int64_t chunk = blockIdx.x;
  const std::int64_t num_chunks = (sizes.seq_len + kC - 1) / kC;
  const std::int64_t row = chunk / num_chunks;  // b H + h
  const std::int64_t first = chunk % num_chunks * kC;
  const int num_valid = static_cast<int>(min(static_cast<std::int64_t>(kC), sizes.seq_len - first));
  const int num_blocks = static_cast<int>(sizes.head_v_dim) / block_v;
  const int value_row = PaddedRow(block_v);
  const int thread = static_cast<int>(threadIdx.x);
  const int row_block = device::WarpId() / kParts * 16;  // first of this warp's tokens
  const int part = device::WarpId() % kParts;
  const int channel = part * kWarpK;
  const int pair = part * kWarpPairs;

  const auto token_row = [&](const Sequence& x) {
    return TokenRow<Element>(x, sizes.num_heads, row, first);
  };
  const auto load_stage = [&](int block) {
    auto& stage = stages[block % num_stages];
    const std::int64_t column = static_cast<std::int64_t>(block) * block_v;
    const std::int64_t state = (chunk * sizes.head_v_dim + column) * kDk;
    const auto copy_tokens = [&](Element* tile, const Sequence& x) {
      device::CopyRowsAsync<kC>(tile, token_row(x) + column, x.token_stride, num_valid, block_v);
    };
    copy_tokens(stage.d_o, d_o);
    copy_tokens(stage.y, saved_y);
    copy_tokens(stage.p, p);
    copy_tokens(stage.v, v);
    device::CopyRowsAsync<kMaxBlockV<Operand>>(
        stage.state, static_cast<const Element*>(saved.states) + state, kDk, block_v, kDk);
    device::CopyRowsAsync<kMaxBlockV<Operand>>(
        stage.d_state, static_cast<const Element*>(d_states) + state, kDk, block_v, kDk);
    device::CommitCopies();
  };
  device::CopyRowsAsync<kC>(shared.q, token_row(q), q.token_stride, num_valid, kDk);
  device::CopyRowsAsync<kC>(shared.k, token_row(k), k.token_stride, num_valid, kDk);
  load_stage(0);
  for (int i = thread; i < kNumGates * kC; i += kThreads) {
    (&shared.gates[0][0])[i] = factors.gates[chunk * kNumGates * kC + i];
  }
  for (int i = thread; i < kC; i += kThreads) shared.sums.pv[i] = 0;

  Accumulators dq[kWarpK / 16];       // dO S^T
  Accumulators m[kWarpK / 16];        // P S^T
  Accumulators dk[kWarpK / 16];       // Y G^T
  Accumulators d_a[kWarpPairs / 16];  // dO Y^T
  Accumulators d_l[kWarpPairs / 16];  // P Y^T
  device::Clear(dq);
  device::Clear(m);
  device::Clear(dk);
  device::Clear(d_a);
  device::Clear(d_l);
  float states_product = 0;
  for (int block = 0; block < num_blocks; ++block) {
    device::WaitForBlockCopies();  // this block has arrived for all, and all have left the other
                                   // stage
    if (num_stages == 2 && block + 1 < num_blocks) load_stage(block + 1);
    const auto& stage = stages[block % num_stages];

    for (int column = 0; column < block_v; column += 16) {
      const auto d_o_i = Operand::LoadA(stage.d_o + row_block * value_row + column, value_row);
      const auto p_i = Operand::LoadA(stage.p + row_block * value_row + column, value_row);
#pragma unroll
      for (int j = 0; j < kWarpPairs; j += 16) {
        const auto b_y = Operand::LoadB(stage.y + (pair + j) * value_row + column, value_row);
        device::MultiplyAdd<Operand>(d_a[j / 16], d_o_i, b_y);
        device::MultiplyAdd<Operand>(d_l[j / 16], p_i, b_y);
      }
      const auto y_i = Operand::LoadA(stage.y + row_block * value_row + column, value_row);
#pragma unroll
      for (int d = 0; d < kWarpK; d += 16) {
        const auto b_state =
            Operand::LoadBTransposed(stage.state + column * kKeyRow + channel + d, kKeyRow);
        device::MultiplyAdd<Operand>(dq[d / 16], d_o_i, b_state);
        device::MultiplyAdd<Operand>(m[d / 16], p_i, b_state);
        const auto b_d_state =
            Operand::LoadBTransposed(stage.d_state + column * kKeyRow + channel + d, kKeyRow);
        device::MultiplyAdd<Operand>(dk[d / 16], y_i, b_d_state);
      }
    }

    // dV = beta P and <P_i, v_i>: kThreads / kC neighbouring lanes share a token.
    constexpr int kLanesPerToken = kThreads / kC;
    constexpr int kVector = 16 / sizeof(Element);
    const int token = thread / kLanesPerToken;
    float pv = 0;
    if (token < num_valid) {
      const float beta = shared.gates[kBeta][token];
      Element* dv_row = token_row(gradients.v) + token * gradients.v.token_stride +
                        static_cast<std::int64_t>(block) * block_v;
      for (int i = thread % kLanesPerToken * kVector; i < block_v; i += kLanesPerToken * kVector) {
        const auto p_i = LoadVector(stage.p + token * value_row + i);
        const auto v_i = LoadVector(stage.v + token * value_row + i);
        Vector<Element> out;
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float p_e = Operand::ToFloat(p_i.x[e]);
          pv += p_e * Operand::ToFloat(v_i.x[e]);
          out.x[e] = Operand::FromFloat(beta * p_e);
        }
        *reinterpret_cast<Vector<Element>*>(dv_row + i) = out;
      }
    }
#pragma unroll
    for (int distance = kLanesPerToken / 2; distance > 0; distance /= 2) {
      pv += device::ShuffleXor(pv, distance);
    }
    if (thread % kLanesPerToken == 0) shared.sums.pv[token] += pv;

    if (gradients.log_decay != nullptr) {
      constexpr int kVectorsPerRow = kDk / kVector;
      for (int i = thread; i < block_v * kVectorsPerRow; i += kThreads) {
        const int at = i / kVectorsPerRow * kKeyRow + i % kVectorsPerRow * kVector;
        const auto s = LoadVector(stage.state + at);
        const auto d_s = LoadVector(stage.d_state + at);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          states_product += Operand::ToFloat(s.x[e]) * Operand::ToFloat(d_s.x[e]);
        }
      }
    }
    if (num_stages == 1 && block + 1 < num_blocks) {
      __syncthreads();
      load_stage(block + 1);
    }
  }
  // Gates of rows g and g + 8 of this warp's tokens.
  float entering[2], leaving[2], beta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = row_block + device::BlockRow(2 * i);
    entering[i] = shared.gates[kEntering][token];
    leaving[i] = shared.gates[kLeaving][token];
    beta[i] = shared.gates[kBeta][token];
  }
  // Sixteen key channels of those tokens.
  const auto load_rows = [&](Accumulators& rows, const Element* tile, int d) {
    device::FromOperand<Operand>(
        rows, Operand::LoadA(tile + row_block * kKeyRow + channel + 16 * d, kKeyRow));
  };

  // dA = s (dO Y^T) D and dKK = -(P Y^T) Ds, as operands.
#pragma unroll
  for (int j = 0; j < kWarpPairs; j += 16) {
    Accumulators d_kk;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = row_block + device::BlockRow(e % 4);
      const int column = pair + j + device::BlockColumn(e / 4, e % 4);
      const float decay = column <= i ? device::Exp(shared.gates[kCumulativeLogDecay][i] -
                                                    shared.gates[kCumulativeLogDecay][column])
                                      : 0.f;
      d_a[j / 16][e / 4][e % 4] *= sizes.scale * decay;
      d_kk[e / 4][e % 4] = column < i ? -decay * d_l[j / 16][e / 4][e % 4] : 0.f;
    }
    const int at = row_block * kPairRow + pair + j;
    device::StoreRows(shared.d_a + at, kPairRow, 16, d_a[j / 16]);
    device::StoreRows(shared.d_kk + at, kPairRow, 16, d_kk);
  }

  float written[2] = {0, 0};  // <k, w (Y G^T)>
#pragma unroll
  for (int d = 0; d < kWarpK / 16; ++d) {
    Accumulators k_d;
    load_rows(k_d, shared.k, d);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int half = e % 4 / 2;
      dq[d][e / 4][e % 4] *= sizes.scale * entering[half];
      m[d][e / 4][e % 4] *= -entering[half];
      dk[d][e / 4][e % 4] *= leaving[half];
      written[half] += dk[d][e / 4][e % 4] * k_d[e / 4][e % 4];
    }
  }
  __syncthreads();

  // dq = s e^b (dO S^T) + dA K,  M = -e^b (P S^T) + dKK K,
  // dk - beta M = w (Y G^T) + dA^T Q + dKK^T K', with K' = beta K as it is rounded
#pragma unroll
  for (int j = 0; j < kC; j += 16) {
    if (j <= row_block) {
      const auto a = Operand::LoadA(shared.d_a + row_block * kPairRow + j, kPairRow);
      const auto kk = Operand::LoadA(shared.d_kk + row_block * kPairRow + j, kPairRow);
#pragma unroll
      for (int d = 0; d < kWarpK; d += 16) {
        const auto b_k = Operand::LoadBTransposed(shared.k + j * kKeyRow + channel + d, kKeyRow);
        device::MultiplyAdd<Operand>(dq[d / 16], a, b_k);
        device::MultiplyAdd<Operand>(m[d / 16], kk, b_k);
      }
    }
    if (j >= row_block) {
      const auto a = Operand::LoadATransposed(shared.d_a + j * kPairRow + row_block, kPairRow);
      const auto kk = Operand::LoadATransposed(shared.d_kk + j * kPairRow + row_block, kPairRow);
#pragma unroll
      for (int d = 0; d < kWarpK; d += 16) {
        const auto b_q = Operand::LoadBTransposed(shared.q + j * kKeyRow + channel + d, kKeyRow);
        device::MultiplyAdd<Operand>(dk[d / 16], a, b_q);
        auto b_k = Operand::LoadBTransposed(shared.k + j * kKeyRow + channel + d, kKeyRow);
        ScaleDepth(b_k, shared.gates[kBeta] + j);
        device::MultiplyAdd<Operand>(dk[d / 16], kk, b_k);
      }
    }
  }

  float db[2] = {0, 0};
  float km[2] = {0, 0};
#pragma unroll
  for (int d = 0; d < kWarpK / 16; ++d) {
    Accumulators q_d, k_d;
    load_rows(q_d, shared.q, d);
    load_rows(k_d, shared.k, d);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int half = e % 4 / 2;
      const float k_e = k_d[e / 4][e % 4];
      const float m_e = m[d][e / 4][e % 4];
      float& dk_e = dk[d][e / 4][e % 4];
      dk_e += beta[half] * m_e;
      const float beta_k = Operand::ToFloat(Operand::FromFloat(beta[half] * k_e));
      db[half] +=
          q_d[e / 4][e % 4] * dq[d][e / 4][e % 4] - k_e * dk_e + (beta_k + beta[half] * k_e) * m_e;
      km[half] += k_e * m_e;
    }
  }
#pragma unroll
  for (int d = 0; d < kWarpK; d += 16) {
    device::StoreRows(token_row(gradients.q) + row_block * gradients.q.token_stride + channel + d,
                      static_cast<int>(gradients.q.token_stride), num_valid - row_block,
                      dq[d / 16]);
    device::StoreRows(token_row(gradients.k) + row_block * gradients.k.token_stride + channel + d,
                      static_cast<int>(gradients.k.token_stride), num_valid - row_block,
                      dk[d / 16]);
  }
  auto& sums = shared.sums;
  sums.Put(sums.db[part], row_block, db);
  sums.Put(sums.km[part], row_block, km);
  sums.Put(sums.written[part], row_block, written);
  sums.PutStatesProduct(device::WarpId(), states_product);
  __syncthreads();
  if (device::WarpId() != 0) return;
  const std::int64_t gate =
      (row / sizes.num_heads * sizes.seq_len + first) * sizes.num_heads + row % sizes.num_heads;
  sums.Finish(shared.gates, num_valid, sizes.num_heads, gate, gradients);
}

}  // namespace

int DeltaRuleGradients(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, const Sequence& q,
                       const Sequence& k, const Sequence& v, const Sequence& d_o,
                       const DeltaRuleFactorData& factors, const DeltaRuleSaved& saved,
                       const void* p, const void* d_states, const DeltaRuleGradientData& gradients,
                       CUstream_st* stream) {
  return ForSizes(sizes, [&]<typename Operand, int kDk>() {
    const int block_v =
        static_cast<int>(min(sizes.head_v_dim, static_cast<std::int64_t>(kMaxBlockV<Operand>)));
    const std::size_t shared_bytes =
        sizeof(GradientShared<Operand, kDk>) +
        static_cast<std::size_t>(plan.gradient_stages) * sizeof(GradientTiles<Operand, kDk>);
    return device::Launch(GradientsKernel<Operand, kDk>,
                          sizes.batch_size * sizes.num_heads * NumChunks(sizes),
                          kGradientThreads<Operand, kDk>, shared_bytes, stream, sizes, q, k, v, d_o,
                          factors, saved, Contiguous(saved.y, sizes, sizes.head_v_dim),
                          Contiguous(const_cast<void*>(p), sizes, sizes.head_v_dim), d_states,
                          gradients, block_v, plan.gradient_stages);
  });
}

}  // namespace mixerbench::kernels::delta_rule
