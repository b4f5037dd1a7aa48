// What the kernels for chosen rows share: copies, sums of gates, the two factors of a decay, and
// operands of products in their other roles. Derivation in decay_rows.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "kernels/cuda/decay_rows.h"
#include "kernels/cuda/decay_rows_layout.h"
#include "kernels/cuda/log_decay.cuh"
#include "kernels/cuda/tiles.cuh"

namespace mixerbench::kernels::cuda {

// Where the gate of a channel lies among gates [token or row][channel].
template <int kKeys>
__device__ inline int GateIndex(int token, int channel) {
  return token * RowsStride(kKeys) + channel;
}

template <int kKeys>
__device__ inline float2 LoadGates(const float* gates, int token, int channel) {
  return *reinterpret_cast<const float2*>(gates + GateIndex<kKeys>(token, channel));
}

template <typename Element>
__device__ inline Element* HeadRows(const Sequence& s, std::int64_t batch, std::int64_t head) {
  return static_cast<Element*>(s.data) + batch * s.batch_stride + head * s.head_stride;
}

// Copies rows first..end-1 of kColumns elements; those from num_valid on become zeros. Rows in
// shared memory are RowsStride(kColumns) apart.
template <int kColumns, typename Element>
__device__ inline void CopyTokensAsync(Element* to, const Element* from, std::int64_t stride,
                                       int num_valid, int first, int end) {
  constexpr unsigned kVector = 16 / sizeof(Element);
  constexpr unsigned kVectors = kColumns / kVector;
  const int column = static_cast<int>(threadIdx.x % kVectors * kVector);
  const int step = static_cast<int>(blockDim.x / kVectors);
  int row = first + static_cast<int>(threadIdx.x / kVectors);
  const Element* source = from + row * stride + column;
  Element* target = to + row * RowsStride(kColumns) + column;
#pragma unroll 4
  for (; row < end; row += step, source += step * stride, target += step * RowsStride(kColumns)) {
    const bool valid = row < num_valid;
    CopyAsync16(target, valid ? source : from, valid);
  }
}

// What lies in the shared memory of both passes.
struct RowsMemory {
  float* gates;
  __nv_bfloat16* k;
  __nv_bfloat16* v;
  __nv_bfloat16* q;
  float* row_gates;
  int* positions;
  float* prefix;

