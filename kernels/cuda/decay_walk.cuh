// The kernel of a walk (decay_walk.h, decay_walk.md). Included by the .cu files that instantiate
// it.
//
// Mapping: a block of threads owns one (b, h), up to 64 channels of `out` and one segment of time.
// It has two kinds of warps. A walker owns 16 channels: their states [16,N] stay in its registers,
// fp32, while it steps through time by blocks of 16 tokens. A preparer loads 16 tokens of a stage,
// applies decays to x and y, and computes their scores [16,16]. Walkers work on stage n while
// preparers finish stage n + 1 and wait for the copies of stage n + 2. Accumulators are fp32; no
// atomics, every sum has a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/decay_walk.h"
#include "kernels/cuda/decay_walk_layout.h"
#include "kernels/cuda/operand.cuh"

namespace mixerbench::kernels::cuda {

// Tokens that are read at once through one factored product.
constexpr int kBlockTokens = 16;

// Within a block e^{b_i - b_j} is formed as e^{b_i} e^{-b_j} when no channel decays by more than
// this in the block: e^{60} times a value of ordinary size is far inside the range of fp32 and
// bf16. Otherwise pair by pair.
constexpr float kMaxFactoredDecay = 60;

// Where a state [M,N] of a sequence lies.
struct StatePlace {
  float* data = nullptr;
  std::int64_t segment_stride = 0;
  std::int64_t sequence_stride = 0;
  std::int64_t value_stride = 0;
  std::int64_t key_stride = 0;
};

struct WalkParams {
  Sequence x, y, z, out, log_decay;
  StatePlace initial_state, final_state;  // data null: zeros, not wanted
  float* segment_decays;                  // of all tokens of a segment; only with `sum_only`
  void* states_to_save;
  const void* states_to_compare;
  float* state_products;
  float x_scale, y_scale;
  int seq_len, num_heads, num_sequences, key_dim, value_dim;
  int value_tile, num_value_tiles, blocks_per_stage, tokens_per_segment, num_segments;
  bool reverse;
  bool sum_only;            // writes the state alone: neither reads x nor writes out
  bool final_state_of_all;  // of every segment, else of the one that is walked last
};

// The parts of one stage in shared memory.
template <typename Operand, int kKeys, DecayAxis kAxis>
struct Stage {
  using Element = typename Operand::Element;

  Element *x, *y, *z;
  float* gates;
  typename Operand::B* scores;  // one fragment a lane for each block
  float* factors;

  __device__ Stage(char* memory, const StageLayout& layout)
      : x(reinterpret_cast<Element*>(memory)),
        y(reinterpret_cast<Element*>(memory + layout.y)),
        z(reinterpret_cast<Element*>(memory + layout.z)),
        gates(reinterpret_cast<float*>(memory + layout.gates)),
        scores(reinterpret_cast<typename Operand::B*>(memory + layout.scores)),
        factors(reinterpret_cast<float*>(memory + layout.factors)) {}

  // kNone: e^{...} of token i of a block on the side of x and of y, and of the whole block.
  __device__ float* x_factors(int block) const { return factors + 36 * block; }
  __device__ float* y_factors(int block) const { return factors + 36 * block + 16; }
  __device__ float& block_decay(int block) const { return factors[36 * block + 32]; }
  // kKey: of the whole block for each key channel, and whether x and y hold e^{b} and e^{-b}.
  __device__ float* block_decays(int block) const { return factors + (kKeys + 4) * block; }
  __device__ float& is_factored(int block) const { return factors[(kKeys + 4) * block + kKeys]; }
};

// Element (i, j) of a block's scores, as they lie in memory.
inline __device__ int ScoreIndex(int i, int j) {
  return (i % 8 * 4 + j % 8 / 2) * 8 + i / 8 * 4 + j / 8 * 2 + j % 2;
}

// What one block of threads works on.
struct WalkPosition {
  int sequence, batch, head;
  int value_begin;  // first channel of z and out
  int segment;
  int first_stage, num_stages;  // in walking order; stages are counted from the first token

