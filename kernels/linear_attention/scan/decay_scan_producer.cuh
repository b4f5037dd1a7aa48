// The warps of a scan that load blocks of tokens and prepare them for the consumers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/log_decay.cuh"
#include "kernels/linear_attention/scan/decay_scan_params.cuh"

namespace mixerbench::kernels::decay_scan {

// Copies rows of one sequence and `width` channels from `begin` on to tiles of shared memory, by
// one warp. A lane copies 16 bytes of every few rows; width is at most 512 bytes.
template <typename Element>
struct RowCopier {
  static constexpr int kPerCopy = 16 / sizeof(Element);

  const Element* from;
  std::int64_t token_stride;
  int first_row, row_step;
  int to;            // offset in the tile
  int to_step;       // between rows
  bool has_channel;  // past the last channel the tile gets zeros

  __device__ RowCopier(const Sequence& source, const ScanPosition& at, int begin, int width,
                       int num_channels, int stride)
      : token_stride(source.token_stride) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int copies_per_row = width / kPerCopy;
    const int channel = lane % copies_per_row * kPerCopy;
    row_step = 32 / copies_per_row;
    first_row = lane / copies_per_row;
    if (first_row >= row_step) first_row = kBlockTokens;  // a lane without work
    has_channel = begin + channel < num_channels;
    from = TokenRow<const Element>(source, at, first_row) + (has_channel ? begin + channel : 0);
    to = first_row * stride + channel;
    to_step = row_step * stride;
  }

  // Starts the copy of rows [token, token + 16); zeros from the end of the sequence on.
  __device__ void Start(Element* tile, int token, int seq_len) const {
    const Element* source = from + token * token_stride;
    const std::int64_t source_step = row_step * token_stride;
    const int num_rows = has_channel ? seq_len - token : 0;
    Element* destination = tile + to;
#pragma unroll 8
    for (int row = first_row; row < kBlockTokens; row += row_step) {
      CopyAsync16(destination, source, row < num_rows);
      source += source_step;
      destination += to_step;
    }
  }
};

// Elements that a lane handles at once: adjacent channels of one token.
template <typename Element, int kCount>
struct alignas(sizeof(Element) * kCount) Channels {
  Element channel[kCount];
};

// Prepares blocks first, first + p.num_producers, ... of the scan.
template <typename Operand, int kKeys, DecayAxis kAxis>
struct Producer {
  using Element = typename Operand::Element;
  using SlotType = Slot<Operand>;
  static constexpr int kStride = kKeys + 8;
  static constexpr int kLaneChannels = kAxis == DecayAxis::kKey     ? kKeys / 32
                                       : kAxis == DecayAxis::kValue ? 2
                                                                    : 1;

  const ScanParams& p;
  const ScanPosition& at;
  const ScanLayout& layout;
  char* memory;
  int first;
  int lane = static_cast<int>(threadIdx.x % 32);
  RowCopier<Element> copy_x, copy_y, copy_z;
  RowCopier<float> copy_gates;  // of key or value channels
  RingCursor copied;            // the slot of the next copies
  // Sum of the log decays of this warp's blocks: of a token's one gate, or of the lane's channels.
  float decay_sum[kLaneChannels] = {};

  __device__ Producer(const ScanParams& params, const ScanPosition& position,
                      const ScanLayout& scan_layout, char* shared_memory, int index)
      : p(params),
        at(position),
        layout(scan_layout),
        memory(shared_memory),
        first(index),
        copy_x(p.x, at, 0, kKeys, p.key_dim, kStride),
        copy_y(p.y, at, 0, kKeys, p.key_dim, kStride),
        copy_z(p.z, at, at.value_begin, p.value_tile, p.value_dim, layout.z_stride),
        copy_gates(p.log_decay, at, kAxis == DecayAxis::kValue ? at.value_begin : 0,
                   kAxis == DecayAxis::kValue ? p.value_tile : kKeys,
                   kAxis == DecayAxis::kValue ? p.value_dim : p.key_dim,
                   kAxis == DecayAxis::kValue ? layout.z_gates_stride : layout.key_gates_stride),
        copied{.slot = index, .parity = 1} {}

  __device__ void Run(const SlotBarriers& barriers) {
    for (int ahead = 0; ahead < p.lookahead; ++ahead) StartCopies(barriers, ahead);
    RingCursor prepared = {.slot = first};
    for (int i = 0; first + i * p.num_producers < at.num_blocks; ++i) {
      WaitForOldestCopies();
      SyncWarp();
      Prepare(SlotType(memory, layout, prepared.slot), KeyGates(i));
      Arrive(barriers.ready + prepared.slot);
      prepared.Advance(p.num_producers, p.num_slots);
      StartCopies(barriers, i + p.lookahead);
    }
    if (p.sum_only) StoreDecaySums();
  }

