// What the two kernels of the fused plan share (gla.md): sums of gates, factors of queries
// and keys, and the steps of a state through a chunk.
//
// A CTA owns one (b, h) and takes a chunk of 64 tokens at a time, a warp 16 of them.
// Between chunks the state, or its gradient, lies in registers: a warp has 16 value channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/log_decay.cuh"
#include "kernels/linear_attention/gla/gla_tiles.cuh"

namespace mixerbench::kernels::gla {

constexpr float kLog2E = 1.44269504f;
// A block whose channels all keep more than 2^-86 takes the inverses of its decays
// (gla.md).
constexpr float kMaxFactored = 86;

// How a warp holds 16 tokens for sums over time: a lane has kTokens tokens of kChannels channels.
template <int kKeys>
struct ChannelLanes {
  static constexpr int kChannels = kKeys > 32 ? kKeys / 32 : 1;
  static constexpr int kLanes = kKeys / kChannels;
  static constexpr int kTokens = kFusedBlock * kLanes / 32;
  int channel = LaneId() % kLanes * kChannels;
  int first = LaneId() / kLanes * kTokens;

  // Where the lane's i-th token lies in the block of 16 rows from `row` on.
  __device__ char* At(const GateRows<kKeys>& rows, int row, int i) const {
    return rows.data + (row + first + i) * GateRows<kKeys>::kRowBytes +
           (channel * 4 ^ GateRows<kKeys>::Exchange(i));
  }
  __device__ void Read(float (&x)[kTokens][kChannels], const GateRows<kKeys>& rows, int row) const {
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      const char* from = At(rows, row, i);
      if constexpr (kChannels == 2) {
        const float2 pair = *reinterpret_cast<const float2*>(from);
        x[i][0] = pair.x, x[i][1] = pair.y;
      } else {
        x[i][0] = *reinterpret_cast<const float*>(from);
      }
    }
  }
  __device__ static void Write(void* to, const float (&x)[kChannels]) {
    if constexpr (kChannels == 2) {
      *static_cast<float2*>(to) = {x[0], x[1]};
    } else {
      *static_cast<float*>(to) = x[0];
    }
  }
};

// Turns the gates of this warp's block to b, the sum from the first token of the block to each,
// inclusive, in units of log 2. Leaves the decays of the block, and in `resets` a bit for each of
// the lane's gates that resets, [token][channel]; returns whether the block is factored.
template <int kKeys>
__device__ inline bool SumGates(const GateRows<kKeys>& gates, int row, float* decays,
                                std::uint32_t& resets) {
  using Lanes = ChannelLanes<kKeys>;
  static_assert(Lanes::kTokens * Lanes::kChannels <= 32);
  const Lanes at;
  float b[Lanes::kTokens][Lanes::kChannels];
  at.Read(b, gates, row);
  bool factored = true;
  resets = 0;
#pragma unroll
  for (int i = 0; i < Lanes::kTokens; ++i) {
#pragma unroll
    for (int c = 0; c < Lanes::kChannels; ++c) {
      if (device::IsReset(b[i][c])) resets |= 1U << (i * Lanes::kChannels + c);
      b[i][c] = device::BoundedLogDecay(b[i][c]);
    }
  }
#pragma unroll
  for (int c = 0; c < Lanes::kChannels; ++c) {
    b[0][c] *= kLog2E;
#pragma unroll
    for (int i = 1; i < Lanes::kTokens; ++i) b[i][c] = b[i - 1][c] + b[i][c] * kLog2E;
    if constexpr (Lanes::kLanes < 32) {
      const float before = device::ShuffleUp(b[Lanes::kTokens - 1][c], Lanes::kLanes);
#pragma unroll
      for (int i = 0; i < Lanes::kTokens; ++i) b[i][c] += at.first > 0 ? before : 0;
    }
    factored = factored && b[Lanes::kTokens - 1][c] >= -kMaxFactored;
  }
#pragma unroll
  for (int i = 0; i < Lanes::kTokens; ++i) {
    Lanes::Write(at.At(gates, row, i), b[i]);
  }
  if (at.first + Lanes::kTokens == kFusedBlock) {
    float decay[Lanes::kChannels];
#pragma unroll
    for (int c = 0; c < Lanes::kChannels; ++c) decay[c] = device::Exp2(b[Lanes::kTokens - 1][c]);
    Lanes::Write(decays + at.channel, decay);
  }
  return device::AllLanes(factored);
}

