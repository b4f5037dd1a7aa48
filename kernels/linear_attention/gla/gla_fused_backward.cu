// The backward pass of the fused plan, every gradient. See gla_kernels.h.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/gla/gla_fused.cuh"
#include "kernels/linear_attention/gla/gla_pairs.cuh"

namespace mixerbench::kernels::gla {
namespace {

// A warp of the backward pass: its tokens of a chunk, and its value channels of the gradient of the
// state, which stays in registers.
template <int kKeys, int kValues>
struct BackwardWarp {
  using Lanes = ChannelLanes<kKeys>;
  using Bf16 = __nv_bfloat16;
  static constexpr int kKeyTiles = kKeys / 16;
  static constexpr int kValueTiles = kValues / 16;
  static constexpr FusedLayout kLayout{kKeys, kValues, FusedPass::kBackward};
  static constexpr int kBoundary = (kValueTiles + 1) * kKeys;  // numbers of a block
  using Keys = Accumulators[kKeyTiles];                        // [16,K]

  const FusedProblem& p;
  GateRows<kKeys> gates;
  OperandRows<kKeys> q, k;
  OperandRows<kValues> v, d_o;
  // Of every block the state before it, later the gradient of the state after it.
  OperandRows<kKeys> states;
  // Of every block: its decays, and the parts of what the tokens before it share with those after
  // it, and its own keys with them.
  float *decays, *boundaries;
  int* flags;
  Head head;
  int seq_len;
  int warp;
  int row;  // of this warp's tokens in tiles

  __device__ BackwardWarp(const FusedProblem& problem, char* memory)
      : p(problem),
        gates{memory + kLayout.gates},
        q{{memory + kLayout.q}},
        k{{memory + kLayout.k}},
        v{{memory + kLayout.v}},
        d_o{{memory + kLayout.d_o}},
        states{{memory + kLayout.states}},
        decays(reinterpret_cast<float*>(memory + kLayout.decays)),
        boundaries(reinterpret_cast<float*>(memory + kLayout.boundaries)),
        flags(reinterpret_cast<int*>(memory + kLayout.flags)),
        head(problem),
        seq_len(static_cast<int>(problem.seq_len)),
        warp(UniformWarpId()),
        row(warp * kFusedBlock) {}

  template <typename Element>
  __device__ HeadSequence<Element> Rows(const device::Sequence& s) const {
    return HeadSequence<Element>(s, head);
  }

  // Chunks from the last one on; the state before each comes from the forward pass.
  __device__ void Run() const {
    const int last_chunk = static_cast<int>(NumFusedChunks(seq_len)) - 1;
    CopyBlock(last_chunk * kFusedChunk + row);
    const bool has_values = warp < kValueTiles;
    const std::int64_t state_begin = static_cast<std::int64_t>(blockIdx.x) * kKeys * kValues;
    Keys gradient;  // [16 values, K]
    device::Clear(gradient);
    if (has_values && p.d_final_state != nullptr) {
      ForStateElements<kKeys, kValues>(16 * warp, [&](int d, int h, int e, int i) {
        gradient[d][h][e] = p.d_final_state[state_begin + i];
      });
    }
#pragma unroll 1
    for (int chunk = last_chunk; chunk >= 0; --chunk) {
      const int token = chunk * kFusedChunk + row;
      SavedState<kKeys, kValues> saved;
      if (has_values) saved.Load(p, chunk, warp);
      device::WaitForCopies<0>();
      device::SyncWarp();
      std::uint32_t resets;
      const bool is_factored = PrepareBlock(gates, q, k, decays, flags, warp, p.scale, resets);
      device::SyncBlock();  // every block is prepared

      bool factored[kFusedWarps];
      LoadFlags(factored, flags);
      if (has_values) {
        Keys state;
        saved.To(state);
        ScanState<kKeys, kValues>(state, states, k, v, decays, factored, 16 * warp);
      }
      device::SyncBlock();  // `states` has the states
      Keys terms;
      const Left d_weights = FindQueryGradients(terms, token, is_factored);
      device::SyncBlock();  // nobody reads them any more
      if (has_values) {
        ScanGradient<kKeys, kValues>(gradient, states, q, d_o, decays, factored, 16 * warp,
                                     boundaries + warp * kKeys, kBoundary);
      }
      device::SyncBlock();  // `states` has their gradients
      FindKeyGradients(terms, d_weights, token, is_factored);
      FindGateGradients(terms, token, resets);
    }
    if (has_values && p.d_initial_state != nullptr) {
      ForStateElements<kKeys, kValues>(16 * warp, [&](int d, int h, int e, int i) {
        p.d_initial_state[state_begin + i] = gradient[d][h][e];
      });
    }
  }

