// The warps of a scan that hold the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/linear_attention/scan/decay_scan_params.cuh"

namespace mixerbench::kernels::decay_scan {

// A warp that owns the states of 16 channels of `out`.
template <typename Operand, int kKeys, DecayAxis kAxis>
struct Consumer {
  using Element = typename Operand::Element;
  using SlotType = Slot<Operand>;
  static constexpr int kStride = kKeys + 8;
  static constexpr int kNumTiles = kKeys / 16;
  static constexpr int kSavedChunk = SavedChunk(kAxis);

  const ScanParams& p;
  const ScanPosition& at;
  const ScanLayout& layout;
  int tile_channel;  // of its first channel in the value tile
  int g = threadIdx.x % 32 / 4;
  int t = threadIdx.x % 4;
  Tile state[kNumTiles];  // [16 value channels][16 key channels] each

  __device__ Consumer(const ScanParams& params, const ScanPosition& position,
                      const ScanLayout& scan_layout, int warp)
      : p(params), at(position), layout(scan_layout), tile_channel(16 * warp) {}

  __device__ int Channel(int half) const { return at.value_begin + tile_channel + g + 8 * half; }

  template <typename Visit>
  __device__ void ForEachState(const StatePlace& place, const Visit& visit) {
    float* base = place.data + at.segment * place.segment_stride +
                  static_cast<std::int64_t>(at.sequence) * place.sequence_stride;
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int m = Channel(e / 4);
        const int n = 16 * k + 2 * t + e / 2 % 2 * 8 + e % 2;
        if (m < p.value_dim && n < p.key_dim) {
          visit(state[k][e / 4][e / 2 % 2][e % 2],
                base[m * place.value_stride + n * place.key_stride]);
        }
      }
    }
  }

  __device__ void LoadState() {
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
#pragma unroll
      for (int e = 0; e < 8; ++e) state[k][e / 4][e / 2 % 2][e % 2] = 0;
    }
    if (p.initial_state.data == nullptr) return;
    const float scale = p.state_in_scale;
    ForEachState(p.initial_state,
                 [scale](float& mine, const float& theirs) { mine = scale * theirs; });
  }

  __device__ void StoreState() {
    if (p.final_state.data == nullptr) return;
    const int last = p.reverse ? 0 : p.num_segments - 1;
    if (at.segment != last && !p.final_state_of_all) return;
    const float scale = p.state_out_scale;
    ForEachState(p.final_state,
                 [scale](const float& mine, float& theirs) { theirs = scale * mine; });
  }

  // Fragments of a saved state: 16 adjacent bytes a lane (fp32: 32).
  __device__ std::int64_t SavedIndex(int chunk) const {
    const int num_groups = (p.value_dim + 15) / 16;
    const int group = (at.value_begin + tile_channel) / 16;
    const std::int64_t sequence = static_cast<std::int64_t>(chunk) * p.num_sequences + at.sequence;
    return (sequence * num_groups + group) * kNumTiles * 32 + threadIdx.x % 32;
  }

  __device__ void SaveState(int chunk) {
    auto* saved = static_cast<typename Operand::A*>(p.states_to_save) + SavedIndex(chunk);
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) saved[32 * k] = Operand::ToA(state[k]);
  }

  // The product of the state, the gradient after the chunk, and of the one after it that the other
  // scan saved, over keys. The next chunk in scanning order is fetched to L2 meanwhile.
  __device__ void CompareState(int chunk) {
    const auto* saved =
        static_cast<const typename Operand::A*>(p.states_to_compare) + SavedIndex(chunk);
    if (chunk > 0) {
      const auto* next =
          static_cast<const typename Operand::A*>(p.states_to_compare) + SavedIndex(chunk - 1);
#pragma unroll
      for (int k = 0; k < kNumTiles; ++k) PrefetchToL2(next + 32 * k);
    }
    float sums[2] = {};
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
      Tile other;
      Operand::FromA(other, saved[32 * k]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        sums[e / 4] += state[k][e / 4][e / 2 % 2][e % 2] * other[e / 4][e / 2 % 2][e % 2];
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = p.state_out_scale * sums[half];
      sum += ShuffleXor(sum, 1);
      sum += ShuffleXor(sum, 2);
      if (t == 0 && Channel(half) < p.value_dim) {
        const std::int64_t sequence =
            static_cast<std::int64_t>(chunk) * p.num_sequences + at.sequence;
        p.state_products[sequence * p.value_dim + Channel(half)] = sum;
      }
    }
  }

  __device__ void Run(const SlotBarriers& barriers, char* memory) {
    LoadState();
    RingCursor cursor;
    for (int n = 0; n < at.num_blocks; ++n) {
      const int token = at.BlockBegin(p, n);
      const bool ends_chunk =
          (token + kBlockTokens) % kSavedChunk == 0 || token + kBlockTokens >= p.seq_len;
      if (ends_chunk && p.reverse) {
        if (p.states_to_save != nullptr) SaveState(token / kSavedChunk);
        if (p.states_to_compare != nullptr) CompareState(token / kSavedChunk);
      }
      WaitForPhase(barriers.ready + cursor.slot, cursor.parity);
      ScanBlock(SlotType(memory, layout, cursor.slot), token);
      Arrive(barriers.free + cursor.slot);
      cursor.Advance(1, p.num_slots);
      if (ends_chunk && !p.reverse && p.states_to_save != nullptr) SaveState(token / kSavedChunk);
    }
    StoreState();
  }

  // sums += state x, [16 channels][16 tokens].
  __device__ void Read(Accumulators& sums, const Element* x) {
    Accumulators odd = {};  // two shorter chains of dependent products
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
      const auto a = Operand::ToA(state[k]);
      const auto b = Operand::LoadB(x + 16 * k, kStride);
      Operand::Multiply(k % 2 == 0 ? sums[0] : odd[0], a, b, 0);
      Operand::Multiply(k % 2 == 0 ? sums[1] : odd[1], a, b, 1);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[e / 4][e % 4] += odd[e / 4][e % 4];
  }

  // state += z y, z [16 channels][16 tokens].
  __device__ void Write(const typename Operand::A& z, const Element* y) {
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
      const auto b = Operand::LoadBTransposed(y + 16 * k, kStride);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float sums[4] = {state[k][0][j][0], state[k][0][j][1], state[k][1][j][0],
                         state[k][1][j][1]};
        Operand::Multiply(sums, z, b, j);
        state[k][0][j][0] = sums[0], state[k][0][j][1] = sums[1];
        state[k][1][j][0] = sums[2], state[k][1][j][1] = sums[3];
      }
    }
  }

  // Multiplies the state by the decay of value channels g and g + 8.
  __device__ void DecayValues(float first, float second) {
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        state[k][0][e / 2][e % 2] *= first;
        state[k][1][e / 2][e % 2] *= second;
      }
    }
  }

  // Multiplies the state by the decay of every key channel.
  __device__ void DecayKeys(const float* decays) {
#pragma unroll
    for (int k = 0; k < kNumTiles; ++k) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 decay = *reinterpret_cast<const float2*>(decays + 16 * k + 8 * j + 2 * t);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          state[k][i][j][0] *= decay.x;
          state[k][i][j][1] *= decay.y;
        }
      }
    }
  }

  __device__ void ScanBlock(const SlotType& slot, int token) {
    Element* z_rows = slot.z + tile_channel;
    const auto z = Operand::LoadATransposed(z_rows, layout.z_stride);
    SyncWarp();  // `out` takes the place of z

    Accumulators out = {};
    if constexpr (kAxis == DecayAxis::kNone) ScanTokens(out, slot, z);
    if constexpr (kAxis == DecayAxis::kKey) ScanKeys(out, slot, z);
    if constexpr (kAxis == DecayAxis::kValue) ScanValues(out, slot, z);
    if (!p.sum_only) StoreOut(out, z_rows, token);
  }

  // out += z scores, [16 channels][16 tokens].
  __device__ void AddVisible(Accumulators& out, const SlotType& slot,
                             const typename Operand::A& z) {
    const auto scores = slot.scores[threadIdx.x % 32];
    Operand::Multiply(out[0], z, scores, 0);
    Operand::Multiply(out[1], z, scores, 1);
  }

  __device__ void ScanTokens(Accumulators& out, const SlotType& slot,
                             const typename Operand::A& z) {
    if (!p.sum_only) {
      Read(out, slot.x);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 factor = *reinterpret_cast<const float2*>(slot.x_factors() + 8 * j + 2 * t);
#pragma unroll
        for (int e = 0; e < 4; ++e) out[j][e] *= e % 2 == 0 ? factor.x : factor.y;
      }
      AddVisible(out, slot, z);
    }
    if (p.log_decay.data != nullptr) {
      const float decay = slot.block_decay();
      DecayValues(decay, decay);
    }
    Tile written;
    Operand::FromA(written, z);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float2 factor = *reinterpret_cast<const float2*>(slot.y_factors() + 8 * j + 2 * t);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        written[i][j][0] *= factor.x;
        written[i][j][1] *= factor.y;
      }
    }
    Write(Operand::ToA(written), slot.y);
  }

  // The state is read through x and written through y, which hold decays already. When they hold
  // e^{b} and e^{-b}, the decay of the whole block comes after both (in reverse, before).
  __device__ void ScanKeys(Accumulators& out, const SlotType& slot, const typename Operand::A& z) {
    const bool factored = slot.is_factored() != 0;
    if (factored && p.reverse) DecayKeys(slot.block_decays());
    if (!p.sum_only) {
      Read(out, slot.x);
      AddVisible(out, slot, z);
#pragma unroll
      for (int e = 0; e < 8; ++e) out[e / 4][e % 4] *= p.scale;
    }
    if (!factored) DecayKeys(slot.block_decays());
    Write(z, slot.y);
    if (factored && !p.reverse) DecayKeys(slot.block_decays());
  }

  // Decays are on the channels that this warp owns. Factored, z holds its decays and the slot the
  // factors of `out`; otherwise the slot holds b.
  __device__ void ScanValues(Accumulators& out, const SlotType& slot,
                             const typename Operand::A& z) {
    const bool factored = slot.is_factored() != 0;
    const float decays[2] = {slot.block_decays()[tile_channel + g],
                             slot.block_decays()[tile_channel + g + 8]};
    if (factored) {
      if (p.reverse) DecayValues(decays[0], decays[1]);
      if (!p.sum_only) {
        Read(out, slot.x);
        AddVisible(out, slot, z);
#pragma unroll
        for (int e = 0; e < 8; ++e) out[e / 4][e % 4] *= GateAt(slot, e / 2 % 2, e / 4, e % 2);
      }
      Write(z, slot.y);
      if (!p.reverse) DecayValues(decays[0], decays[1]);
      return;
    }
    Tile values, b, written;
    float total[2];
    Operand::FromA(values, z);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      total[i] = slot.gates[(kBlockTokens - 1) * layout.z_gates_stride + tile_channel + g + 8 * i];
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = e / 4, j = e / 2 % 2, s = e % 2;
      b[i][j][s] = GateAt(slot, i, j, s);
      written[i][j][s] = values[i][j][s] * Exp(p.reverse ? b[i][j][s] : total[i] - b[i][j][s]);
    }
    if (!p.sum_only) {
      Read(out, slot.x);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = e / 2 % 2, j = e / 4, s = e % 2;
        out[j][2 * i + s] *= p.scale * Exp(p.reverse ? total[i] - b[i][j][s] : b[i][j][s]);
      }
      AddPairwise(out, slot, values, b);
    }
    DecayValues(decays[0], decays[1]);
    Write(Operand::ToA(written), slot.y);
  }

  // The number in the place of the gate of channel g + 8 i and token 2 t + 8 j + s.
  __device__ float GateAt(const SlotType& slot, int i, int j, int s) const {
    return slot.gates[(2 * t + 8 * j + s) * layout.z_gates_stride + tile_channel + g + 8 * i];
  }

  // out += scale * sum over visible j of score_ij z_j e^{-|b_i - b_j|}, pair by pair.
  __device__ void AddPairwise(Accumulators& out, const SlotType& slot, const Tile& values,
                              const Tile& b) {
    const auto* scores = reinterpret_cast<const Element*>(slot.scores);
#pragma unroll 1
    for (int source = 0; source < 4; ++source) {  // of the lanes that hold the same channels
      const int lane = (static_cast<int>(threadIdx.x % 32) & ~3) | source;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = p.scale * ShuffleFrom(values[half][e / 2][e % 2], lane);
          const float b_j = ShuffleFrom(b[half][e / 2][e % 2], lane);
#pragma unroll
          for (int o = 0; o < 4; ++o) {
            // Scores of invisible pairs are zero; their exponent is cut off at zero.
            const int i = 2 * t + o / 2 * 8 + o % 2;
            // Not by fminf, which would hide a NaN.
            const float difference = b[half][o / 2][o % 2] - b_j;
            const float exponent = p.reverse ? -difference : difference;
            const float decay = Exp(exponent > 0 ? 0.f : exponent);
            out[o / 2][2 * half + o % 2] +=
                Operand::ToFloat(scores[ScoreIndex(i, source, e / 2, e % 2)]) * value * decay;
          }
        }
      }
    }
  }

  // Through shared memory, so that rows leave in pieces of 16 bytes.
  __device__ void StoreOut(const Accumulators& out, Element* rows, int token) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = 2 * t + e / 4 * 8 + e % 2;
      rows[i * layout.z_stride + g + e / 2 % 2 * 8] = Operand::FromFloat(out[e / 4][e % 4]);
    }
    SyncWarp();
    constexpr int kPerCopy = 16 / sizeof(Element);
    constexpr int kCopiesPerRow = 16 / kPerCopy;
#pragma unroll
    for (int c = 0; c < kBlockTokens * kCopiesPerRow; c += 32) {
      const int row = (c + static_cast<int>(threadIdx.x % 32)) / kCopiesPerRow;
      const int channel = static_cast<int>(threadIdx.x) % kCopiesPerRow * kPerCopy;
      const int value_channel = at.value_begin + tile_channel + channel;
      if (token + row < p.seq_len && value_channel < p.value_dim) {
        *reinterpret_cast<uint4*>(TokenRow<Element>(p.out, at, token + row) + value_channel) =
            *reinterpret_cast<const uint4*>(rows + row * layout.z_stride + channel);
      }
    }
  }
};

}  // namespace mixerbench::kernels::decay_scan