  __device__ explicit WalkPosition(const WalkParams& p) {
    // Tiles of one sequence are neighbours: they read the same x and y, which then come from L2.
    int index = static_cast<int>(blockIdx.x);
    value_begin = index % p.num_value_tiles * p.value_tile;
    index /= p.num_value_tiles;
    sequence = index % p.num_sequences;
    segment = index / p.num_sequences;
    batch = sequence / p.num_heads;
    head = sequence % p.num_heads;
    const int stage_tokens = kBlockTokens * p.blocks_per_stage;
    const int begin = segment * p.tokens_per_segment;
    const int end = min(begin + p.tokens_per_segment, p.seq_len);
    num_stages = (end - begin + stage_tokens - 1) / stage_tokens;
    first_stage = begin / stage_tokens;
    if (p.reverse) first_stage += num_stages - 1;
  }

  // First token of the n-th stage of this walk.
  __device__ int StageBegin(const WalkParams& p, int n) const {
    return (p.reverse ? first_stage - n : first_stage + n) * kBlockTokens * p.blocks_per_stage;
  }
};

template <typename Element>
__device__ Element* TokenRow(const Sequence& s, const WalkPosition& at, std::int64_t token) {
  return static_cast<Element*>(s.data) + at.batch * s.batch_stride + at.head * s.head_stride +
         token * s.token_stride;
}

// Starts the copy of rows [token, token + 16) and channels [begin, begin + width) of a sequence;
// zeros past the ends.
template <typename Element>
__device__ void CopyRows(Element* tile, int stride, const Sequence& source, const WalkPosition& at,
                         int token, int seq_len, int begin, int width, int num_channels) {
  constexpr int kPerCopy = 16 / sizeof(Element);
  const int copies_per_row = width / kPerCopy;
  const Element* base = TokenRow<Element>(source, at, 0);
  for (int c = threadIdx.x % 32; c < kBlockTokens * copies_per_row; c += 32) {
    const int row = c / copies_per_row;
    const int channel = c % copies_per_row * kPerCopy;
    const bool valid = token + row < seq_len && begin + channel < num_channels;
    const Element* from =
        valid ? base + (token + row) * source.token_stride + begin + channel : base;
    CopyAsync16(tile + row * stride + channel, from, valid);
  }
}

// --- preparers
// ------------------------------------------------------------------------------------

// Scores of one block: x_i y_j for all pairs, [i][j].
template <typename Operand, int kKeys>
__device__ void MultiplyScores(Tile& scores, const typename Operand::Element* x,
                               const typename Operand::Element* y) {
  Accumulators sums[2] = {};  // two shorter chains of dependent products
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const auto a = Operand::LoadA(x + 16 * k, kKeys + 8);
    const auto b = Operand::LoadB(y + 16 * k, kKeys + 8);
    Operand::Multiply(sums[k % 2][0], a, b, 0);
    Operand::Multiply(sums[k % 2][1], a, b, 1);
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    scores[e / 4][e / 2 % 2][e % 2] =
        sums[0][e / 2 % 2][e / 4 * 2 + e % 2] + sums[1][e / 2 % 2][e / 4 * 2 + e % 2];
  }
}

// Whether token j of a block is visible to token i.
inline __device__ bool IsVisible(int i, int j, bool reverse) { return reverse ? j >= i : j <= i; }

// Gates of the 16 tokens of a preparer's block, loaded a stage ahead into registers.
template <int kKeys, DecayAxis kAxis>
struct BlockGates;

// One gate a token; lane l holds token l % 16.
template <int kKeys>
struct BlockGates<kKeys, DecayAxis::kNone> {
  float value = 0;

  __device__ void Load(const WalkParams& p, const WalkPosition& at, int token) {
    token += threadIdx.x % kBlockTokens;
    value = 0;
    if (p.log_decay.data != nullptr && token < p.seq_len) {
      value = *TokenRow<const float>(p.log_decay, at, token);
    }
  }
};