  __device__ RowsMemory(char* memory, const DecayRowsLayout& layout)
      : gates(reinterpret_cast<float*>(memory + layout.gates)),
        k(reinterpret_cast<__nv_bfloat16*>(memory + layout.k)),
        v(reinterpret_cast<__nv_bfloat16*>(memory + layout.v)),
        q(reinterpret_cast<__nv_bfloat16*>(memory + layout.q)),
        row_gates(reinterpret_cast<float*>(memory + layout.row_gates)),
        positions(reinterpret_cast<int*>(memory + layout.positions)),
        prefix(reinterpret_cast<float*>(memory + layout.prefix)) {}
};

// Starts the copies of keys and values as two groups: what the warps begin with, then the rest.
template <int kKeys, int kValues>
__device__ inline void CopyKeysAndValuesAsync(const RowsMemory& m, const DecayRowsProblem& p,
                                              std::int64_t batch, std::int64_t head,
                                              const DecayRowsCut& cut) {
  const int seq_len = static_cast<int>(p.seq_len);
  const int ends[] = {cut.num_warps * kKeyBlock, cut.num_blocks * kKeyBlock};
  int begin = 0;
  for (const int end : ends) {
    CopyTokensAsync<kKeys>(m.k, HeadRows<const __nv_bfloat16>(p.k, batch, head), p.k.token_stride,
                           seq_len, begin, end);
    CopyTokensAsync<kValues>(m.v, HeadRows<const __nv_bfloat16>(p.v, batch, head), p.v.token_stride,
                             seq_len, begin, end);
    CommitCopies();
    begin = end;
  }
}

// The positions of rows first..first+num_rows-1 of a sequence; -1 for surplus entries.
__device__ inline void ListPositions(int* positions, const DecayRowsProblem& p, std::int64_t batch,
                                     int first, int num_rows) {
  for (int i = static_cast<int>(threadIdx.x); i < num_rows; i += static_cast<int>(blockDim.x)) {
    const int r = first + i;
    int position = -1;
    if (r < p.rows_per_sequence) {
      const std::int64_t* row = p.rows + batch * p.rows_per_sequence + r;
      const std::int64_t at = row[0] - batch * p.seq_len;
      if (at >= 0 && at < p.seq_len && (r == 0 || row[0] > row[-1]))
        position = static_cast<int>(at);
    }
    positions[i] = position;
  }
}

// How a warp holds a block of 16 tokens for work on single channels: a lane has kTokens tokens of
// one pair of channels.
template <int kKeys>
struct PairLanes {
  static constexpr int kPairs = kKeys / 2;
  static constexpr int kGroups = 32 / kPairs;
  static constexpr int kTokens = kKeyBlock / kGroups;
  int channel, first;  // of this lane; tokens from the beginning of the block
  __device__ PairLanes() : channel(LaneId() % kPairs * 2), first(LaneId() / kPairs * kTokens) {}
};

// The sum of `x` over the lanes with later tokens of the same channels.
template <int kKeys>
__device__ inline float2 SumOfLaterLanes(float2 x) {
  using Lanes = PairLanes<kKeys>;
  float2 later = {};
#pragma unroll
  for (int step = 1; step < Lanes::kGroups; ++step) {
    const float2 other = {__shfl_down_sync(~0u, x.x, step * Lanes::kPairs),
                          __shfl_down_sync(~0u, x.y, step * Lanes::kPairs)};
    if (LaneId() / Lanes::kPairs + step < Lanes::kGroups) {
      later = {later.x + other.x, later.y + other.y};
    }
  }
  return later;
}

// Turns the gates of block `n` into sums over the tokens after each, in units of log 2, and leaves
// the sum of the block in `total`. One warp.
template <int kKeys>
__device__ inline void SumGatesOfBlock(float* gates, float* total, int n) {
  constexpr float kLog2E = 1.44269504f;
  using Lanes = PairLanes<kKeys>;
  const Lanes at;
  float2 x[Lanes::kTokens];
#pragma unroll
  for (int i = 0; i < Lanes::kTokens; ++i) {
    x[i] = LoadGates<kKeys>(gates, n * kKeyBlock + at.first + i, at.channel);
  }
  float2 sum = {};
#pragma unroll
  for (int i = Lanes::kTokens - 1; i >= 0; --i) {
    const float2 after = sum;
    sum = {sum.x + kLog2E * BoundedLogDecay(x[i].x), sum.y + kLog2E * BoundedLogDecay(x[i].y)};
    x[i] = after;
  }
  const float2 later = SumOfLaterLanes<kKeys>(sum);
#pragma unroll
  for (int i = 0; i < Lanes::kTokens; ++i) {
    *reinterpret_cast<float2*>(gates +
                               GateIndex<kKeys>(n * kKeyBlock + at.first + i, at.channel)) = {
        x[i].x + later.x, x[i].y + later.y};
  }
  if (at.first == 0) {
    *reinterpret_cast<float2*>(total + at.channel) = {sum.x + later.x, sum.y + later.y};
  }
}

// From gates to sums: in `gates` those after each token in its block, in `prefix` [block][channel]
// G at the end of a block, in `row_gates` [row][channel] G at the row's position plus the logarithm
// of `scale`, so that factors of rows include it. The whole block of threads; ends with a barrier.
template <int kKeys>
__device__ inline void SumGates(float* gates, float* prefix, float* row_gates, const int* positions,
                                int num_blocks, int num_rows, float scale) {
  const float log_scale = __log2f(scale);
  const int num_warps = static_cast<int>(blockDim.x / 32);
  for (int n = WarpId(); n < num_blocks; n += num_warps) {
    SumGatesOfBlock<kKeys>(gates, prefix + n * kKeys, n);
  }
  __syncthreads();
  for (unsigned channel = threadIdx.x; channel < kKeys; channel += blockDim.x) {
    float sum = 0;
#pragma unroll 8
    for (int n = 0; n < num_blocks; ++n) {
      float* entry = prefix + n * kKeys + channel;
      sum += *entry;
      *entry = sum;
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < num_rows * kKeys;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kKeys;
    const int channel = i % kKeys;
    const int position = max(positions[row], 0);
    row_gates[GateIndex<kKeys>(row, channel)] = prefix[position / kKeyBlock * kKeys + channel] -
                                                gates[GateIndex<kKeys>(position, channel)] +
                                                log_scale;
  }
  __syncthreads();
}

// Decays are split at a reference: those of keys run up to it and those of rows start there. It is
// the end of the block for the rows after the block, where both factors are at most 1,
// and for rows inside it as long as theirs, the inverse of a decay, stays below 2^kWeakDecay. Else
// it is the row's own position, and the row has its turn alone.
constexpr float kWeakDecay = 100;

// Whether some channel decays by more than 2^-kWeakDecay within block n. One warp.
template <int kKeys>
__device__ inline bool DecaysStrongly(const float* prefix, int n) {
  bool strong = false;
  for (int channel = LaneId(); channel < kKeys; channel += 32) {
    const float before = n > 0 ? prefix[(n - 1) * kKeys + channel] : 0;
    strong |= before - prefix[n * kKeys + channel] > kWeakDecay;
  }
  return !AllLanes(!strong);
}

// Factors of the keys of block n in 16 channels; 0 for keys after the reference.
template <int kKeys, bool kAtBlockEnd>
__device__ inline void KeyFactors(Accumulators& factors, const float* gates, int n, int channel,
                                  int reference) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int column = channel + BlockColumn(h, 0);
    float2 at = {};
    if (!kAtBlockEnd) at = LoadGates<kKeys>(gates, reference, column);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = n * kKeyBlock + BlockRow(2 * i);
      const float2 x = LoadGates<kKeys>(gates, token, column);
      const bool counts = kAtBlockEnd || token <= reference;
      factors[h][2 * i] = counts ? Exp2(x.x - at.x) : 0;
      factors[h][2 * i + 1] = counts ? Exp2(x.y - at.y) : 0;
    }
  }
}

