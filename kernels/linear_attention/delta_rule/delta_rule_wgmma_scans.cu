// The scans of delta_rule_states.cu and delta_rule_state_gradients.cu by warpgroups, for 64 columns
// of V at once. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_wgmma_scan.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

using warpgroup::Element;
using warpgroup::kC;
using warpgroup::Tile;

constexpr int kStages = 3;
constexpr int kThreads = 2 * warpgroup::kThreads;

template <int kDk>
struct WgmmaScanShared {
  struct Stage {
    Tile q[kDk / 64], k[kDk / 64];
    Tile v;  // or dO
    Tile x, a;
  };
  Stage stages[kStages];
  alignas(16) warpgroup::Gates gates[kStages];
};

// Block: 64 columns of V of one (b, h), grid B H V / 64. The second warpgroup copies the chunks
// that come next, up to two ahead, the first one scans. State and sums fp32 in registers.
// Deterministic.
template <int kDk>
struct WgmmaScan {
  __device__ WgmmaScan(const DeltaRuleSizes& scan_sizes, char* shared_bytes)
      : sizes(scan_sizes),
        shared(*reinterpret_cast<WgmmaScanShared<kDk>*>(shared_bytes)),
        row(blockIdx.x / (sizes.head_v_dim / 64)),
        num_chunks(static_cast<int>((sizes.seq_len + kC - 1) / kC)),
        block_column(blockIdx.x % (sizes.head_v_dim / 64) * 64),
        column(block_column + 16 * warpgroup::WarpOfGroup()) {}

  __device__ bool is_copying() const { return threadIdx.x >= warpgroup::kThreads; }

  __device__ int NumValid(int n) const {
    return static_cast<int>(min(static_cast<std::int64_t>(kC), sizes.seq_len - n * kC));
  }

  __device__ const Element* Rows(const Sequence& x, int n) const {
    return TokenRow<const Element>(x, sizes.num_heads, row, static_cast<std::int64_t>(n) * kC);
  }

  __device__ void Load(int n, int index, const Sequence& q, const Sequence& k, const Sequence& v,
                       const DeltaRuleFactorData& factors) {
    constexpr int kCopyThreads = warpgroup::kThreads;
    auto& stage = shared.stages[index];
    const std::int64_t chunk = row * num_chunks + n;
    const int valid = NumValid(n);
    warpgroup::CopyRowsAsync<kCopyThreads, kDk / 64>(stage.k, Rows(k, n), k.token_stride, valid);
    warpgroup::CopyRowsAsync<kCopyThreads, kDk / 64>(stage.q, Rows(q, n), q.token_stride, valid);
    warpgroup::CopyRowsAsync<kCopyThreads, 1>(&stage.v, Rows(v, n) + block_column, v.token_stride,
                                              valid);
    warpgroup::CopyRowsAsync<kCopyThreads, 1, true>(
        &stage.x, static_cast<const Element*>(factors.x) + chunk * kC * kC, kC, kC);
    warpgroup::CopyRowsAsync<kCopyThreads, 1, true>(
        &stage.a, static_cast<const Element*>(factors.a) + chunk * kC * kC, kC, kC);
    const int i = static_cast<int>(threadIdx.x) % kCopyThreads * 4;
    if (i < kNumGates * kC) {
      device::CopyAsync16(&shared.gates[index][0][0] + i,
                          factors.gates + chunk * kNumGates * kC + i);
    }
  }

  // Chunks first, first + step, ...: copies all of them, one barrier a chunk.
  __device__ void CopyAll(int first, int step, const Sequence& q, const Sequence& k,
                          const Sequence& v, const DeltaRuleFactorData& factors) {
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < num_chunks) Load(first + i * step, i, q, k, v, factors);
      device::CommitCopies();
    }
    for (int i = 0; i < num_chunks; ++i) {
      device::WaitForCopies<kStages - 2>();
      warpgroup::PublishToProducts();
      __syncthreads();  // the i-th has arrived, and the one before it is no longer read
      const int next = i + kStages - 1;
      if (next < num_chunks) Load(first + next * step, next % kStages, q, k, v, factors);
      device::CommitCopies();
    }
  }

  // A transposed state to E [B,H,N,V,K].
  __device__ void StoreChunkState(void* states, int n,
                                  const Accumulators (&state)[kDk / 64][4]) const {
    Element* p =
        static_cast<Element*>(states) + ((row * num_chunks + n) * sizes.head_v_dim + column) * kDk;
#pragma unroll
    for (int d = 0; d < kDk; d += 16) device::StoreRows(p + d, kDk, 16, state[d / 64][d / 16 % 4]);
  }

  // 64 key channels of this warp's columns of a state [B,H,K,V].
  template <typename Float>
  __device__ Float* StatePart(Float* states, int d) const {
    Float* p = StateColumn(states, sizes, row, column);
    return p == nullptr ? nullptr : p + d * 64 * sizes.head_v_dim;
  }

  __device__ Element* ColumnRows(const Sequence& x, int n) const {
    return const_cast<Element*>(Rows(x, n)) + column;
  }

  const DeltaRuleSizes& sizes;
  WgmmaScanShared<kDk>& shared;
  std::int64_t row;  // b H + h
  int num_chunks;
  std::int64_t block_column, column;  // first ones of the block and of this warp
};