// Lane l holds kChannels adjacent key channels of every token.
template <int kKeys>
struct BlockGates<kKeys, DecayAxis::kKey> {
  static constexpr int kChannels = kKeys / 32;
  struct alignas(4 * kChannels) Row {
    float channel[kChannels];
  };
  Row token[kBlockTokens];

  static __device__ Row LoadToken(const WalkParams& p, const WalkPosition& at, int token) {
    const int channel = threadIdx.x % 32 * kChannels;
    Row row = {};
    if (token < p.seq_len && channel < p.key_dim) {
      row = *reinterpret_cast<const Row*>(TokenRow<const float>(p.log_decay, at, token) + channel);
    }
    return row;
  }
  __device__ void Load(const WalkParams& p, const WalkPosition& at, int begin) {
#pragma unroll
    for (int i = 0; i < kBlockTokens; ++i) token[i] = LoadToken(p, at, begin + i);
  }
};

// The gates of value channels go through shared memory.
template <int kKeys>
struct BlockGates<kKeys, DecayAxis::kValue> {
  __device__ void Load(const WalkParams&, const WalkPosition&, int) {}
};

// A warp that prepares block `block` of every stage.
template <typename Operand, int kKeys, DecayAxis kAxis>
struct Preparer {
  using Element = typename Operand::Element;
  using StageType = Stage<Operand, kKeys, kAxis>;
  static constexpr int kStride = kKeys + 8;

  const WalkParams& p;
  const WalkPosition& at;
  const StageLayout& layout;
  int block;
  BlockGates<kKeys, kAxis> gates;
  // Sum of the log decays of this warp's blocks: of a token's one gate, or of the lane's channels.
  float decay_sum[kAxis == DecayAxis::kKey ? kKeys / 32 : 1] = {};

  __device__ Preparer(const WalkParams& params, const WalkPosition& position,
                      const StageLayout& stage_layout, int block_in_stage)
      : p(params), at(position), layout(stage_layout), block(block_in_stage) {}

  __device__ int BlockBegin(int n) const { return at.StageBegin(p, n) + kBlockTokens * block; }

  __device__ void StartCopies(const StageType& stage, int n) {
    if (n < at.num_stages) {
      const int token = BlockBegin(n);
      const int row = kBlockTokens * block;
      if (!p.sum_only) {
        CopyRows(stage.x + row * kStride, kStride, p.x, at, token, p.seq_len, 0, kKeys, p.key_dim);
      }
      CopyRows(stage.y + row * kStride, kStride, p.y, at, token, p.seq_len, 0, kKeys, p.key_dim);
      CopyRows(stage.z + row * layout.z_stride, layout.z_stride, p.z, at, token, p.seq_len,
               at.value_begin, p.value_tile, p.value_dim);
      if constexpr (kAxis == DecayAxis::kValue) {
        CopyRows(stage.gates + row * layout.gate_stride, layout.gate_stride, p.log_decay, at, token,
                 p.seq_len, at.value_begin, p.value_tile, p.value_dim);
      }
    }
    CommitCopies();
  }

  __device__ void LoadGates(int n) {
    if (n < at.num_stages) gates.Load(p, at, BlockBegin(n));
  }

  __device__ void Prepare(const StageType& stage) {
    Element* x = stage.x + kBlockTokens * block * kStride;
    Element* y = stage.y + kBlockTokens * block * kStride;
    if constexpr (kAxis == DecayAxis::kNone) PrepareScalar(stage, x, y);
    if constexpr (kAxis == DecayAxis::kKey) PrepareKeys(stage, x, y);
    if constexpr (kAxis == DecayAxis::kValue) {
      if (!p.sum_only) StoreVisible(stage, x, y);
    }
  }

  __device__ void StoreScores(const StageType& stage, const Tile& scores) {
    stage.scores[32 * block + threadIdx.x % 32] = Operand::ToB(scores);
  }

