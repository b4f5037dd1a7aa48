// The forward pass of the fused plan. See gla_kernels.h.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/gla/gla_fused.cuh"
#include "kernels/linear_attention/gla/gla_pairs.cuh"

namespace mixerbench::kernels::gla {
namespace {

// Accumulators are fp32; no atomics, every sum has a fixed order. Dynamic shared memory:
// FusedLayout.
template <int kKeys, int kValues>
__global__ void __launch_bounds__(32 * kFusedWarps, kKeys == 64 ? 3 : 4)
    FusedForwardKernel(const __grid_constant__ FusedProblem p) {
  constexpr int kKeyTiles = kKeys / 16;
  constexpr int kValueTiles = kValues / 16;
  constexpr FusedLayout kLayout(kKeys, kValues, FusedPass::kForward);
  extern __shared__ __align__(128) char memory[];
  const GateRows<kKeys> gates{memory + kLayout.gates};
  const OperandRows<kKeys> q{{memory + kLayout.q}};
  const OperandRows<kKeys> k{{memory + kLayout.k}};
  const OperandRows<kValues> v{{memory + kLayout.v}};
  const OperandRows<kKeys> states{{memory + kLayout.states}};
  auto* decays = reinterpret_cast<float*>(memory + kLayout.decays);
  auto* flags = reinterpret_cast<int*>(memory + kLayout.flags);

  const Head head(p);
  const HeadSequence<const __nv_bfloat16> all_q(p.q, head), all_k(p.k, head), all_v(p.v, head);
  const HeadSequence<const float> all_gates(p.log_decay, head);
  const HeadSequence<__nv_bfloat16> all_o(p.o, head);
  const int seq_len = static_cast<int>(p.seq_len);
  const int warp = UniformWarpId();
  const int row = warp * kFusedBlock;  // of this warp's tokens in tiles
  const bool has_values = warp < kValueTiles;
  const std::int64_t state_begin = static_cast<std::int64_t>(blockIdx.x) * kKeys * kValues;

  const auto copy_block = [&](int token) {
    all_gates.CopyBlock(gates, row, token, seq_len);
    all_q.CopyBlock(q, row, token, seq_len);
    all_k.CopyBlock(k, row, token, seq_len);
    all_v.CopyBlock(v, row, token, seq_len);
    device::CommitCopies();
  };
  copy_block(row);

  Accumulators state[kKeyTiles];
  device::Clear(state);
  if (has_values && p.initial_state != nullptr) {
    ForStateElements<kKeys, kValues>(16 * warp, [&](int d, int h, int e, int i) {
      state[d][h][e] = p.initial_state[state_begin + i];
    });
  }

  const int num_chunks = static_cast<int>(NumFusedChunks(seq_len));
#pragma unroll 1
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    const int token = chunk * kFusedChunk + row;
    const int next_token = token + kFusedChunk;
    device::WaitForCopies<0>();
    device::SyncWarp();
    std::uint32_t resets;  // of no use here
    const bool is_factored = PrepareBlock(gates, q, k, decays, flags, warp, p.scale, resets);
    device::SyncBlock();

    if (has_values) {
      if (p.states != nullptr) SavedState<kKeys, kValues>::Store(p, chunk, warp, state);
      bool factored[kFusedWarps];
      LoadFlags(factored, flags);
      ScanState<kKeys, kValues>(state, states, k, v, decays, factored, 16 * warp);
    }
    device::SyncBlock();

    Left queries[kKeyTiles];
    Accumulators scores = {};
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
      queries[d] = q.LoadA(row, 16 * d);
      if (is_factored) MultiplyAdd(scores, queries[d], k.LoadB(row, 16 * d));
    }
    if (!is_factored) {
#pragma unroll 1
      for (int d = 0; d < kKeys; d += 16) {
        AddPairScores(scores, Scaled(all_q.Load(token, seq_len, d), p.scale),
                      all_k.Load(token, seq_len, d), gates, row, d);
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (BlockColumn(e / 4, e % 4) > BlockRow(e % 4)) scores[e / 4][e % 4] = 0;
    }
    const Left weights = ToOperand(scores);
    Accumulators o[kValueTiles];
    device::Clear(o);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
#pragma unroll
      for (int d = 0; d < kKeyTiles; ++d) {
        MultiplyAdd(o[m], queries[d], states.LoadB(warp * kValues + 16 * m, 16 * d));
      }
    }
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
      MultiplyAdd(o[m], weights, v.LoadBTransposed(row, 16 * m));
    }
    device::SyncWarp();
    if (chunk + 1 < num_chunks) copy_block(next_token);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
      device::StoreRows(all_o.At(token) + 16 * m, all_o.stride, seq_len - token, o[m]);
    }
  }
  if (has_values && p.final_state != nullptr) {
    ForStateElements<kKeys, kValues>(16 * warp, [&](int d, int h, int e, int i) {
      p.final_state[state_begin + i] = state[d][h][e];
    });
  }
}

}  // namespace

int FusedForward(const FusedProblem& p, CUstream_st* stream) {
  return ForFusedDims(p, [&](auto keys, auto values) -> int {
    constexpr FusedLayout kLayout(keys(), values(), FusedPass::kForward);
    return device::Launch(FusedForwardKernel<keys(), values()>, p.batch_size * p.num_heads,
                          32 * kFusedWarps, static_cast<std::size_t>(kLayout.bytes), stream, p);
  });
}

}  // namespace mixerbench::kernels::gla