  __device__ void CopyBlock(int token) const {
    Rows<const float>(p.log_decay).CopyBlock(gates, row, token, seq_len);
    Rows<const Bf16>(p.q).CopyBlock(q, row, token, seq_len);
    Rows<const Bf16>(p.k).CopyBlock(k, row, token, seq_len);
    Rows<const Bf16>(p.v).CopyBlock(v, row, token, seq_len);
    Rows<const Bf16>(p.d_o).CopyBlock(d_o, row, token, seq_len);
    device::CommitCopies();
  }

  // d_q of this warp's tokens, and terms = q ∘ d_q. Returns dA, [query][key].
  __device__ Left FindQueryGradients(Keys& terms, int token, bool is_factored) const {
    Accumulators d_scores = {};
    Keys d_q;
    device::Clear(d_q);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
      const Left rows = d_o.LoadA(row, 16 * m);
      MultiplyAdd(d_scores, rows, v.LoadB(row, 16 * m));
#pragma unroll
      for (int d = 0; d < kKeyTiles; ++d) {
        MultiplyAdd(d_q[d], rows, states.LoadBTransposed(warp * kValues + 16 * m, 16 * d));
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (BlockColumn(e / 4, e % 4) > BlockRow(e % 4)) d_scores[e / 4][e % 4] = 0;
    }
    const Left d_weights = ToOperand(d_scores);
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
      if (is_factored) MultiplyAdd(d_q[d], d_weights, k.LoadBTransposed(row, 16 * d));
      device::FromOperand<device::Bf16Operand>(terms[d], q.LoadA(row, 16 * d));
    }
    const auto to = Rows<Bf16>(p.d_q);
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
      Multiply(terms[d], d_q[d]);
      Accumulators factors;
      LoadSums(factors, gates, row, 16 * d);
      QueryFactors(factors, p.scale);
      Multiply(d_q[d], factors);
      if (!is_factored) {
        AddPairsToQueries(d_q[d], terms[d], d_weights, RawQueries(token, 16 * d),
                          RawKeys(token, 16 * d), gates, row, 16 * d, p.scale);
      }
      device::StoreRows(to.At(token) + 16 * d, to.stride, seq_len - token, d_q[d]);
    }
    return d_weights;
  }

  // d_k and d_v of this warp's tokens; subtracts k ∘ d_k from the terms.
  __device__ void FindKeyGradients(Keys& terms, const Left& d_weights_of_queries, int token,
                                   bool is_factored) const {
    Keys d_k;
    device::Clear(d_k);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
      const Left rows = v.LoadA(row, 16 * m);
#pragma unroll
      for (int d = 0; d < kKeyTiles; ++d) {
        MultiplyAdd(d_k[d], rows, states.LoadBTransposed(warp * kValues + 16 * m, 16 * d));
      }
    }
    const Left d_weights = TransposedOperand(d_weights_of_queries);  // [key][query]
    Left keys[kKeyTiles];
    Accumulators scores = {};         // [key][query]
    float shared[kKeyTiles][4] = {};  // by keys with what comes after the block
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
      keys[d] = k.LoadA(row, 16 * d);
      Accumulators x;
      device::FromOperand<device::Bf16Operand>(x, keys[d]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        shared[d][e / 4 * 2 + e % 2] += x[e / 4][e % 4] * d_k[d][e / 4][e % 4];
      }
      if (is_factored) {
        MultiplyAdd(d_k[d], d_weights, q.LoadBTransposed(row, 16 * d));
        MultiplyAdd(scores, keys[d], q.LoadB(row, 16 * d));
      }
    }
    StoreSumsOverRows(boundaries + warp * kBoundary + kValueTiles * kKeys, shared);
    const auto to = Rows<Bf16>(p.d_k);
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
      Accumulators factors;
      device::FromOperand<device::Bf16Operand>(factors, keys[d]);
      SubtractProduct(terms[d], factors, d_k[d]);
      LoadSums(factors, gates, row, 16 * d);
      KeyFactors(factors, gates, row, 16 * d, is_factored);
      Multiply(d_k[d], factors);
      if (!is_factored) {
        AddPairsToKeys(d_k[d], terms[d], scores, d_weights, RawQueries(token, 16 * d),
                       RawKeys(token, 16 * d), gates, row, 16 * d);
      }
      device::StoreRows(to.At(token) + 16 * d, to.stride, seq_len - token, d_k[d]);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (BlockRow(e % 4) > BlockColumn(e / 4, e % 4)) scores[e / 4][e % 4] = 0;
    }
    const Left weights = ToOperand(scores);
    Accumulators d_v[kValueTiles];
    device::Clear(d_v);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