  // Scores of visible pairs as they are.
  __device__ void StoreVisible(const StageType& stage, const Element* x, const Element* y) {
    const int lane = threadIdx.x % 32;
    Tile scores;
    MultiplyScores<Operand, kKeys>(scores, x, y);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = lane / 4 + e / 4 * 8;
      const int j = lane % 4 * 2 + e / 2 % 2 * 8 + e % 2;
      float& score = scores[e / 4][e / 2 % 2][e % 2];
      score = IsVisible(i, j, p.reverse) ? score : 0;
    }
    StoreScores(stage, scores);
  }

  // One decay a token: the scores take it pair by pair, x and y stay as they are.
  __device__ void PrepareScalar(const StageType& stage, const Element* x, const Element* y) {
    const int lane = threadIdx.x % 32;
    float b = gates.value;  // inclusive sum over the tokens of the block, in either half warp
#pragma unroll
    for (int step = 1; step < kBlockTokens; step *= 2) {
      const float before = ShuffleUp(b, step, kBlockTokens);
      if (lane % kBlockTokens >= step) b += before;
    }
    const float total = ShuffleFrom(b, kBlockTokens - 1);
    decay_sum[0] += total;
    if (lane == 0) stage.block_decay(block) = Exp(total);
    const bool from_begin = (lane < kBlockTokens) != p.reverse;  // the second half warp serves y
    const float factor = Exp(from_begin ? b : total - b);
    if (lane < kBlockTokens) {
      stage.x_factors(block)[lane] = p.x_scale * factor;
    } else {
      stage.y_factors(block)[lane - kBlockTokens] = p.y_scale * factor;
    }
    if (p.sum_only) return;

    Tile scores;
    MultiplyScores<Operand, kKeys>(scores, x, y);
    const float sign = p.reverse ? -1.f : 1.f;
    const float scale = p.x_scale * p.y_scale;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = lane / 4 + e / 4 * 8;
      const int j = lane % 4 * 2 + e / 2 % 2 * 8 + e % 2;
      const float exponent = sign * (ShuffleFrom(b, i) - ShuffleFrom(b, j));
      float& score = scores[e / 4][e / 2 % 2][e % 2];
      score = IsVisible(i, j, p.reverse) ? scale * score * Exp(exponent) : 0;
    }
    StoreScores(stage, scores);
  }

  // One decay a key channel: x and y take e^{b} and e^{-b}, with b the sum since the beginning of
  // the block, and the scores are their product. Where e^{-b} would be too large, x and y take the
  // decays from and to the ends of the block, and scores are formed pair by pair.
  __device__ void PrepareKeys(const StageType& stage, Element* x, Element* y) {
    constexpr int kChannels = kKeys / 32;
    const int lane = threadIdx.x % 32;
    float total[kChannels] = {};
    bool factored = true;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
#pragma unroll
      for (int i = 0; i < kBlockTokens; ++i) total[c] += gates.token[i].channel[c];
      factored = factored && total[c] >= -kMaxFactoredDecay;
      decay_sum[c] += total[c];
      stage.block_decays(block)[kChannels * lane + c] = Exp(total[c]);
    }
    factored = AllLanes(factored);
    if (lane == 0) stage.is_factored(block) = factored;
    if (!factored && !p.sum_only) StorePairwise(stage, x, y);

    struct alignas(sizeof(Element) * kChannels) Row {
      Element channel[kChannels];
    };
    float b[kChannels] = {};