template <int kDk>
__global__ void __launch_bounds__(kThreads, 1)
    WideStatesKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                     const Sequence v, const DeltaRuleFactorData factors,
                     const float* __restrict__ initial_state, const Sequence o,
                     float* __restrict__ final_state, const DeltaRuleSaved saved,
                     const Sequence saved_y) {
  extern __shared__ __align__(1024) char shared_bytes[];
  WgmmaScan<kDk> scan(sizes, shared_bytes);
  if (scan.is_copying()) {
    scan.CopyAll(0, 1, q, k, v, factors);
    return;
  }
  Accumulators state[kDk / 64][4];  // S^T, 64 x K
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    LoadState(state[d], scan.StatePart(initial_state, d), sizes.head_v_dim);
  }
#pragma unroll 1
  for (int n = 0; n < scan.num_chunks; ++n) {
    __syncthreads();
    const auto& stage = scan.shared.stages[n % kStages];
    if (saved.states != nullptr) scan.StoreChunkState(saved.states, n, state);
    warpgroup::ScanForward<kDk>(
        state, stage.q, stage.k, stage.v, stage.x, stage.a, scan.shared.gates[n % kStages],
        sizes.scale,
        [&](const warpgroup::Operand::A(&out)[4]) {
          warpgroup::StoreTokens(o, scan.ColumnRows(o, n), scan.NumValid(n), out);
        },
        [&](const warpgroup::Operand::A(&y)[4]) {
          if (saved.y != nullptr) {
            warpgroup::StoreTokens(saved_y, scan.ColumnRows(saved_y, n), scan.NumValid(n), y);
          }
        });
  }
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    StoreState(state[d], scan.StatePart(final_state, d), sizes.head_v_dim);
  }
}

template <int kDk>
__global__ void __launch_bounds__(kThreads, 1)
    WideStateGradientsKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                             const Sequence d_o, const DeltaRuleFactorData factors,
                             const float* __restrict__ d_final_state, const Sequence p_out,
                             void* d_states, float* __restrict__ d_initial_state) {
  extern __shared__ __align__(1024) char shared_bytes[];
  WgmmaScan<kDk> scan(sizes, shared_bytes);
  const int last = scan.num_chunks - 1;
  if (scan.is_copying()) {
    scan.CopyAll(last, -1, q, k, d_o, factors);
    return;
  }
  Accumulators d_state[kDk / 64][4];  // G^T, 64 x K
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    LoadState(d_state[d], scan.StatePart(d_final_state, d), sizes.head_v_dim);
  }
#pragma unroll 1
  for (int n = last; n >= 0; --n) {
    __syncthreads();
    const auto& stage = scan.shared.stages[(last - n) % kStages];
    warpgroup::ScanBackward<kDk>(
        d_state, stage.q, stage.k, stage.v, stage.x, stage.a,
        scan.shared.gates[(last - n) % kStages], sizes.scale,
        [&] { scan.StoreChunkState(d_states, n, d_state); },
        [&](const Accumulators(&p)[4]) {
          warpgroup::StoreTokens(p_out, scan.ColumnRows(p_out, n), scan.NumValid(n), p);
        });
  }
  if (d_initial_state == nullptr) return;
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    StoreState(d_state[d], scan.StatePart(d_initial_state, d), sizes.head_v_dim);
  }
}

// Calls launch.template operator()<kDk>(num_blocks).
template <typename Launch>
int ForWideSizes(const DeltaRuleSizes& sizes, const Launch& launch) {
  const std::int64_t num_blocks = sizes.batch_size * sizes.num_heads * sizes.head_v_dim / 64;
  return sizes.head_k_dim == 64 ? launch.template operator()<64>(num_blocks)
                                : launch.template operator()<128>(num_blocks);
}

}  // namespace

int DeltaRuleWideStates(const DeltaRuleSizes& sizes, const Sequence& q, const Sequence& k,
                        const Sequence& v, const DeltaRuleFactorData& factors,
                        const float* initial_state, const Sequence& o, float* final_state,
                        const DeltaRuleSaved& saved, CUstream_st* stream) {
  return ForWideSizes(sizes, [&]<int kDk>(std::int64_t num_blocks) {
    return device::Launch(WideStatesKernel<kDk>, num_blocks, kThreads, sizeof(WgmmaScanShared<kDk>),
                          stream, sizes, q, k, v, factors, initial_state, o, final_state, saved,
                          Contiguous(saved.y, sizes, sizes.head_v_dim));
  });
}

int DeltaRuleWideStateGradients(const DeltaRuleSizes& sizes, const Sequence& q, const Sequence& k,
                                const Sequence& d_o, const DeltaRuleFactorData& factors,
                                const float* d_final_state, void* p, void* d_states,
                                float* d_initial_state, CUstream_st* stream) {
  return ForWideSizes(sizes, [&]<int kDk>(std::int64_t num_blocks) {
    return device::Launch(WideStateGradientsKernel<kDk>, num_blocks, kThreads,
                          sizeof(WgmmaScanShared<kDk>), stream, sizes, q, k, d_o, factors,
                          d_final_state, Contiguous(p, sizes, sizes.head_v_dim), d_states,
                          d_initial_state);
  });
}

}  // namespace mixerbench::kernels::delta_rule
