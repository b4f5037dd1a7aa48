// What compute capability 9.0 has beyond others, for code compiled for sm_90a alone, beside
// kernels/device/{warpgroup,tensor_copy}.cuh: products of bf16 tiles of several widths, copies of
// matrices, clusters of blocks.
//
// A tile is R rows (a multiple of eight) of W elements (a multiple of 64). It lies in panels of 64
// columns; a panel's rows are 128 bytes long, one after the other, and the 16-byte chunks of row r
// are permuted by XOR with r % 8 ("128-byte swizzle"). Panels start at multiples of 1024 bytes.
// Source: PTX ISA 8.5, "Asynchronous warpgroup level matrix instructions", "Tensor copy".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda.h>

#include "kernels/device/operand.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/device/warpgroup.cuh"

namespace mixerbench::kernels {

namespace warpgroup = device::warpgroup;
using device::Arrive;
using device::InitBarrier;
using device::SharedAddress;
using device::WaitForPhase;

// Whether this pass of the compiler makes code for sm_90a: kernels do nothing in others.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool kForHopper = true;
#else
constexpr bool kForHopper = false;
#endif

constexpr int kWarpgroup = warpgroup::kThreads;
constexpr int kPanelWidth = 64;     // elements
constexpr int kTileRowBytes = 128;  // of a panel
constexpr int kProductDepth = 16;   // terms that one wgmma adds
constexpr int kSwizzledRows = 8;    // after which the permutation repeats

// Where chunk `chunk` of row `row` lies in a tile whose panels are `panel_bytes` long.
__device__ inline std::uint32_t ChunkOffset(int row, int chunk, int panel_bytes) {
  const int in_panel = chunk % kSwizzledRows;
  return static_cast<std::uint32_t>(chunk / kSwizzledRows * panel_bytes + row * kTileRowBytes +
                                    (in_panel ^ row % kSwizzledRows) * 16);
}

// --- matrix descriptors --------------------------------------------------------------------------

// Offsets are in units of 16 bytes and may be added to a descriptor to move its start.
constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
constexpr std::uint64_t kEightRows = kSwizzledRows * kTileRowBytes / 16;

// Rows of the tile are rows (or columns) of the product, its columns are what is summed over.
__device__ inline std::uint64_t RowOperand(std::uint32_t address) {
  return kSwizzle128 | kEightRows << 32 | 1ULL << 16 | (address & 0x3ffff) >> 4;
}

// From terms 16 k..16 k + 15 of a RowOperand to its first.
__device__ constexpr std::uint64_t RowOperandStep(int k, int panel_bytes) {
  constexpr int kPerPanel = kPanelWidth / kProductDepth;
  return static_cast<std::uint64_t>(k / kPerPanel * (panel_bytes / 16) + k % kPerPanel * 2);
}

// Columns of the tile are columns of the product, its rows are what is summed over.
__device__ inline std::uint64_t ColumnOperand(std::uint32_t address, int panel_bytes) {
  return kSwizzle128 | kEightRows << 32 | static_cast<std::uint64_t>(panel_bytes / 16) << 16 |
         (address & 0x3ffff) >> 4;
}

__device__ constexpr std::uint64_t ColumnOperandStep(int k) {
  return static_cast<std::uint64_t>(k * kProductDepth * kTileRowBytes / 16);
}

// Tiles of 16 columns: a row is 32 bytes long, whose two chunks change places in rows 4 to 7 of
// eight ("32-byte swizzle"). They start at multiples of 256 bytes.
constexpr int kNarrowWidth = 16;     // elements
constexpr int kNarrowRowBytes = 32;  // of such a tile
constexpr std::uint64_t kSwizzle32 = 3ULL << 62;
constexpr std::uint64_t kEightNarrowRows = kSwizzledRows * kNarrowRowBytes / 16;

// Its rows or its columns are those of the product, 16 terms either way.
__device__ inline std::uint64_t NarrowOperand(std::uint32_t address) {
  return kSwizzle32 | kEightNarrowRows << 32 | 1ULL << 16 | (address & 0x3ffff) >> 4;
}

// To the next 16 rows.
constexpr std::uint64_t kNarrowStep = kProductDepth * kNarrowRowBytes / 16;

// Eight rows, all terms of which are the same: 128 elements that are equal.
constexpr int kUniformElements = 128;
__device__ inline std::uint64_t UniformOperand(std::uint32_t address) {
  return 8ULL << 32 | 8ULL << 16 | (address & 0x3ffff) >> 4;
}

// --- products ------------------------------------------------------------------------------------

// Accumulators of a 64 x N product: thread t of the warpgroup holds in [4 j + 2 h + e] row
// 16 (t / 32) + t % 32 / 4 + 8 h, column 8 j + 2 (t % 4) + e.

#define MB_WGMMA_F8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MB_WGMMA_F32(d, i) \
  MB_WGMMA_F8(d, i), MB_WGMMA_F8(d, i + 8), MB_WGMMA_F8(d, i + 16), MB_WGMMA_F8(d, i + 24)
#define MB_WGMMA_R32                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MB_WGMMA_R64                                                                   \
  MB_WGMMA_R32                                                                         \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// a: four registers of pairs of neighbouring columns, as in mma.m16n8k16 (LoadFragment).

// d += a b^T, b a RowOperand; 64 x 128 and 64 x 64.
__device__ inline void MultiplyRows(float (&d)[64], const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MB_WGMMA_R64
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
      : MB_WGMMA_F32(d, 0), MB_WGMMA_F32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void MultiplyRows(float (&d)[32], const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MB_WGMMA_R32
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
      : MB_WGMMA_F32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// d += a b, b a ColumnOperand; 64 x 128 and 64 x 64.
__device__ inline void MultiplyColumns(float (&d)[64], const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MB_WGMMA_R64
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
      : MB_WGMMA_F32(d, 0), MB_WGMMA_F32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void MultiplyColumns(float (&d)[32], const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MB_WGMMA_R32
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : MB_WGMMA_F32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Columns 16 k..16 k + 15 of rows first_row..first_row + 15 of a tile, for a warp.
__device__ inline void LoadFragment(std::uint32_t (&a)[4], const void* tile, int first_row, int k,
                                    int panel_bytes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  device::LoadMatrices(a, static_cast<const std::uint8_t*>(tile) +
                              ChunkOffset(first_row + lane % 16, 2 * k + lane / 16, panel_bytes));
}

// d (+)= a b, a a RowOperand, b a ColumnOperand; 64 x 128 and 64 x 64.
template <bool kAdd>
__device__ inline void MultiplyTiles(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MB_WGMMA_R64
      "}, %64, %65, p, 1, 1, 0, 1;\n}\n"
      : MB_WGMMA_F32(d, 0), MB_WGMMA_F32(d, 32)
      : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
}

template <bool kAdd>
__device__ inline void MultiplyTiles(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MB_WGMMA_R32
      "}, %32, %33, p, 1, 1, 0, 1;\n}\n"
      : MB_WGMMA_F32(d, 0)
      : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
}

// d += a b, b a NarrowOperand; 64 x 16.
__device__ inline void MultiplyColumns(float (&d)[8], const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, p, 1, 1, 1;\n}\n"
      : MB_WGMMA_F8(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// d += a^T b, a a ColumnOperand, b a UniformOperand; 64 x 8.
__device__ inline void SumColumns(float (&d)[4], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, "
      "%4, %5, p, 1, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

// The transpose of rows 16 k..16 k + 15 of columns first_column..first_column + 15 of a panel.
__device__ inline void LoadTransposed(std::uint32_t (&a)[4], const void* panel, int k,
                                      int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  device::LoadMatricesTransposed(
      a, static_cast<const std::uint8_t*>(panel) +
             ChunkOffset(k * kProductDepth + lane % 8 + lane / 16 * 8,
                         first_column / 8 + lane / 8 % 2, /*panel_bytes=*/0));
}

// A warp's 16 rows of a 64 x 64 product to a panel, in bf16.
__device__ inline void StorePanel(void* panel, int first_row, const float (&d)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    const std::uint32_t pairs[4] = {
        device::PackBf16(d[i], d[i + 1]), device::PackBf16(d[i + 2], d[i + 3]),
        device::PackBf16(d[i + 4], d[i + 5]), device::PackBf16(d[i + 6], d[i + 7])};
    warpgroup::StoreMatrices(
        static_cast<std::uint8_t*>(panel) + ChunkOffset(first_row + lane % 16, i / 4 + lane / 16,
                                                        /*panel_bytes=*/0),
        pairs);
  }
}

#undef MB_WGMMA_F8
#undef MB_WGMMA_F32
#undef MB_WGMMA_R32
#undef MB_WGMMA_R64

// Registers that a product read or wrote asynchronously: the compiler shall move no use of them
// across this point, which stands after warpgroup::Wait.
template <int kSize>
__device__ inline void Pin(float (&registers)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kSize>
__device__ inline void Pin(std::uint32_t (&registers)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// --- barriers and copies -------------------------------------------------------------------------

// A panel of a tile whose first element is at (row, column) of the matrix; zeros outside of it.
__device__ inline void CopyPanel(void* to, const CUtensorMap& matrix, int row, int column,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];\n" ::"r"(SharedAddress(to)),
      "l"(&matrix), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
}

// Begins to copy a panel to a matrix, less what is outside of it.
__device__ inline void StorePanelToMatrix(const CUtensorMap& matrix, int row, int column,
                                          const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n" ::"l"(
          &matrix),
      "r"(column), "r"(row), "r"(SharedAddress(from))
      : "memory");
  device::CommitWrites();
}

// Bytes at multiples of 16.
__device__ inline void CopyBytes(void* to, const void* from, int bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

// --- blocks --------------------------------------------------------------------------------------

// The same variable in the shared memory of another block of the cluster, once that has begun.
template <typename T>
__device__ T* OfBlock(T* mine, unsigned rank) {
  T* theirs;
  asm("mapa.u64 %0, %1, %2;\n" : "=l"(theirs) : "l"(mine), "r"(rank));
  return theirs;
}

// All threads of all blocks of the cluster; what they wrote before is seen after.
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}

// SyncCluster in two parts, between which there may be other work, where nothing written before
// need be seen after. All threads of a block come to the second part before any goes on.
__device__ inline void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}
__device__ inline void AwaitCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

}  // namespace mixerbench::kernels