#pragma unroll
    for (int i = 0; i < kBlockTokens; ++i) {
      Row& x_row = reinterpret_cast<Row*>(x + i * kStride)[lane];
      Row& y_row = reinterpret_cast<Row*>(y + i * kStride)[lane];
      Row new_x = x_row;
      Row new_y = y_row;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        b[c] += gates.token[i].channel[c];
        // The later token of a pair takes the decay since the beginning of the block, the earlier
        // one what takes it away again, or what is left up to the end.
        const float later = Exp(b[c]);
        const float earlier = Exp(factored ? -b[c] : total[c] - b[c]);
        new_x.channel[c] = Operand::FromFloat(Operand::ToFloat(new_x.channel[c]) * p.x_scale *
                                              (p.reverse ? earlier : later));
        new_y.channel[c] = Operand::FromFloat(Operand::ToFloat(new_y.channel[c]) * p.y_scale *
                                              (p.reverse ? later : earlier));
      }
      if (!p.sum_only) x_row = new_x;
      y_row = new_y;
    }
    SyncWarp();
    if (factored && !p.sum_only) StoreVisible(stage, x, y);
  }

  // Scores with the decays of every pair, each the product of the decays between its tokens.
  __device__ void StorePairwise(const StageType& stage, const Element* x, const Element* y) {
    constexpr int kChannels = kKeys / 32;
    const int lane = threadIdx.x % 32;
    const Element* later = p.reverse ? y : x;
    const Element* earlier = p.reverse ? x : y;
    Element* scores = reinterpret_cast<Element*>(stage.scores + 32 * block);
    float kept[kBlockTokens][kChannels] = {};  // of each earlier token, what is left of it by now
#pragma unroll 1
    for (int now = 0; now < kBlockTokens; ++now) {
      float sums[kBlockTokens] = {};
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const int e = now * kStride + kChannels * lane + c;
        const float decay = Exp(GateAt(now, c));
        const float written = Operand::ToFloat(earlier[e]);
        const float read = Operand::ToFloat(later[e]);
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
      const float sum = (sums[0] + ShuffleXor(sums[0], 1)) * p.x_scale * p.y_scale;
      const int then = lane / 2;
      if (lane % 2 == 0) {
        scores[p.reverse ? ScoreIndex(then, now) : ScoreIndex(now, then)] = Operand::FromFloat(sum);
      }
    }
  }

  // Gate of token `i`, which is not a constant, so that the registers cannot be indexed by it.
  __device__ float GateAt(int i, int c) const {
    float gate = 0;
#pragma unroll
    for (int j = 0; j < kBlockTokens; ++j) gate = j == i ? gates.token[j].channel[c] : gate;
    return gate;
  }

  // Decay of this warp's tokens in the whole segment.
  __device__ void StoreDecaySums() const {
    if constexpr (kAxis != DecayAxis::kValue) {
      if (at.value_begin != 0) return;
      constexpr int kChannels = kAxis == DecayAxis::kKey ? kKeys / 32 : 1;
      const int num_channels = kAxis == DecayAxis::kKey ? p.key_dim : 1;
      const std::int64_t slot =
          (static_cast<std::int64_t>(at.segment) * p.num_sequences + at.sequence) *
              p.blocks_per_stage +
          block;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const int channel = threadIdx.x % 32 * kChannels + c;
        if (channel < num_channels) p.segment_decays[slot * num_channels + channel] = decay_sum[c];
      }
    }
  }
};

// --- walkers
// --------------------------------------------------------------------------------------

// A warp that owns the states of 16 channels of `out`.
template <typename Operand, int kKeys, DecayAxis kAxis>
struct Walker {
  using Element = typename Operand::Element;
  using StageType = Stage<Operand, kKeys, kAxis>;
  static constexpr int kStride = kKeys + 8;
  static constexpr int kNumTiles = kKeys / 16;

  const WalkParams& p;
  const WalkPosition& at;
  const StageLayout& layout;
  int tile_channel;  // of its first channel in the value tile
  int g = threadIdx.x % 32 / 4;
  int t = threadIdx.x % 4;
  Tile state[kNumTiles];  // [16 value channels][16 key channels] each
  float decay_sum[2] = {};

