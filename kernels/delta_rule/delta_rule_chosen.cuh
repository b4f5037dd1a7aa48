// Outputs at chosen tokens alone: between tiles of a chunk's tokens in shared memory and compact
// rows [M,H,V] in memory, of which a chunk has few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/delta_rule/delta_rule_device.cuh"
#include "kernels/delta_rule/warpgroup.cuh"

namespace mixerbench::kernels::delta_rule {

// Those of one thread of a warpgroup: eight neighbouring lanes share a token, 16 bytes each of its
// 64 channels, and a thread has every 16th token.
class ChosenRows {
  using Element = warpgroup::Element;
  using Tile = warpgroup::Tile;
  static constexpr int kLanes = 8;
  static constexpr int kStep = warpgroup::kThreads / kLanes;
  static constexpr int kSteps = warpgroup::kTileRows / kStep;

 public:
  __device__ explicit ChosenRows(const ChosenTokens& chosen) : chosen_(chosen) {}

  // Asks for the rows of the num_valid tokens from `token` of B T on; none if all are wanted.
  __device__ void Find(int token, int num_valid) {
    if (chosen_.entries == nullptr) return;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const bool valid = Token(i) < num_valid;
      rows_[i] = static_cast<int>(valid ? chosen_.entries[token + Token(i)] : chosen_.count);
    }
  }

  // From a tile to channels `channel`.. of head h.
  __device__ void Write(const Sequence& to, int h, int channel, const Tile& from) const {
    Element* const first = First(to, h, channel);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (rows_[i] >= chosen_.count) continue;
      *reinterpret_cast<uint4*>(first + rows_[i] * to.token_stride) =
          *reinterpret_cast<const uint4*>(from.x + InTile(i));
    }
  }

  // The other way, without waiting; other tokens become zeros.
  __device__ void CopyAsync(Tile& to, const Sequence& from, int h, int channel) const {
    const Element* const first = First(from, h, channel);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const bool is_chosen = rows_[i] < chosen_.count;
      const Element* const row = is_chosen ? first + rows_[i] * from.token_stride : first;
      cuda::CopyAsync16(to.x + InTile(i), row, is_chosen);
    }
  }

 private:
  static __device__ int Thread() { return static_cast<int>(threadIdx.x) % warpgroup::kThreads; }
  static __device__ int Token(int i) { return i * kStep + Thread() / kLanes; }
  static __device__ int Channel() { return Thread() % kLanes * 8; }
  static __device__ int InTile(int i) { return warpgroup::Swizzled(Token(i), Channel()); }
  static __device__ Element* First(const Sequence& x, int h, int channel) {
    return static_cast<Element*>(x.data) + h * x.head_stride + channel + Channel();
  }

  const ChosenTokens& chosen_;
  int rows_[kSteps];
};

// Rows of surplus entries, which no token has, become zeros: by thread `thread` of num_threads.
__device__ inline void ClearSurplus(const ChosenTokens& chosen, const Sequence& o, int row_elements,
                                    int thread, int num_threads) {
  if (chosen.entries == nullptr) return;
  for (std::int64_t i = thread; i < chosen.count; i += num_threads) {
    if (chosen.entries[chosen.rows[i]] == i) continue;
    auto* const row = static_cast<warpgroup::Element*>(o.data) + i * o.token_stride;
    for (int e = 0; e < row_elements; e += 8) *reinterpret_cast<uint4*>(row + e) = {0, 0, 0, 0};
  }
}

}  // namespace mixerbench::kernels::delta_rule