// b of the lane's elements of a block of 16 channels.
template <int kKeys>
__device__ inline void LoadSums(Accumulators& b, const GateRows<kKeys>& gates, int row,
                                int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = *reinterpret_cast<const float2*>(gates.Pair(row, column, h, i));
      b[h][2 * i] = x.x, b[h][2 * i + 1] = x.y;
    }
  }
}

// From b to scale e^b, what a query takes.
__device__ inline void QueryFactors(Accumulators& b, float scale) {
#pragma unroll
  for (int e = 0; e < 8; ++e) b[e / 4][e % 4] = scale * device::Exp2(b[e / 4][e % 4]);
}

// From b to what a key takes: e^{-b}, or e^{b_C - b} where that would be too large.
template <int kKeys>
__device__ inline void KeyFactors(Accumulators& b, const GateRows<kKeys>& gates, int row,
                                  int column, bool factored) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float2 total = {};
    if (!factored) {
      total = *reinterpret_cast<const float2*>(
          gates.InBlock(row, column + 8 * h, kFusedBlock - 1, LaneId() % 4 * 2));
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      b[h][e] = device::Exp2((e % 2 == 0 ? total.x : total.y) - b[h][e]);
    }
  }
}

// Sums the gates of this warp's block and multiplies its queries and keys by their factors, in
// place. Leaves the decays of the block and whether it is factored, and returns that. `resets`: of
// SumGates.
template <int kKeys>
__device__ inline bool PrepareBlock(const GateRows<kKeys>& gates, const OperandRows<kKeys>& q,
                                    const OperandRows<kKeys>& k, float* decays, int* flags,
                                    int warp, float scale, std::uint32_t& resets) {
  const int row = warp * kFusedBlock;
  const bool factored = SumGates(gates, row, decays + warp * kKeys, resets);
  if (LaneId() == 0) flags[warp] = factored;
  device::SyncWarp();
#pragma unroll
  for (int d = 0; d < kKeys; d += 16) {
    Accumulators sums, factors;
    LoadSums(sums, gates, row, d);
    const Left queries = q.LoadA(row, d);
    const Left keys = k.LoadA(row, d);
    device::SyncWarp();  // before stores to where other lanes read
#pragma unroll
    for (int e = 0; e < 8; ++e) factors[e / 4][e % 4] = sums[e / 4][e % 4];
    QueryFactors(factors, scale);
    q.Store(row, d, Scaled(queries, factors));
    KeyFactors(sums, gates, row, d, factored);
    k.Store(row, d, Scaled(keys, sums));
  }
  return factored;
}

// --- 16 value channels of a state, transposed: [16 values, K]

// What a step of a state over one block needs; loaded ahead, because steps depend on one another.
template <int kKeys, int kValues>
struct StateStep {
  static constexpr int kTiles = kKeys / 16;
  Left z;           // its tokens, of 16 value channels
  Right y[kTiles];  // and key channels
  float2 decay[kTiles][2];