  __device__ Walker(const WalkParams& params, const WalkPosition& position,
                    const StageLayout& stage_layout, int warp)
      : p(params), at(position), layout(stage_layout), tile_channel(16 * warp) {}

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
    ForEachState(p.initial_state, [](float& mine, const float& theirs) { mine = theirs; });
  }

  __device__ void StoreState() {
    if (p.final_state.data == nullptr) return;
    const int last = p.reverse ? 0 : p.num_segments - 1;
    if (at.segment != last && !p.final_state_of_all) return;
    ForEachState(p.final_state, [](const float& mine, float& theirs) { theirs = mine; });
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

  __device__ void CompareState(int chunk) {
    const auto* saved =
        static_cast<const typename Operand::A*>(p.states_to_compare) + SavedIndex(chunk);
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
      float sum = sums[half];
      sum += ShuffleXor(sum, 1);
      sum += ShuffleXor(sum, 2);
      if (t == 0 && Channel(half) < p.value_dim) {
        const std::int64_t sequence =
            static_cast<std::int64_t>(chunk) * p.num_sequences + at.sequence;
        p.state_products[sequence * p.value_dim + Channel(half)] = sum;
      }
    }
  }

  // Past the last channel, in a value tile that is not full.
  __device__ bool IsIdle() const { return at.value_begin + tile_channel >= p.value_dim; }

  __device__ void WalkStage(const StageType& stage, int n) {
    if (IsIdle()) return;
    const int begin = at.StageBegin(p, n);
    const int end = begin + kBlockTokens * p.blocks_per_stage;
    const bool ends_chunk = end % kWalkChunk == 0 || end >= p.seq_len;
    const int chunk = begin / kWalkChunk;
    if (p.states_to_compare != nullptr && ends_chunk) CompareState(chunk);
#pragma unroll 1
    for (int i = 0; i < p.blocks_per_stage; ++i) {
      const int block = p.reverse ? p.blocks_per_stage - 1 - i : i;
      const int first = begin + kBlockTokens * block;
      if (first < p.seq_len) WalkBlock(stage, block, first);
    }
    if (p.states_to_save != nullptr && ends_chunk) SaveState(chunk);
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

  __device__ void WalkBlock(const StageType& stage, int block, int token) {
    const int row = kBlockTokens * block;
    const Element* x = stage.x + row * kStride;
    const Element* y = stage.y + row * kStride;
    Element* z_rows = stage.z + row * layout.z_stride + tile_channel;
    const auto z = Operand::LoadATransposed(z_rows, layout.z_stride);
    SyncWarp();  // `out` takes the place of z

    Accumulators out = {};
    if constexpr (kAxis == DecayAxis::kNone) WalkScalar(out, stage, block, x, y, z);
    if constexpr (kAxis == DecayAxis::kKey) WalkKeys(out, stage, block, x, y, z);
    if constexpr (kAxis == DecayAxis::kValue) WalkValues(out, stage, block, x, y, z);
    if (!p.sum_only) StoreOut(out, z_rows, token);
  }

  // out += z scores, [16 channels][16 tokens].
  __device__ void AddVisible(Accumulators& out, const StageType& stage, int block,
                             const typename Operand::A& z) {
    const auto scores = stage.scores[32 * block + threadIdx.x % 32];
    Operand::Multiply(out[0], z, scores, 0);
    Operand::Multiply(out[1], z, scores, 1);
  }

  __device__ void WalkScalar(Accumulators& out, const StageType& stage, int block, const Element* x,
                             const Element* y, const typename Operand::A& z) {
    if (!p.sum_only) {
      Read(out, x);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 factor =
            *reinterpret_cast<const float2*>(stage.x_factors(block) + 8 * j + 2 * t);
#pragma unroll
        for (int e = 0; e < 4; ++e) out[j][e] *= e % 2 == 0 ? factor.x : factor.y;
      }
      AddVisible(out, stage, block, z);
    }
    if (p.log_decay.data != nullptr) {
      const float decay = stage.block_decay(block);
      DecayValues(decay, decay);
    }
    Tile written;
    Operand::FromA(written, z);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float2 factor =
          *reinterpret_cast<const float2*>(stage.y_factors(block) + 8 * j + 2 * t);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        written[i][j][0] *= factor.x;
        written[i][j][1] *= factor.y;
      }
    }
    Write(Operand::ToA(written), y);
  }

  // The state is read through x and written through y, which hold decays already. When they hold
  // e^{b} and e^{-b}, the decay of the whole block comes after both (in reverse, before).
  __device__ void WalkKeys(Accumulators& out, const StageType& stage, int block, const Element* x,
                           const Element* y, const typename Operand::A& z) {
    const bool factored = stage.is_factored(block) != 0;
    const float* decays = stage.block_decays(block);
    if (factored && p.reverse) DecayKeys(decays);
    if (!p.sum_only) {
      Read(out, x);
      AddVisible(out, stage, block, z);
    }
    if (!factored) DecayKeys(decays);
    Write(z, y);
    if (factored && !p.reverse) DecayKeys(decays);
  }

  // Decays are on the channels that this warp owns: z and out take them, in its registers.
  __device__ void WalkValues(Accumulators& out, const StageType& stage, int block, const Element* x,
                             const Element* y, const typename Operand::A& z) {
    Tile b;  // sum of log decays since the beginning of the block, [16 channels][16 tokens]
    float total[2];
    SumGates(b, total, stage.gates + kBlockTokens * block * layout.gate_stride + tile_channel);
    decay_sum[0] += total[0];
    decay_sum[1] += total[1];
    const bool factored =
        AllLanes(total[0] >= -kMaxFactoredDecay && total[1] >= -kMaxFactoredDecay);

    // z takes `z_factor`, the product with the state takes `out_factor`.
    Tile values, z_factor, out_factor, written;
    Operand::FromA(values, z);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = e / 4, j = e / 2 % 2, s = e % 2;
      const float later = Exp(b[i][j][s]);
      const float earlier = Exp(factored ? -b[i][j][s] : total[i] - b[i][j][s]);
      z_factor[i][j][s] = p.y_scale * (p.reverse ? later : earlier);
      out_factor[i][j][s] = p.x_scale * (p.reverse ? earlier : later);
      written[i][j][s] = values[i][j][s] * z_factor[i][j][s];
    }
    const auto written_a = Operand::ToA(written);

    if (factored && p.reverse) DecayValues(Exp(total[0]), Exp(total[1]));
    if (!p.sum_only) {
      Read(out, x);
      if (factored) AddVisible(out, stage, block, written_a);
#pragma unroll
      for (int e = 0; e < 8; ++e) out[e / 4][e % 4] *= out_factor[e / 2 % 2][e / 4][e % 2];
      if (!factored) AddPairwise(out, stage, block, values, b);
    }
    if (!factored) DecayValues(Exp(total[0]), Exp(total[1]));
    Write(written_a, y);
    if (factored && !p.reverse) DecayValues(Exp(total[0]), Exp(total[1]));
  }

  // Inclusive sums over tokens of the gates of channels g and g + 8; the four lanes of a channel
  // hold four tokens each.
  __device__ void SumGates(Tile& b, float (&total)[2], const float* gates) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float before = 0;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* gate = gates + (8 * j + 2 * t) * layout.gate_stride + g + 8 * i;
        const float first = gate[0];
        const float second = gate[layout.gate_stride];
        float sum = first + second;
