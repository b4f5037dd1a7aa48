// A block multiplies a resident tile of 128 rows with the rows of a matrix that it scans in tiles
// of 128, turns the products into weights and adds the scanned rows with these weights:
//   sums[i] = sum over scanned rows j of Weight(resident[i] . scanned[j]) scanned[j].
// The forward pass of the head is this scan of rows of hidden states along the vocabulary (softmax
// attention whose keys are its values), the gradient of its weight the scan of words along the
// rows.
//
// Twelve warps: a warpgroup of copies and two of products, each with 64 of the resident rows. The
// copies run kStages tiles ahead. A product warpgroup keeps products and sums in registers. The two
// multiply in turn: while one takes the exponentials of a tile, the scores of the other's and the
// sums of the other's tile before are in the tensor cores. Weights are rounded to bf16; products,
// exponentials and sums are fp32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/device/fast_math.cuh"
#include "kernels/device/hopper.cuh"

namespace mixerbench::kernels {

constexpr int kScanTile = 128;     // resident rows of a block; scanned rows of a step
constexpr int kProductGroups = 2;  // warpgroups
constexpr int kGroupRows = kScanTile / kProductGroups;
constexpr int kProductThreads = kProductGroups * kWarpgroup;
constexpr int kScanThreads = kProductThreads + kWarpgroup;
constexpr int kPanelBytes = kScanTile * kTileRowBytes;
constexpr int kScores = kGroupRows * kScanTile / kWarpgroup;  // a thread's, of a tile

// Of the scanned rows of a tile, for weights that need them.
struct ScanRows {
  float log_totals[kScanTile];
  int targets[kScanTile];
};

template <int kWidth>
struct ScanMemory {
  static constexpr int kTileBytes = kWidth / kPanelWidth * kPanelBytes;
  static constexpr int kStages = kWidth == 64 ? 6 : 4;

  // Tiles first: they start at multiples of 1024 bytes.
  std::uint8_t resident[kTileBytes];
  std::uint8_t scanned[kStages][kTileBytes];
  float4 exchange[kGroupRows * kWidth / 4];  // a warpgroup's sums: [width / 8][thread]
  ScanRows rows[kStages];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

template <int kWidth>
__device__ ScanMemory<kWidth>& SharedScanMemory() {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  return *reinterpret_cast<ScanMemory<kWidth>*>(shared);
}

// Place of a thread of a product warpgroup in a 64 x N product.
struct ScanLane {
  int group;     // warpgroup
  int warp_row;  // first of the 16 resident rows of the warp
  int row;       // resident row in the tile of accumulators 4 j, 4 j + 1; the others are 8 below
  int column;    // of accumulator 0; accumulator 4 j + e is at 8 j + e from there

  __device__ ScanLane()
      : group(static_cast<int>(threadIdx.x) / kWarpgroup),
        warp_row(static_cast<int>(threadIdx.x) / 32 * 16),
        row(warp_row + static_cast<int>(threadIdx.x) % 32 / 4),
        column(static_cast<int>(threadIdx.x) % 4 * 2) {}
};

// Rows first_row..first_row + 127 into a tile.
template <int kWidth>
__device__ void CopyTile(std::uint8_t* tile, const CUtensorMap& matrix, int first_row,
                         std::uint64_t* barrier) {
#pragma unroll
  for (int panel = 0; panel < kWidth / kPanelWidth; ++panel) {
    CopyPanel(tile + panel * kPanelBytes, matrix, first_row, panel * kPanelWidth, barrier);
  }
}

// Which tiles a block copies.
struct ScanTiles {
  const CUtensorMap& resident;
  int resident_row;
  const CUtensorMap& scanned;
  int first_tile;
  int num_tiles;
  const float* log_totals;  // of the rows of `scanned`, and their targets; nullptr: not needed
  const int* targets;
};

// Copies tiles first..last - 1 of the scan, by one thread, which has called InitScan.
template <int kWidth>
__device__ void CopyTiles(ScanMemory<kWidth>& memory, const ScanTiles& tiles, int first, int last) {
  using Memory = ScanMemory<kWidth>;
  const bool has_rows = tiles.log_totals != nullptr;
  for (int i = first; i < last; ++i) {
    const int stage = i % Memory::kStages;
    std::uint64_t* barrier = &memory.full[stage];
    if (i >= Memory::kStages) WaitForPhase(&memory.empty[stage], i / Memory::kStages - 1 & 1);
    device::ArriveAndExpectBytes(barrier, (i == 0 ? 2 : 1) * Memory::kTileBytes +
                                              (has_rows ? static_cast<int>(sizeof(ScanRows)) : 0));
    if (i == 0) CopyTile<kWidth>(memory.resident, tiles.resident, tiles.resident_row, barrier);
    const int row = (tiles.first_tile + i) * kScanTile;
    CopyTile<kWidth>(memory.scanned[stage], tiles.scanned, row, barrier);
    if (!has_rows) continue;
    ScanRows& rows = memory.rows[stage];
    CopyBytes(rows.log_totals, tiles.log_totals + row, sizeof(rows.log_totals), barrier);
    CopyBytes(rows.targets, tiles.targets + row, sizeof(rows.targets), barrier);
  }
}

template <int kWidth>
__device__ void InitScan(ScanMemory<kWidth>& memory) {
  for (int stage = 0; stage < ScanMemory<kWidth>::kStages; ++stage) {
    InitBarrier(&memory.full[stage], 1);
    InitBarrier(&memory.empty[stage], kProductThreads);
  }
  device::ShowBarriersToCopies();
}

// Adds scores of the group's rows with the rows of a scanned tile; one group of products.
template <int kWidth>
__device__ void BeginScores(float (&scores)[kScores],
                            const std::uint32_t (&resident)[kWidth / kProductDepth][4],
                            const void* tile) {
  const std::uint64_t scanned = RowOperand(SharedAddress(tile));
#pragma unroll
  for (int k = 0; k < kWidth / kProductDepth; ++k) {
    MultiplyRows(scores, resident[k], scanned + RowOperandStep(k, kPanelBytes));
  }
  warpgroup::Commit();
}

// The same scores by one warp alone, up to rounding.
template <int kWidth>
__device__ void FormScores(float (&scores)[kScores],
                           const std::uint32_t (&resident)[kWidth / kProductDepth][4],
                           const void* tile) {
#pragma unroll
  for (int row = 0; row < kScanTile; row += 16) {
    float sums[2][4] = {};  // of columns 8 h + row..
#pragma unroll
    for (int k = 0; k < kWidth / kProductDepth; ++k) {
      std::uint32_t scanned[4];
      LoadFragment(scanned, tile, row, k, kPanelBytes);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::uint32_t columns[2] = {scanned[h], scanned[h + 2]};
        device::MmaBf16(sums[h], resident[k], columns);
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) scores[row / 2 + i] = sums[i / 4][i % 4];
  }
}

template <int kWidth>
__device__ void BeginSums(float (&sums)[kWidth / 2], const std::uint32_t (&weights)[kScores / 2],
                          const void* tile) {
  const std::uint64_t scanned = ColumnOperand(SharedAddress(tile), kPanelBytes);
#pragma unroll
  for (int k = 0; k < kScanTile / kProductDepth; ++k) {
    MultiplyColumns(sums, weights + 4 * k, scanned + ColumnOperandStep(k));
  }
  warpgroup::Commit();
}

// The product warpgroups pass the tensor cores to each other: a group that has begun its products
// lets the other one begin. The first turn of group 0 is given by group 1 at the start, the last
// one of group 1 is taken by group 0 at the end.
constexpr int kTurnBarrier = 1;  // named barriers of the groups from here on
__device__ inline void AwaitTurn(int group) {
  warpgroup::SyncThreads(kTurnBarrier + group, kProductThreads);
}
__device__ inline void PassTurn(int group) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(kTurnBarrier + 1 - group), "n"(kProductThreads)
               : "memory");
}