  // Gates of key channels of this producer's i-th block.
  __device__ float* KeyGates(int i) const {
    const int buffer = first * p.lookahead + i % p.lookahead;
    return reinterpret_cast<float*>(memory + layout.key_gates + buffer * layout.key_gates_bytes);
  }

  // One group of copies, for this producer's i-th block; empty past the last one.
  __device__ void StartCopies(const SlotBarriers& barriers, int i) {
    const int n = first + i * p.num_producers;
    if (n < at.num_blocks) {
      // In the first round slots are free: a barrier that was never used has ended the phase
      // before.
      WaitForPhase(barriers.free + copied.slot, copied.parity);
      const SlotType slot(memory, layout, copied.slot);
      copied.Advance(p.num_producers, p.num_slots);
      const int token = at.BlockBegin(p, n);
      if (!p.sum_only) copy_x.Start(slot.x, token, p.seq_len);
      copy_y.Start(slot.y, token, p.seq_len);
      copy_z.Start(slot.z, token, p.seq_len);
      if constexpr (kAxis == DecayAxis::kKey) copy_gates.Start(KeyGates(i), token, p.seq_len);
      if constexpr (kAxis == DecayAxis::kValue) copy_gates.Start(slot.gates, token, p.seq_len);
      if constexpr (kAxis == DecayAxis::kNone) {
        if (p.log_decay.data != nullptr && lane < kBlockTokens) {
          const bool valid = token + lane < p.seq_len;
          CopyAsync4(slot.gates + lane,
                     TokenRow<const float>(p.log_decay, at, valid ? token + lane : 0), valid);
        }
      }
    }
    CommitCopies();
  }

  // The instruction takes a constant.
  __device__ void WaitForOldestCopies() const {
    if (p.lookahead == 1) {
      WaitForCopies<0>();
    } else if (p.lookahead == 2) {
      WaitForCopies<1>();
    } else {
      WaitForCopies<2>();
    }
  }

  __device__ void Prepare(const SlotType& slot, float* key_gates) {
    if constexpr (kAxis == DecayAxis::kNone) PrepareTokens(slot);
    if constexpr (kAxis == DecayAxis::kKey) PrepareKeys(slot, key_gates);
    if constexpr (kAxis == DecayAxis::kValue) PrepareValues(slot);
  }

