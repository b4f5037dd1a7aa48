// The chunks that a CTA of the fused forward kernel scans, and how its warpgroups take
// turns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_wgmma_scan.cuh"

namespace mixerbench::kernels::delta_rule {

// Which of kCount places a chunk has in turn, and the parity of the phase that its barrier ends.
template <int kCount>
struct Turn {
  int place = 0;
  int parity = 0;

  // The turn of the chunk `by` <= kCount later.
  __device__ Turn After(int by) const {
    const bool wraps = place + by >= kCount;
    return {wraps ? place + by - kCount : place + by, wraps ? parity ^ 1 : parity};
  }
};

// A chunk of a block that scans kScans sequences at once: rounds of the sequences blockIdx.x,
// blockIdx.x + gridDim.x, ..., in a round their first chunks, their second ones, ...
template <int kScans>
class ChunkCursor {
 public:
  // The first chunk of scan `scan`.
  __device__ ChunkCursor(const DeltaRuleSizes& sizes, int scan)
      : seq_len_(static_cast<int>(sizes.seq_len)),
        num_heads_(static_cast<int>(sizes.num_heads)),
        num_chunks_((seq_len_ + warpgroup::kC - 1) / warpgroup::kC),
        num_rows_(static_cast<int>(sizes.batch_size) * num_heads_),
        scan_(scan),
        row_(static_cast<int>(blockIdx.x) + scan * static_cast<int>(gridDim.x)) {}

  // Whether there is such a chunk.
  __device__ bool exists() const { return row_ < num_rows_; }
  // How many scans have a sequence in this round.
  __device__ int num_scans() const { return kScans == 2 && RowOf(1) < num_rows_ ? 2 : 1; }

  // To the chunk that follows for the block, or for this scan.
  __device__ void NextOfBlock() {
    int next = scan_ + 1;
    if (next == num_scans()) {
      next = 0;
      if (++n_ == num_chunks_) {
        n_ = 0;
        next = kScans;
      }
    }
    row_ = RowOf(next);
    scan_ = next % kScans;
  }
  __device__ void NextOfScan() {
    if (++n_ < num_chunks_) return;
    n_ = 0;
    row_ = RowOf(scan_ + kScans);
  }

  __device__ int row() const { return row_; }  // b H + h
  __device__ int batch() const { return row_ / num_heads_; }
  __device__ int head() const { return row_ % num_heads_; }
  __device__ int first_token() const { return n_ * warpgroup::kC; }
  // The first token of B T.
  __device__ int token() const { return batch() * seq_len_ + first_token(); }
  __device__ int num_valid() const { return min(warpgroup::kC, seq_len_ - first_token()); }
  __device__ bool is_first() const { return n_ == 0; }
  __device__ bool is_last() const { return n_ == num_chunks_ - 1; }
  // Where the chunk lies among all chunks.
  __device__ std::int64_t chunk() const {
    return static_cast<std::int64_t>(row_) * num_chunks_ + n_;
  }
  // Where its first token lies in [B,T,H].
  __device__ std::int64_t gate() const {
    return static_cast<std::int64_t>(token()) * num_heads_ + head();
  }

 private:
  // The row of a scan in this round; from kScans on in the next one.
  __device__ int RowOf(int scan) const {
    return row_ + (scan - scan_) * static_cast<int>(gridDim.x);
  }

  static_assert(kScans == 1 || kScans == 2);
  int seq_len_, num_heads_, num_chunks_, num_rows_;
  int scan_, row_, n_ = 0;
};

}  // namespace mixerbench::kernels::delta_rule