#pragma unroll
      for (int d = 0; d < kKeyTiles; ++d) {
        MultiplyAdd(d_v[m], keys[d], states.LoadB(warp * kValues + 16 * m, 16 * d));
      }
      MultiplyAdd(d_v[m], weights, d_o.LoadBTransposed(row, 16 * m));
    }
    const auto to_values = Rows<Bf16>(p.d_v);
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) {
      device::StoreRows(to_values.At(token) + 16 * m, to_values.stride, seq_len - token, d_v[m]);
    }
  }

  // d_log_decay: of each token the terms from it to the end of its block, and the block's boundary;
  // 0 for those that reset. Starts the copies of the chunk before. One warp.
  __device__ void FindGateGradients(const Keys& terms, int token, std::uint32_t resets) const {
    device::SyncWarp();  // before the terms take the place of the sums of gates
#pragma unroll
    for (int d = 0; d < kKeyTiles; ++d) {
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        *reinterpret_cast<float2*>(gates.Pair(row, 16 * d, e / 4, e % 4 / 2)) = {
            terms[d][e / 4][e % 4], terms[d][e / 4][e % 4 + 1]};
      }
    }
    device::SyncWarp();
    const Lanes at;
    float sums[Lanes::kTokens][Lanes::kChannels];
    at.Read(sums, gates, row);
    device::SyncWarp();
    if (token >= kFusedChunk) CopyBlock(token - kFusedChunk);
    float later[Lanes::kChannels];
#pragma unroll
    for (int c = 0; c < Lanes::kChannels; ++c) {
#pragma unroll
      for (int i = Lanes::kTokens - 2; i >= 0; --i) sums[i][c] += sums[i + 1][c];
      later[c] = 0;
      if constexpr (Lanes::kLanes < 32) {
        const float other = __shfl_down_sync(~0u, sums[0][c], Lanes::kLanes);
        if (at.first == 0) later[c] = other;
      }
#pragma unroll
      for (int part = 0; part <= kValueTiles; ++part) {
        later[c] += boundaries[warp * kBoundary + part * kKeys + at.channel + c];
      }
    }
    const auto rows = Rows<float>(p.d_log_decay);
    float* to = rows.At(token + at.first) + at.channel;
#pragma unroll
    for (int i = 0; i < Lanes::kTokens; ++i, to += rows.stride) {
#pragma unroll
      for (int c = 0; c < Lanes::kChannels; ++c) {
        const bool is_reset = (resets >> (i * Lanes::kChannels + c) & 1) != 0;
        sums[i][c] = is_reset ? 0 : sums[i][c] + later[c];
      }
      if (token + at.first + i < seq_len) Lanes::Write(to, sums[i]);
    }
  }

  // Queries, times the scale, and keys of this warp's tokens as they were given.
  __device__ Left RawQueries(int token, int column) const {
    return Scaled(Rows<const Bf16>(p.q).Load(token, seq_len, column), p.scale);
  }
  __device__ Left RawKeys(int token, int column) const {
    return Rows<const Bf16>(p.k).Load(token, seq_len, column);
  }
};

// Accumulators are fp32; no atomics, every sum has a fixed order. Dynamic shared memory:
// FusedLayout.
template <int kKeys, int kValues>
__global__ void __launch_bounds__(32 * kFusedWarps, kKeys == 64 ? 2 : 4)
    FusedBackwardKernel(const __grid_constant__ FusedProblem p) {
  extern __shared__ __align__(128) char memory[];
  BackwardWarp<kKeys, kValues>(p, memory).Run();
}

}  // namespace

int FusedBackward(const FusedProblem& p, CUstream_st* stream) {
  return ForFusedDims(p, [&](auto keys, auto values) -> int {
    constexpr FusedLayout kLayout(keys(), values(), FusedPass::kBackward);
    return device::Launch(FusedBackwardKernel<keys(), values()>, p.batch_size * p.num_heads,
                          32 * kFusedWarps, static_cast<std::size_t>(kLayout.bytes), stream, p);
  });
}

}  // namespace mixerbench::kernels::gla