// Factors of a tile's rows in 16 channels. `block_end`: G there; counts[i]: whether the lane's row
// i of two takes part, else 0.
template <int kKeys, bool kAtBlockEnd>
__device__ inline void RowFactors(Accumulators& factors, const float* row_gates,
                                  const float* block_end, const float* gates, int first_row,
                                  int channel, int reference, const bool (&counts)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int column = channel + BlockColumn(h, 0);
    float2 at = *reinterpret_cast<const float2*>(block_end + column);
    if (!kAtBlockEnd) {
      const float2 after = LoadGates<kKeys>(gates, reference, column);
      at = {at.x - after.x, at.y - after.y};
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = LoadGates<kKeys>(row_gates, first_row + BlockRow(2 * i), column);
      factors[h][2 * i] = counts[i] ? Exp2(x.x - at.x) : 0;
      factors[h][2 * i + 1] = counts[i] ? Exp2(x.y - at.y) : 0;
    }
  }
}

// Which rows of a tile see block n of keys, and from which references.
struct TileRows {
  int last;         // position of the last row
  unsigned inside;  // rows inside the block, as bits
  unsigned alone;   // those of them whose reference is their own position
  bool counts[2];   // whether the lane's two rows take part with the end of the block as reference

  template <int kKeys>
  static __device__ TileRows Find(const float* prefix, const int* positions, int n) {
    TileRows rows;
    const int position = positions[LaneId() % kRowTile];
    rows.last = __reduce_max_sync(~0u, position);
    rows.inside = __ballot_sync(
        ~0u, LaneId() < kRowTile && position >= n * kKeyBlock && position < (n + 1) * kKeyBlock);
    rows.alone = rows.inside != 0 && DecaysStrongly<kKeys>(prefix, n) ? rows.inside : 0;
    const unsigned seeing =
        __ballot_sync(~0u, LaneId() < kRowTile && position >= n * kKeyBlock) & ~rows.alone;
    for (int i = 0; i < 2; ++i) rows.counts[i] = (seeing >> BlockRow(2 * i) & 1) != 0;
    return rows;
  }

  // Calls attend(whether the reference is the end of the block, its token, counts) for every
  // reference.
  template <typename Attend>
  __device__ void ForEachReference(const int* positions, const Attend& attend) const {
    attend(std::true_type(), 0, counts);
    for (unsigned rest = alone; rest != 0; rest &= rest - 1) {
      const int r = __ffs(static_cast<int>(rest)) - 1;
      const bool is_row[2] = {BlockRow(0) == r, BlockRow(2) == r};
      attend(std::false_type(), positions[r], is_row);
    }
  }
};

// sum += a ∘ b
__device__ inline void AddProduct(Accumulators& sum, const Accumulators& a, const Accumulators& b) {
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] += a[e / 4][e % 4] * b[e / 4][e % 4];
}

// a ∘ factors
__device__ inline Bf16Operand::A Scaled(const Bf16Operand::A& a, const Accumulators& factors) {
  Bf16Operand::A result;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      result.r[i + 2 * h] = PackBf16(LowBf16(a.r[i + 2 * h]) * factors[h][2 * i],
                                     HighBf16(a.r[i + 2 * h]) * factors[h][2 * i + 1]);
    }
  }
  return result;
}

// The same elements as the right operand whose columns are the rows of `a`.
__device__ inline Bf16Operand::B RowsAsColumns(const Bf16Operand::A& a) {
  return {{{a.r[0], a.r[2]}, {a.r[1], a.r[3]}}};
}