#pragma unroll
        for (int step = 1; step < 4; step *= 2) {
          const float left = ShuffleUp(sum, step, 4);
          if (t >= step) sum += left;
        }
        const float left = ShuffleUp(sum, 1, 4);
        b[i][j][0] = before + (t == 0 ? 0 : left) + first;
        b[i][j][1] = b[i][j][0] + second;
        before += ShuffleFrom(sum, static_cast<int>(threadIdx.x % 32) | 3);
      }
      total[i] = before;
    }
  }

  // out += scale * sum over visible j of score_ij z_j e^{|b_i - b_j| negated}, pair by pair.
  __device__ void AddPairwise(Accumulators& out, const StageType& stage, int block,
                              const Tile& values, const Tile& b) {
    const auto* scores = reinterpret_cast<const Element*>(stage.scores + 32 * block);
    const float scale = p.x_scale * p.y_scale;
#pragma unroll 1
    for (int source = 0; source < 4; ++source) {  // of the lanes that hold the same channels
      const int lane = (static_cast<int>(threadIdx.x % 32) & ~3) | source;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = 2 * source + e / 2 * 8 + e % 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = ShuffleFrom(values[half][e / 2][e % 2], lane);
          const float b_j = ShuffleFrom(b[half][e / 2][e % 2], lane);
#pragma unroll
          for (int o = 0; o < 4; ++o) {
            const int i = 2 * t + o / 2 * 8 + o % 2;
            const float difference = b[half][o / 2][o % 2] - b_j;
            if (IsVisible(i, j, p.reverse)) {
              out[o / 2][2 * half + o % 2] += scale * Operand::ToFloat(scores[ScoreIndex(i, j)]) *
                                              value * Exp(p.reverse ? -difference : difference);
            }
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

  __device__ void StoreDecaySums() const {
    if constexpr (kAxis == DecayAxis::kValue) {
      const std::int64_t slot =
          static_cast<std::int64_t>(at.segment) * p.num_sequences + at.sequence;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (t == 0 && Channel(half) < p.value_dim) {
          p.segment_decays[slot * p.value_dim + Channel(half)] = decay_sum[half];
        }
      }
    }
  }
};

// --- the kernel
// -----------------------------------------------------------------------------------

// Threads: 32 (value_tile / 16 walkers + blocks_per_stage preparers). Grid: value tiles, then
// sequences, then segments. Dynamic shared memory: kNumStages stages of StageLayout.
// Registers: a walker holds N / 2 fp32 values of state; below 128 key channels two blocks of
// threads share a multiprocessor.
template <typename Operand, int kKeys, DecayAxis kAxis>
__global__ void __launch_bounds__(256, kKeys == 128 ? 1 : 2) DecayWalkKernel(const WalkParams p) {
  extern __shared__ __align__(16) char memory[];
  using StageType = Stage<Operand, kKeys, kAxis>;
  const WalkPosition at(p);
  const StageLayout layout(sizeof(typename Operand::Element), kKeys, p.value_tile,
                           p.blocks_per_stage, kAxis);
  const auto stage = [&](int n) {
    return StageType(memory + n % kNumStages * layout.bytes, layout);
  };
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int num_walkers = p.value_tile / 16;

  if (warp < num_walkers) {
    Walker<Operand, kKeys, kAxis> walker(p, at, layout, warp);
    walker.LoadState();
    SyncBlock();
    for (int n = 0; n < at.num_stages; ++n) {
      walker.WalkStage(stage(n), n);
      SyncBlock();
    }
    walker.StoreState();
    if (p.sum_only) walker.StoreDecaySums();
  } else {
    Preparer<Operand, kKeys, kAxis> preparer(p, at, layout, warp - num_walkers);
    // A preparer waits for its own copies only: it prepares what it has copied.
    preparer.StartCopies(stage(0), 0);
    preparer.LoadGates(0);
    preparer.StartCopies(stage(1), 1);
    WaitForCopies<1>();
    SyncWarp();
    preparer.Prepare(stage(0));
    preparer.LoadGates(1);
    SyncBlock();
    for (int n = 0; n < at.num_stages; ++n) {
      preparer.StartCopies(stage(n + 2), n + 2);
      WaitForCopies<1>();
      SyncWarp();
      if (n + 1 < at.num_stages) {
        preparer.Prepare(stage(n + 1));
        preparer.LoadGates(n + 2);
      }
      SyncBlock();
    }
    if (p.sum_only) preparer.StoreDecaySums();
  }
}

}  // namespace mixerbench::kernels::cuda