  // x_i y_j for all pairs of tokens, [i][j].
  __device__ void MultiplyScores(Tile& scores, const SlotType& slot) {
    Accumulators sums[2] = {};  // two shorter chains of dependent products
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const auto a = Operand::LoadA(slot.x + 16 * k, kStride);
      const auto b = Operand::LoadB(slot.y + 16 * k, kStride);
      Operand::Multiply(sums[k % 2][0], a, b, 0);
      Operand::Multiply(sums[k % 2][1], a, b, 1);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      scores[e / 4][e / 2 % 2][e % 2] =
          sums[0][e / 2 % 2][e / 4 * 2 + e % 2] + sums[1][e / 2 % 2][e / 4 * 2 + e % 2];
    }
  }

  // Scores of visible pairs as they are.
  __device__ void StoreVisible(const SlotType& slot) {
    Tile scores;
    MultiplyScores(scores, slot);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = lane / 4 + e / 4 * 8;
      const int j = lane % 4 * 2 + e / 2 % 2 * 8 + e % 2;
      float& score = scores[e / 4][e / 2 % 2][e % 2];
      score = IsVisible(i, j, p.reverse) ? score : 0;
    }
    slot.scores[lane] = Operand::ToB(scores);
  }

  // One decay a token: the scores take it pair by pair, x and y stay as they are.
  __device__ void PrepareTokens(const SlotType& slot) {
    // Inclusive sum of log decays over the tokens of the block, in either half warp.
    float b = 0;
    if (p.log_decay.data != nullptr) b = BoundedLogDecay(slot.gates[lane % kBlockTokens]);
#pragma unroll
    for (int step = 1; step < kBlockTokens; step *= 2) {
      const float before = ShuffleUp(b, step, kBlockTokens);
      if (lane % kBlockTokens >= step) b += before;
    }
    const float total = ShuffleFrom(b, kBlockTokens - 1);
    decay_sum[0] += total;
    if (lane == 0) slot.block_decay() = Exp(total);
    const bool from_begin = (lane < kBlockTokens) != p.reverse;  // the second half warp serves y
    const float scale = lane < kBlockTokens ? p.scale : 1.f;
    slot.x_factors()[lane] = scale * Exp(from_begin ? b : total - b);  // y's factors come next
    if (p.sum_only) return;

    Tile scores;
    MultiplyScores(scores, slot);
    const float sign = p.reverse ? -1.f : 1.f;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = lane / 4 + e / 4 * 8;
      const int j = lane % 4 * 2 + e / 2 % 2 * 8 + e % 2;
      const float exponent = sign * (ShuffleFrom(b, i) - ShuffleFrom(b, j));
      float& score = scores[e / 4][e / 2 % 2][e % 2];
      score = IsVisible(i, j, p.reverse) ? p.scale * score * Exp(exponent) : 0;
    }
    slot.scores[lane] = Operand::ToB(scores);
  }

  // One decay a key channel: x and y take e^{b} and e^{-b}, with b the sum since the beginning of
  // the block, and the scores are their product. Where e^{-b} would be too large, x and y take the
  // decays from and to the ends of the block, and scores are formed pair by pair.
  __device__ void PrepareKeys(const SlotType& slot, const float* gates) {
    using Gates = Channels<float, kLaneChannels>;
    using Elements = Channels<Element, kLaneChannels>;
    Gates b[kBlockTokens];
    float total[kLaneChannels] = {};
#pragma unroll
    for (int i = 0; i < kBlockTokens; ++i) {
      b[i] = reinterpret_cast<const Gates*>(gates + i * layout.key_gates_stride)[lane];
#pragma unroll
      for (int c = 0; c < kLaneChannels; ++c) {
        b[i].channel[c] = total[c] += BoundedLogDecay(b[i].channel[c]);
      }
    }
    const bool factored = StoreBlockDecays(slot, total);
    if (!factored && !p.sum_only) StorePairwise(slot, gates);

    // The later token of a pair takes the decay since the beginning of the block, the earlier one
    // what takes it away again, or what is left up to the end.
    Element* later = p.reverse ? slot.y : slot.x;
    Element* earlier = p.reverse ? slot.x : slot.y;
    const bool skips_later = p.sum_only && !p.reverse;
    const bool skips_earlier = p.sum_only && p.reverse;
    constexpr int kBatch = 4;  // tokens whose loads do not wait for a store
#pragma unroll
    for (int begin = 0; begin < kBlockTokens; begin += kBatch) {
      Elements l[kBatch] = {}, e[kBatch] = {};
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = (begin + i) * kStride;
        if (!skips_later) l[i] = reinterpret_cast<const Elements*>(later + row)[lane];
        if (!skips_earlier) e[i] = reinterpret_cast<const Elements*>(earlier + row)[lane];
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int c = 0; c < kLaneChannels; ++c) {
          const float sum = b[begin + i].channel[c];
          l[i].channel[c] = Operand::FromFloat(Operand::ToFloat(l[i].channel[c]) * Exp(sum));
          e[i].channel[c] = Operand::FromFloat(Operand::ToFloat(e[i].channel[c]) *
                                               Exp(factored ? -sum : total[c] - sum));
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = (begin + i) * kStride;
        if (!skips_later) reinterpret_cast<Elements*>(later + row)[lane] = l[i];
        if (!skips_earlier) reinterpret_cast<Elements*>(earlier + row)[lane] = e[i];
      }
    }
    SyncWarp();
    if (factored && !p.sum_only) StoreVisible(slot);
  }

  // The decays of the block of this lane's channels; whether every channel allows e^{-b}.
  __device__ bool StoreBlockDecays(const SlotType& slot, const float (&total)[kLaneChannels]) {
    bool factored = true;
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c) {
      factored = factored && total[c] >= -kMaxFactoredDecay;
      decay_sum[c] += total[c];
    }
    const int channel = kLaneChannels * lane;
    if (kAxis == DecayAxis::kKey || channel < p.value_tile) {
#pragma unroll
      for (int c = 0; c < kLaneChannels; ++c) slot.block_decays()[channel + c] = Exp(total[c]);
    }
    factored = AllLanes(factored);
    if (lane == 0) slot.is_factored() = factored;
    return factored;
  }

  // Scores with the decays of every pair, each the product of the decays between its tokens.
  __device__ void StorePairwise(const SlotType& slot, const float* gates) {
    const Element* later = p.reverse ? slot.y : slot.x;
    const Element* earlier = p.reverse ? slot.x : slot.y;
    Element* scores = reinterpret_cast<Element*>(slot.scores);
    float kept[kBlockTokens][kLaneChannels] = {};  // what is left of each earlier token by now
#pragma unroll 1
    for (int now = 0; now < kBlockTokens; ++now) {
      float sums[kBlockTokens] = {};
#pragma unroll
      for (int c = 0; c < kLaneChannels; ++c) {
        const int channel = kLaneChannels * lane + c;
        const float decay = Exp(gates[now * layout.key_gates_stride + channel]);
        const float written = Operand::ToFloat(earlier[now * kStride + channel]);
        const float read = Operand::ToFloat(later[now * kStride + channel]);
#pragma unroll
        for (int j = 0; j < kBlockTokens; ++j) {
          kept[j][c] = j == now ? written : kept[j][c] * decay;
          sums[j] += read * kept[j][c];
        }
      }
      // Sum over lanes; half of the sums goes to either half of the lanes at each step.
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const int width = kBlockTokens / 2 >> step;
        const bool upper = (lane & (2 * width)) != 0;
#pragma unroll
        for (int j = 0; j < kBlockTokens / 2; ++j) {
          if (j >= width) continue;
          const float mine = upper ? sums[j + width] : sums[j];
          const float other = upper ? sums[j] : sums[j + width];
          sums[j] = mine + ShuffleXor(other, 2 * width);
        }
      }
      const float sum = sums[0] + ShuffleXor(sums[0], 1);
      const int then = lane / 2;  // both lanes of a pair hold its sum
      const int i = p.reverse ? then : now;
      const int j = p.reverse ? now : then;
      scores[ScoreIndex(i, (j & 7) >> 1, j >> 3, j & 1)] = Operand::FromFloat(sum);
    }
  }

  // One decay a value channel. The scores have none. z takes e^{-b} and `out` will take e^{b} (in
  // reverse the other way round); where e^{-b} would be too large, b takes the place of the gates
  // and the consumers form pairs.
  __device__ void PrepareValues(const SlotType& slot) {
    using Gates = Channels<float, kLaneChannels>;
    using Elements = Channels<Element, kLaneChannels>;
    const bool has_channels = kLaneChannels * lane < p.value_tile;
    Gates b[kBlockTokens];
    float total[kLaneChannels] = {};
#pragma unroll
    for (int i = 0; i < kBlockTokens; ++i) {
      Gates g = {};
      if (has_channels) {
        g = reinterpret_cast<const Gates*>(slot.gates + i * layout.z_gates_stride)[lane];
      }
#pragma unroll
      for (int c = 0; c < kLaneChannels; ++c) {
        b[i].channel[c] = total[c] += BoundedLogDecay(g.channel[c]);
      }
    }
    const bool factored = StoreBlockDecays(slot, total);
    if (has_channels && factored) {
      Elements z[kBlockTokens];
#pragma unroll
      for (int i = 0; i < kBlockTokens; ++i) {
        z[i] = reinterpret_cast<const Elements*>(slot.z + i * layout.z_stride)[lane];
      }
#pragma unroll
      for (int i = 0; i < kBlockTokens; ++i) {
#pragma unroll
        for (int c = 0; c < kLaneChannels; ++c) {
          const float later = Exp(b[i].channel[c]);
          const float earlier = Exp(-b[i].channel[c]);
          z[i].channel[c] =
              Operand::FromFloat(Operand::ToFloat(z[i].channel[c]) * (p.reverse ? later : earlier));
          b[i].channel[c] = p.scale * (p.reverse ? earlier : later);
        }
        reinterpret_cast<Elements*>(slot.z + i * layout.z_stride)[lane] = z[i];
      }
    }
    if (has_channels) {
#pragma unroll
      for (int i = 0; i < kBlockTokens; ++i) {
        reinterpret_cast<Gates*>(slot.gates + i * layout.z_gates_stride)[lane] = b[i];
      }
    }
    SyncWarp();
    if (!p.sum_only) StoreVisible(slot);
  }

  // Decay of this warp's tokens in the whole segment, [segment, B H, producer, channel].
  __device__ void StoreDecaySums() const {
    if (kAxis != DecayAxis::kValue && at.value_begin != 0) return;
    const int num_channels = kAxis == DecayAxis::kNone  ? 1
                             : kAxis == DecayAxis::kKey ? p.key_dim
                                                        : p.value_dim;
    const std::int64_t row =
        (static_cast<std::int64_t>(at.segment) * p.num_sequences + at.sequence) * p.num_producers +
        first;
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c) {
      const int channel = kLaneChannels * lane + c;
      const bool in_tile = kAxis != DecayAxis::kValue || channel < p.value_tile;
      const int from_first = kAxis == DecayAxis::kValue ? at.value_begin + channel : channel;
      if (in_tile && from_first < num_channels) {
        p.segment_decays[row * num_channels + from_first] = decay_sum[c];
      }
    }
  }
};

}  // namespace mixerbench::kernels::decay_scan