  __device__ StateStep(const OperandRows<kValues>& all_z, const OperandRows<kKeys>& all_y,
                       const float* decays, int n, int value) {
    z = all_z.LoadATransposed(n * kFusedBlock, value);
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
      y[d] = all_y.LoadBTransposed(n * kFusedBlock, 16 * d);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        decay[d][h] =
            *reinterpret_cast<const float2*>(decays + n * kKeys + 16 * d + BlockColumn(h, 0));
      }
    }
  }

  // state += z yᵀ
  __device__ void Write(Accumulators (&state)[kTiles]) const {
#pragma unroll
    for (int d = 0; d < kTiles; ++d) MultiplyAdd(state[d], z, y[d]);
  }
  __device__ void DecaySums(float (&sums)[kTiles][4]) const {
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[d][i] *= i % 2 == 0 ? decay[d][i / 2].x : decay[d][i / 2].y;
    }
  }
  // state = diag(decay) state
  __device__ void Decay(Accumulators (&state)[kTiles]) const {
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        state[d][e / 4][e % 4] *= e % 2 == 0 ? decay[d][e / 4].x : decay[d][e / 4].y;
      }
    }
  }
};

template <int kKeys>
__device__ inline void StoreState(const OperandRows<kKeys>& to, int value,
                                  const Accumulators (&state)[kKeys / 16]) {
#pragma unroll
  for (int d = 0; d < kKeys / 16; ++d) to.Store(value, 16 * d, ToOperand(state[d]));
}

// Stores one state where another one is and adds the products of both, as operands, to `sums`:
// [16 keys][2 h + p], of columns BlockColumn(h, p).
template <int kKeys>
__device__ inline void ReplaceState(const OperandRows<kKeys>& to, int value,
                                    const Accumulators (&state)[kKeys / 16],
                                    float (&sums)[kKeys / 16][4]) {
#pragma unroll
  for (int d = 0; d < kKeys / 16; ++d) {
    const Left x = ToOperand(state[d]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        auto* const place = reinterpret_cast<std::uint32_t*>(to.Pair(value, 16 * d, h, i));
        const std::uint32_t old = *place;
        const std::uint32_t mine = x.r[i + 2 * h];
        sums[d][2 * h] += device::LowBf16(old) * device::LowBf16(mine);
        sums[d][2 * h + 1] += device::HighBf16(old) * device::HighBf16(mine);
        *place = mine;
      }
    }
  }
}

// Leaves the state before every block in `states`, [block][V,K], and ends with the one after them.
// factored: of every block.
template <int kKeys, int kValues>
__device__ inline void ScanState(Accumulators (&state)[kKeys / 16],
                                 const OperandRows<kKeys>& states, const OperandRows<kKeys>& k,
                                 const OperandRows<kValues>& v, const float* decays,
                                 const bool (&factored)[kFusedWarps], int value) {
  using Step = StateStep<kKeys, kValues>;
  Step next(v, k, decays, 0, value);
#pragma unroll
  for (int n = 0; n < kFusedWarps; ++n) {
    const Step step = next;
    if (n + 1 < kFusedWarps) next = Step(v, k, decays, n + 1, value);
    StoreState(states, n * kValues + value, state);
    if (!factored[n]) step.Decay(state);
    step.Write(state);
    if (factored[n]) step.Decay(state);
  }
}

// sums[d][2 h + p]: a lane's part of the sums over rows of columns 16 d + BlockColumn(h, p). Adds
// them up over the lanes with the same columns and leaves the sums in `to` [K].
template <int kTiles>
__device__ inline void StoreSumsOverRows(float* to, const float (&sums)[kTiles][4]) {
  // At each step half of the sums goes to either half of the lanes, as long as there are two.
  const int group = LaneId() / 4;
  float x[kTiles * 4];
#pragma unroll
  for (int i = 0; i < kTiles * 4; ++i) x[i] = sums[i / 4][i % 4];
  int count = kTiles * 4;
  int first = 0;
#pragma unroll
  for (int step = 0; step < 3; ++step) {
    const bool upper = (group >> step & 1) != 0;
    if (count == 1) {
      x[0] += device::ShuffleXor(x[0], 4 << step);
      continue;
    }
    count /= 2;
    first += upper ? count : 0;
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      if (i >= count) continue;
      const float mine = upper ? x[i + count] : x[i];
      const float other = upper ? x[i] : x[i + count];
      x[i] = mine + device::ShuffleXor(other, 4 << step);
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles * 4; ++i) {
    if (i >= count) continue;
    const int index = first + i;
    to[index / 4 * 16 + BlockColumn(index / 2 % 2, index % 2)] = x[i];
  }
}