__device__ inline std::uint32_t Transposed(std::uint32_t x) {
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
  return x;
}
// The same elements as the right operand whose depth are the rows of `a`.
__device__ inline Bf16Operand::B RowsAsDepth(const Bf16Operand::A& a) {
  return {{{Transposed(a.r[0]), Transposed(a.r[1])}, {Transposed(a.r[2]), Transposed(a.r[3])}}};
}
__device__ inline Bf16Operand::A TransposedOperand(const Bf16Operand::A& a) {
  return {{Transposed(a.r[0]), Transposed(a.r[2]), Transposed(a.r[1]), Transposed(a.r[3])}};
}

// Sums of a lane's tokens in block n of x [tokens][channel], each from the token to the last of the
// lane's; returns the sum of the lanes with later tokens of the block.
template <int kKeys>
__device__ inline float2 SumToEnd(float2 (&sums)[PairLanes<kKeys>::kTokens], const float* x,
                                  int n) {
  using Lanes = PairLanes<kKeys>;
  const Lanes at;
  float2 sum = {};
#pragma unroll
  for (int i = Lanes::kTokens - 1; i >= 0; --i) {
    const float2 term = LoadGates<kKeys>(x, n * kKeyBlock + at.first + i, at.channel);
    sum = {sum.x + term.x, sum.y + term.y};
    sums[i] = sum;
  }
  return SumOfLaterLanes<kKeys>(sum);
}

// out_t = sum over i >= t of x_i for x [tokens][channel] where the gates were, 0 for a gate that
// resets. `out` and the gates in device memory have the given distances between tokens. `totals`
// [block][channel] is scratch. The whole block of threads.
template <int kKeys>
__device__ inline void SumOverLaterTokens(const float* x, float* totals, float* out,
                                          std::int64_t out_stride, const float* gates,
                                          std::int64_t gates_stride, int seq_len, int num_blocks) {
  using Lanes = PairLanes<kKeys>;
  const Lanes at;
  const int num_warps = static_cast<int>(blockDim.x / 32);
  float2 sums[Lanes::kTokens];
  for (int n = WarpId(); n < num_blocks; n += num_warps) {
    const float2 later = SumToEnd<kKeys>(sums, x, n);
    if (at.first == 0) {
      *reinterpret_cast<float2*>(totals + n * kKeys + at.channel) = {sums[0].x + later.x,
                                                                     sums[0].y + later.y};
    }
  }
  __syncthreads();
  for (unsigned channel = threadIdx.x; channel < kKeys; channel += blockDim.x) {
    float sum = 0;  // of later blocks
#pragma unroll 8
    for (int n = num_blocks - 1; n >= 0; --n) {
      float* entry = totals + n * kKeys + channel;
      const float total = *entry;
      *entry = sum;
      sum += total;
    }
  }
  __syncthreads();
  for (int n = WarpId(); n < num_blocks; n += num_warps) {
    float2 later = SumToEnd<kKeys>(sums, x, n);
    const float2 blocks = *reinterpret_cast<const float2*>(totals + n * kKeys + at.channel);
    later = {later.x + blocks.x, later.y + blocks.y};
    const int token = n * kKeyBlock + at.first;
    float* row = out + token * out_stride + at.channel;
    const float* gate_row = gates + token * gates_stride + at.channel;
#pragma unroll
    for (int i = 0; i < Lanes::kTokens; ++i, row += out_stride, gate_row += gates_stride) {
      if (token + i < seq_len) {
        const float2 gate = *reinterpret_cast<const float2*>(gate_row);
        *reinterpret_cast<float2*>(row) = {IsReset(gate.x) ? 0 : sums[i].x + later.x,
                                           IsReset(gate.y) ? 0 : sums[i].y + later.y};
      }
    }
  }
}

// Calls start(K, V) with the sizes of `p` as integral constants: K of 16, 32 or 64, V of K or 2 K
// up to kMostValues.
template <int kMostValues = 128, typename Problem, typename Start>
int ForDecayDims(const Problem& p, const Start& start) {
  const auto with_keys = [&](auto keys) -> int {
    if (p.value_dim == keys()) return start(keys, keys);
    if constexpr (2 * keys() <= kMostValues) {
      if (p.value_dim == 2 * keys()) return start(keys, std::integral_constant<int, 2 * keys()>());
    }
    return cudaErrorInvalidValue;
  };
  if (p.key_dim == 16) return with_keys(std::integral_constant<int, 16>());
  if (p.key_dim == 32) return with_keys(std::integral_constant<int, 32>());
  if (p.key_dim == 64) return with_keys(std::integral_constant<int, 64>());
  return cudaErrorInvalidValue;
}

}  // namespace mixerbench::kernels::cuda
