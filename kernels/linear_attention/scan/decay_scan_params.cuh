// What every warp of a scan sees: parameters, its position, a slot of shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/operand.cuh"
#include "kernels/device/ring_cursor.cuh"
#include "kernels/linear_attention/scan/decay_scan.h"
#include "kernels/linear_attention/scan/decay_scan_layout.h"

namespace mixerbench::kernels::decay_scan {

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

struct ScanParams {
  Sequence x, y, z, out, log_decay;
  Sequence factor;                        // of `out` for token_products; scans by chunks only
  StatePlace initial_state, final_state;  // data null: zeros, not wanted
  StatePlace first_state;                 // data null: zeros
  float* segment_decays;                  // of all tokens of a segment; only with `sum_only`
  void* states_to_save;
  const void* states_to_compare;
  float* state_products;
  float* token_products;
  float scale;  // of the product of x and y
  // The kernel's states lack y's factor: states in memory are multiplied by these on the way.
  float state_in_scale, state_out_scale;
  int seq_len, num_heads, num_sequences, key_dim, value_dim;
  int value_tile, num_value_tiles, num_producers, num_slots, lookahead;
  int tokens_per_segment, num_segments;
  bool reverse;
  bool sum_only;            // writes the state alone: neither reads x nor writes out
  bool final_state_of_all;  // of every segment, else of the one that is scanned last
};

// The parts of one slot, which holds one block of tokens.
template <typename Operand>
struct Slot {
  using Element = typename Operand::Element;

  Element *x, *y, *z;
  float* gates;                 // kNone: of tokens; kValue: of value channels
  typename Operand::B* scores;  // one fragment a lane
  float* factors;

  __device__ Slot(char* memory, const ScanLayout& layout, int index) {
    char* slot = memory + layout.slots + index * layout.slot_bytes;
    x = reinterpret_cast<Element*>(slot);
    y = reinterpret_cast<Element*>(slot + layout.y);
    z = reinterpret_cast<Element*>(slot + layout.z);
    gates = reinterpret_cast<float*>(slot + layout.z_gates);
    scores = reinterpret_cast<typename Operand::B*>(slot + layout.scores);
    factors = reinterpret_cast<float*>(slot + layout.factors);
  }

  // kNone: e^{...} of token i on the side of x and of y, and the decay of the block.
  __device__ float* x_factors() const { return factors; }
  __device__ float* y_factors() const { return factors + kBlockTokens; }
  __device__ float& block_decay() const { return factors[2 * kBlockTokens]; }
  // kKey, kValue: decays of the block, and whether the decays of tokens are e^{b} and e^{-b}.
  __device__ float* block_decays() const { return factors + 4; }
  __device__ float& is_factored() const { return factors[0]; }
};

// A slot is `ready` when the lanes of its producer have arrived, and `free` when those of all
// consumers have. One lane that arrives for its warp, after a barrier of the warp, would be as
// correct, but racecheck does not follow that.
struct SlotBarriers {
  std::uint64_t* ready;
  std::uint64_t* free;

  __device__ SlotBarriers(char* memory, int num_slots)
      : ready(reinterpret_cast<std::uint64_t*>(memory)), free(ready + num_slots) {}
};

// Element (i, j) of a block's scores, as they lie in memory: the fragment of lane 4 (i % 8) +
// source, where j = 2 source + 8 half + odd. (From i and j alone, nvcc 13.0 miscompiles the
// quotient.)
inline __device__ int ScoreIndex(int i, int source, int half, int odd) {
  return ((i & 7) << 5) + (source << 3) + ((i >> 3) << 2) + (half << 1) + odd;
}

// Whether token j of a block is visible to token i.
inline __device__ bool IsVisible(int i, int j, bool reverse) { return reverse ? j >= i : j <= i; }

// What one CTA works on, or one of the blocks of a larger grid in its place.
struct ScanPosition {
  int sequence, batch, head;
  int value_begin;  // first channel of z and out
  int segment;
  int first_token;  // of the block that is scanned first
  int num_blocks;

  __device__ explicit ScanPosition(const ScanParams& p)
      : ScanPosition(p, static_cast<int>(blockIdx.x)) {}

  __device__ ScanPosition(const ScanParams& p, int index) {
    // Tiles of one sequence are neighbours: they read the same x and y, which then come from L2.
    value_begin = index % p.num_value_tiles * p.value_tile;
    index /= p.num_value_tiles;
    sequence = index % p.num_sequences;
    segment = index / p.num_sequences;
    batch = sequence / p.num_heads;
    head = sequence % p.num_heads;
    first_token = segment * p.tokens_per_segment;
    const int num_tokens = min(p.tokens_per_segment, p.seq_len - first_token);
    num_blocks = (num_tokens + kBlockTokens - 1) / kBlockTokens;
    if (p.reverse) first_token += (num_blocks - 1) * kBlockTokens;
  }

  // First token of the n-th block of this scan.
  __device__ int BlockBegin(const ScanParams& p, int n) const {
    return p.reverse ? first_token - n * kBlockTokens : first_token + n * kBlockTokens;
  }
};

template <typename Element>
__device__ Element* TokenRow(const Sequence& s, const ScanPosition& at, std::int64_t token) {
  return static_cast<Element*>(s.data) + at.batch * s.batch_stride + at.head * s.head_stride +
         token * s.token_stride;
}

}  // namespace mixerbench::kernels::decay_scan
