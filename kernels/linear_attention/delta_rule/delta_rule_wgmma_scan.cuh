// One chunk of a scan by a warpgroup that owns 64 columns of V: the products of StatesKernel and
// StateGradientsKernel as warpgroup products. A warp owns 16 rows of the transposed state and of
// everything between. bf16, C = 64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"
#include "kernels/linear_attention/delta_rule/warpgroup.cuh"

namespace mixerbench::kernels::delta_rule::warpgroup {

constexpr int kC = kTileRows;

using Gates = float[kNumGates][kC];

template <typename Function>
__device__ void ForEach(Accumulators (&c)[kC / 16], const Function& function) {
#pragma unroll
  for (int n = 0; n < kC / 16; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      function(c[n][e / 4][e % 4], 16 * n + device::BlockColumn(e / 4, e % 4));
    }
  }
}

template <int kBlocks>
__device__ void Scale(Accumulators (&c)[kBlocks], float factor) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[n][e / 4][e % 4] *= factor;
  }
}

template <int kBlocks>
__device__ void ToOperands(Operand::A (&a)[kBlocks], const Accumulators (&c)[kBlocks]) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) a[n] = device::ToOperand<Operand>(c[n]);
}

// This warp's 16 columns of tokens [16 n, 16 n + 16) of a tile of V or dO, transposed.
__device__ inline void LoadColumns(Accumulators& c, const Tile& tile, int n) {
  device::FromOperand<Operand>(c, LoadATransposed(tile, 16 * n, 16 * WarpOfGroup()));
}

// 16 columns of a chunk, transposed, to token rows of `x`, which begins at the first of them.
__device__ inline void StoreTokens(const Sequence& x, Element* rows, int num_valid,
                                   const Accumulators (&c)[kC / 16]) {
#pragma unroll
  for (int i = 0; i < kC; i += 16) {
    device::StoreColumns(rows + i * x.token_stride, static_cast<int>(x.token_stride), num_valid - i,
                         c[i / 16]);
  }
}
__device__ inline void StoreTokens(const Sequence& x, Element* rows, int num_valid,
                                   const Operand::A (&a)[kC / 16]) {
  Accumulators c[kC / 16];
#pragma unroll
  for (int n = 0; n < kC / 16; ++n) device::FromOperand<Operand>(c[n], a[n]);
  StoreTokens(x, rows, num_valid, c);
}

// The state S^T [64,K] of this warpgroup goes over one chunk. q, k: K / 64 tiles; v: this
// warpgroup's columns. store_o(o) and store_y(y) get O^T and Y^T, as operands.
template <int kDk, bool kHasDecay = true, typename StoreO, typename StoreY>
__device__ void ScanForward(Accumulators (&state)[kDk / 64][4], const Tile* q, const Tile* k,
                            const Tile& v, const Tile& x, const Tile& a, const Gates& gates,
                            float scale, const StoreO& store_o, const StoreY& store_y) {
  Accumulators recalled[4];  // (K S)^T, then Y^T
  Accumulators out[4];       // (Q S)^T, then O^T
  Operand::A operands[kDk / 64][4];
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) ToOperands(operands[d], state[d]);
  Fence();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    MultiplyTiles<Depth::kAlongRows>(recalled, operands[d], Descriptor(k[d], 0, 0), d > 0);
  }
  Commit();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    MultiplyTiles<Depth::kAlongRows>(out, operands[d], Descriptor(q[d], 0, 0), d > 0);
  }
  Commit();
  Wait<1>(recalled);

  Operand::A written[4];  // beta (V - e^b K S), transposed
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    Accumulators corrected;
    LoadColumns(corrected, v, n);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int t = 16 * n + device::BlockColumn(e / 4, e % 4);
      float& c = corrected[e / 4][e % 4];
      const float entering = kHasDecay ? gates[kEntering][t] : 1.f;
      c = gates[kBeta][t] * (c - entering * recalled[n][e / 4][e % 4]);
    }
    written[n] = device::ToOperand<Operand>(corrected);
  }
  auto& y = recalled;
  Fence();
  MultiplyTiles<Depth::kAlongRows>(y, written, Descriptor(x, 0, 0), false);
  Commit();
  Wait<1>(out);
  ForEach(out, [&](float& c, int t) { c *= kHasDecay ? scale * gates[kEntering][t] : scale; });
  if constexpr (kHasDecay) {
#pragma unroll
    for (int d = 0; d < kDk / 64; ++d) Scale(state[d], gates[kEntering][kC - 1]);
  }
  Wait<0>(y);

  Operand::A y_operands[4];
  ToOperands(y_operands, y);
  Operand::A leaving[4];
  if constexpr (kHasDecay) {
    ForEach(y, [&](float& c, int t) { c *= gates[kLeaving][t]; });
    ToOperands(leaving, y);
  }
  Fence();
  MultiplyTiles<Depth::kAlongRows>(out, y_operands, Descriptor(a, 0, 0), true);
  Commit();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    MultiplyTiles<Depth::kDownColumns>(state[d], kHasDecay ? leaving : y_operands,
                                       Descriptor(k[d], 0, 0), true);
  }
  Commit();
  store_y(y_operands);
  Wait<1>(out);
  Operand::A o_operands[4];
  ToOperands(o_operands, out);
  store_o(o_operands);
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) Wait<0>(state[d]);
}