// The gradient of the state, from the last block on. What a block finds in `states` is the gradient
// of the state after it, decayed to its beginning where the block is factored. Before that the
// state before the block is there: of both as they are rounded, e^{b_C} and the sum of products
// over these values go to products[block * product_stride..], [K].
template <int kKeys, int kValues>
__device__ inline void ScanGradient(Accumulators (&gradient)[kKeys / 16],
                                    const OperandRows<kKeys>& states, const OperandRows<kKeys>& q,
                                    const OperandRows<kValues>& d_o, const float* decays,
                                    const bool (&factored)[kFusedWarps], int value, float* products,
                                    int product_stride) {
  using Step = StateStep<kKeys, kValues>;
  Step next(d_o, q, decays, kFusedWarps - 1, value);
#pragma unroll
  for (int n = kFusedWarps - 1; n >= 0; --n) {
    const Step step = next;
    if (n > 0) next = Step(d_o, q, decays, n - 1, value);
    if (factored[n]) step.Decay(gradient);
    float sums[kKeys / 16][4] = {};
    ReplaceState(states, n * kValues + value, gradient, sums);
    if (!factored[n]) {
      step.Decay(gradient);
      step.DecaySums(sums);
    }
    StoreSumsOverRows(products + n * product_stride, sums);
    step.Write(gradient);
  }
}

// The flags that the warps left in shared memory.
__device__ inline void LoadFlags(bool (&flags)[kFusedWarps], const int* from) {
  const int4 words = *reinterpret_cast<const int4*>(from);
  flags[0] = words.x != 0, flags[1] = words.y != 0;
  flags[2] = words.z != 0, flags[3] = words.w != 0;
}

// Calls visit(element of the lane, its place in a dense [K,V]) for 16 value channels.
template <int kKeys, int kValues, typename Visit>
__device__ inline void ForStateElements(int value, const Visit& visit) {
#pragma unroll
  for (int d = 0; d < kKeys / 16; ++d) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      visit(d, e / 4, e % 4,
            (16 * d + BlockColumn(e / 4, e % 4)) * kValues + value + BlockRow(e % 4));
    }
  }
}

// A warp's share of the state that enters a chunk, [16 values, K], as the forward pass leaves it:
// in bf16, 16 bytes a lane for 16 keys.
template <int kKeys, int kValues>
struct SavedState {
  static constexpr int kTiles = kKeys / 16;
  uint4 words[kTiles];

  static __device__ uint4* Place(const FusedProblem& p, int chunk, int warp) {
    const std::int64_t index = blockIdx.x * NumFusedChunks(p.seq_len) + chunk;
    return static_cast<uint4*>(p.states) +
           ((index * (kValues / 16) + warp) * kTiles * 32 + LaneId());
  }
  static __device__ void Store(const FusedProblem& p, int chunk, int warp,
                               const Accumulators (&state)[kTiles]) {
    uint4* to = Place(p, chunk, warp);
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
      const Left x = ToOperand(state[d]);
      to[32 * d] = {x.r[0], x.r[1], x.r[2], x.r[3]};
    }
  }
  __device__ void Load(const FusedProblem& p, int chunk, int warp) {
    const uint4* from = Place(p, chunk, warp);
#pragma unroll
    for (int d = 0; d < kTiles; ++d) words[d] = from[32 * d];
  }
  __device__ void To(Accumulators (&state)[kTiles]) const {
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
      device::FromOperand<device::Bf16Operand>(state[d],
                                               {{words[d].x, words[d].y, words[d].z, words[d].w}});
    }
  }
};

}  // namespace mixerbench::kernels::gla
