// What the two scans over chunks share: the tiles of a chunk, two stages of them, and the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"

namespace mixerbench::kernels::delta_rule {

// Warps beyond the columns of a block only copy.
constexpr int kScanThreads = kMaxScanColumns / 16 * 32;

// Shared memory of one stage. `v` has as many columns as the block; its rows fit the largest.
template <typename Operand, int kDk>
struct ScanTiles {
  using Element = typename Operand::Element;
  static constexpr int kC = kChunk<Operand>;
  Element q[kC * PaddedRow(kDk)];
  Element k[kC * PaddedRow(kDk)];
  Element v[kC * PaddedRow(kMaxScanColumns)];  // V, or dO
  Element x[kC * PaddedRow(kC)];
  Element a[kC * PaddedRow(kC)];
  float gates[kNumGates][kC];
};

template <typename Operand, int kDk>
struct Scan {
  using Element = typename Operand::Element;
  static_assert(sizeof(ScanTiles<Operand, kDk>) ==
                ScanStageBytes(sizeof(Element), kChunk<Operand>, kDk));
  using Tiles = ScanTiles<Operand, kDk>;
  static constexpr int kC = kChunk<Operand>;

  __device__ Scan(const DeltaRuleSizes& sizes, int num_columns, char* shared_bytes)
      : stages(reinterpret_cast<Tiles*>(shared_bytes)),
        columns(num_columns),
        row(blockIdx.x / (sizes.head_v_dim / columns)),
        num_chunks((sizes.seq_len + kC - 1) / kC),
        seq_len(sizes.seq_len),
        num_heads(sizes.num_heads),
        head_v_dim(sizes.head_v_dim),
        has_columns(device::WarpId() * 16 < columns),
        block_column(blockIdx.x % (sizes.head_v_dim / columns) * columns),
        warp_column(block_column + device::WarpId() * 16) {}

  __device__ int NumValid(std::int64_t n) const {
    return static_cast<int>(min(static_cast<std::int64_t>(kC), seq_len - n * kC));
  }

  // Starts the copies of chunk n into its stage.
  __device__ void Load(std::int64_t n, const Sequence& q, const Sequence& k, const Sequence& v,
                       const DeltaRuleFactorData& factors) {
    Tiles& tiles = stages[n % 2];
    const std::int64_t first = n * kC;
    const std::int64_t chunk = row * num_chunks + n;
    const int num_valid = NumValid(n);
    device::CopyRowsAsync<kC>(tiles.k, TokenRow<Element>(k, num_heads, row, first), k.token_stride,
                              num_valid, kDk);
    device::CopyRowsAsync<kC>(tiles.q, TokenRow<Element>(q, num_heads, row, first), q.token_stride,
                              num_valid, kDk);
    device::CopyRowsAsync<kC>(tiles.v, TokenRow<Element>(v, num_heads, row, first) + block_column,
                              v.token_stride, num_valid, columns);
    device::CopyRowsAsync<kC>(tiles.x, static_cast<const Element*>(factors.x) + chunk * kC * kC, kC,
                              kC, kC);
    device::CopyRowsAsync<kC>(tiles.a, static_cast<const Element*>(factors.a) + chunk * kC * kC, kC,
                              kC, kC);
    const float* gates = factors.gates + chunk * kNumGates * kC;
    device::CopyBytesAsync<sizeof(tiles.gates)>(tiles.gates, gates);
    device::CommitCopies();
  }

  // The tiles of chunk n, whose copies were started last; starts those of chunk `next` unless it is
  // negative.
  __device__ const Tiles& Next(std::int64_t n, std::int64_t next, const Sequence& q,
                               const Sequence& k, const Sequence& v,
                               const DeltaRuleFactorData& factors) {
    device::WaitForBlockCopies();  // chunk n has arrived for all, and all have left the other stage
    if (next >= 0) Load(next, q, k, v, factors);
    return stages[n % 2];
  }

  // This warp's 16 columns of tokens [i, i + 16) of a tile of V or dO, transposed.
  __device__ typename Operand::A LoadColumns(const Element* tile, int i) const {
    return Operand::LoadATransposed(tile + i * PaddedRow(columns) + device::WarpId() * 16,
                                    PaddedRow(columns));
  }

  // A transposed state to E [B,H,N,V,K].
  __device__ void StoreState(void* states, std::int64_t n,
                             const Accumulators (&state)[kDk / 16]) const {
    Element* p =
        static_cast<Element*>(states) + ((row * num_chunks + n) * head_v_dim + warp_column) * kDk;
#pragma unroll
    for (int d = 0; d < kDk; d += 16) {
      device::StoreRows(p + d, kDk, 16, state[d / 16]);
    }
  }

  Tiles* stages;
  int columns;       // of V in this block
  std::int64_t row;  // b H + h
  std::int64_t num_chunks, seq_len, num_heads, head_v_dim;
  bool has_columns;                        // of V for this warp
  std::int64_t block_column, warp_column;  // first ones
};

// Calls start.template operator()<Operand, kDk>(launch), where launch(kernel, arguments...)
// launches a scan as kernel(sizes, columns, arguments...).
template <typename Start>
int LaunchScan(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, CUstream_st* stream,
               const Start& start) {
  const int columns = plan.scan_columns;
  const std::int64_t num_blocks = sizes.batch_size * sizes.num_heads * sizes.head_v_dim / columns;
  return ForSizes(sizes, [&]<typename Operand, int kDk>() {
    return start.template operator()<Operand, kDk>([&](auto kernel, const auto&... arguments) {
      return device::Launch(kernel, num_blocks, kScanThreads,
                            ScanBytes(sizeof(typename Operand::Element), kChunk<Operand>, kDk),
                            stream, sizes, columns, arguments...);
    });
  });
}

}  // namespace mixerbench::kernels::delta_rule