// The gradient G^T [64,K] of the state that leaves a chunk becomes that of the state that enters
// it. store_d_state() may read the former while the first products are under way; store_p(p) gets
// P^T.
template <int kDk, bool kHasDecay = true, typename StoreDState, typename StoreP>
__device__ void ScanBackward(Accumulators (&d_state)[kDk / 64][4], const Tile* q, const Tile* k,
                             const Tile& d_o, const Tile& x, const Tile& a, const Gates& gates,
                             float scale, const StoreDState& store_d_state, const StoreP& store_p) {
  Accumulators written[4];  // (K G)^T, then dY^T = w (K G)^T + dO^T A
  Accumulators read[4];     // dO^T A, then P^T = dY^T X
  {
    Operand::A operands[kDk / 64][4];
#pragma unroll
    for (int d = 0; d < kDk / 64; ++d) ToOperands(operands[d], d_state[d]);
    Fence();
#pragma unroll
    for (int d = 0; d < kDk / 64; ++d) {
      MultiplyTiles<Depth::kAlongRows>(written, operands[d], Descriptor(k[d], 0, 0), d > 0);
    }
    // Without decays w is one, and the products add up by themselves.
    MultiplyTiles<Depth::kDownColumns, Depth::kDownColumns>(
        kHasDecay ? read : written, Descriptor(d_o, 0, 0), Descriptor(a, 0, 0), !kHasDecay);
    Commit();
    store_d_state();
    if constexpr (kHasDecay) {
      Wait<0>(written, read);
    } else {
      Wait<0>(written);
    }
  }
  Operand::A dy[4];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    if constexpr (kHasDecay) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = 16 * n + device::BlockColumn(e / 4, e % 4);
        float& c = written[n][e / 4][e % 4];
        c = gates[kLeaving][t] * c + read[n][e / 4][e % 4];
      }
    }
    dy[n] = device::ToOperand<Operand>(written[n]);
  }
  auto& p = read;
  Fence();
  MultiplyTiles<Depth::kDownColumns>(p, dy, Descriptor(x, 0, 0), false);
  Commit();

  // dS = e^{b_C} G + (s e^b Q)^T dO - (beta e^b K)^T P, transposed; the factors go to the left.
  if constexpr (kHasDecay) {
#pragma unroll
    for (int d = 0; d < kDk / 64; ++d) Scale(d_state[d], gates[kEntering][kC - 1]);
  }
  Operand::A operands[4];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    Accumulators c;
    LoadColumns(c, d_o, n);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int t = 16 * n + device::BlockColumn(e / 4, e % 4);
      c[e / 4][e % 4] *= kHasDecay ? scale * gates[kEntering][t] : scale;
    }
    operands[n] = device::ToOperand<Operand>(c);
  }
  Fence();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    MultiplyTiles<Depth::kDownColumns>(d_state[d], operands, Descriptor(q[d], 0, 0), true);
  }
  Commit();
  Wait<1>(p);
  store_p(p);
  ForEach(p, [&](float& c, int t) {
    c *= kHasDecay ? -gates[kBeta][t] * gates[kEntering][t] : -gates[kBeta][t];
  });
  Operand::A erased[4];
  ToOperands(erased, p);
  Fence();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) {
    MultiplyTiles<Depth::kDownColumns>(d_state[d], erased, Descriptor(k[d], 0, 0), true);
  }
  Commit();
#pragma unroll
  for (int d = 0; d < kDk / 64; ++d) Wait<0>(d_state[d]);
}

}  // namespace mixerbench::kernels::delta_rule::warpgroup
