// What the two kernels of the fused plan share: the chunks of a block of threads, and how
// warpgroups wait for one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/delta_rule/delta_rule_warpgroup_walk.cuh"

namespace mixerbench::kernels::delta_rule {

// The chunks of the sequences blockIdx.x, blockIdx.x + gridDim.x, ..., one after the other; in
// reverse the last chunk of a sequence comes first. Sizes fit 32 bits.
class ChunkOrder {
 public:
  struct Position {
    int row;  // b H + h
    int n;    // chunk of the sequence
  };

  __device__ ChunkOrder(const DeltaRuleSizes& sizes, bool reverse)
      : seq_len_(static_cast<int>(sizes.seq_len)),
        num_heads_(static_cast<int>(sizes.num_heads)),
        num_chunks_((seq_len_ + warpgroup::kC - 1) / warpgroup::kC),
        reverse_(reverse) {
    const int num_rows = static_cast<int>(sizes.batch_size) * num_heads_;
    const int block = static_cast<int>(blockIdx.x);
    const int stride = static_cast<int>(gridDim.x);
    size_ = (num_rows - block + stride - 1) / stride * num_chunks_;
  }

  __device__ int size() const { return size_; }
  __device__ int num_chunks() const { return num_chunks_; }

  __device__ Position At(int c) const {
    const int sequence = c / num_chunks_;
    const int n = c - sequence * num_chunks_;
    return {static_cast<int>(blockIdx.x) + sequence * static_cast<int>(gridDim.x),
            reverse_ ? num_chunks_ - 1 - n : n};
  }
  __device__ int NumValid(int n) const { return min(warpgroup::kC, seq_len_ - n * warpgroup::kC); }
  // Where a chunk lies among all chunks.
  __device__ std::int64_t Chunk(int row, int n) const {
    return static_cast<std::int64_t>(row) * num_chunks_ + n;
  }
  // Where its first token lies in [B,T,H].
  __device__ std::int64_t Gate(int row, int n) const {
    return (static_cast<std::int64_t>(row / num_heads_) * seq_len_ + n * warpgroup::kC) *
               num_heads_ +
           row % num_heads_;
  }

 private:
  int seq_len_, num_heads_, num_chunks_;
  bool reverse_;
  int size_;
};

// Waits until the barrier of chunk c, one of kCount in turn, has seen it.
template <int kCount>
__device__ void WaitForChunk(std::uint64_t (&barriers)[kCount], int c) {
  cuda::WaitForPhase(&barriers[c % kCount], c / kCount % 2);
}

}  // namespace mixerbench::kernels::delta_rule