// The part of the product warpgroups.
// weigh.Weigh<kFirst>(scores, i, rows, again) turns the scores of tile i into weights, where kFirst
// is i == 0; again() forms the scores once more. It returns whether weigh.Rescale(sums) shall be
// called on the sums of the tiles before, a decision of the warp.
template <int kWidth, typename Weigh>
__device__ void Scan(ScanMemory<kWidth>& memory, int num_tiles, Weigh& weigh,
                     float (&sums)[kWidth / 2]) {
  constexpr int kStages = ScanMemory<kWidth>::kStages;
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) sums[i] = 0;
  if (num_tiles == 0) return;
  const ScanLane lane;
  std::uint32_t resident[kWidth / kProductDepth][4];
  float scores[kScores];
  std::uint32_t weights[kScores / 2];
  if (lane.group == 1) PassTurn(1);
  WaitForPhase(&memory.full[0], 0);
#pragma unroll
  for (int k = 0; k < kWidth / kProductDepth; ++k) {
    LoadFragment(resident[k], memory.resident, lane.warp_row, k, kPanelBytes);
  }
  int last_stage = 0;
  const auto step = [&](int i, auto is_first) {
    constexpr bool kFirst = decltype(is_first)::value;
    const int stage = i % kStages;
    WaitForPhase(&memory.full[stage], i / kStages & 1);
    // Zeros, made before the turn, and not a first product that does not add: 0.9 us less.
#pragma unroll
    for (int k = 0; k < kScores; ++k) scores[k] = 0;
    AwaitTurn(lane.group);
#pragma unroll
    for (auto& columns : resident) Pin(columns);
    Pin(scores);
    Pin(weights);
    Pin(sums);
    warpgroup::Fence();
    BeginScores<kWidth>(scores, resident, memory.scanned[stage]);
    if (!kFirst) BeginSums<kWidth>(sums, weights, memory.scanned[last_stage]);
    warpgroup::Wait<kFirst ? 0 : 1>();
    PassTurn(lane.group);
    Pin(scores);
    const bool rescale = weigh.template Weigh<kFirst>(scores, i, memory.rows[stage], [&] {
      FormScores<kWidth>(scores, resident, memory.scanned[stage]);
    });
    if (!kFirst) {
      warpgroup::Wait<0>();
      Pin(sums);
      Pin(weights);
      Arrive(&memory.empty[last_stage]);
      if (rescale) weigh.Rescale(sums);
    }
    last_stage = stage;
#pragma unroll
    for (int k = 0; k < kScores / 2; ++k)
      weights[k] = device::PackBf16(scores[2 * k], scores[2 * k + 1]);
  };
  step(0, std::true_type());
  for (int i = 1; i < num_tiles; ++i) step(i, std::false_type());
  Pin(weights);
  Pin(sums);
  warpgroup::Fence();
  BeginSums<kWidth>(sums, weights, memory.scanned[last_stage]);
  warpgroup::Wait<0>();
  Pin(sums);
  if (lane.group == 0) AwaitTurn(0);
}

// Dynamic shared memory of a kernel with SharedScanMemory<kWidth>.
template <int kWidth>
constexpr std::size_t ScanBytes() {
  return sizeof(ScanMemory<kWidth>);
}

}  // namespace mixerbench::kernels
