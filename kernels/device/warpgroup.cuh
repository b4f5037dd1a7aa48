// Matrix products of a warpgroup, four warps together, in bf16: 64 rows a product, operands read
// from swizzled tiles in shared memory, the left one from registers too. Needs sm_90a: elsewhere
// these functions trap, and no plan chooses kernels that call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/tiles.cuh"

namespace mixerbench::kernels::device::warpgroup {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MIXERBENCH_WARPGROUP_ASM(...) asm volatile(__VA_ARGS__)
#else
#define MIXERBENCH_WARPGROUP_ASM(...) __trap()
#endif

using Operand = Bf16Operand;
using Element = Operand::Element;

constexpr int kThreads = 128;
constexpr int kTileRows = 64;
constexpr int kTileColumns = 64;
constexpr int kTileElements = kTileRows * kTileColumns;

// A tile [64,64] in shared memory: rows of 128 bytes, whose pieces of 16 bytes are permuted by the
// row ("128-byte swizzle"), so that neither rows nor columns of fragments meet in a bank.
struct alignas(1024) Tile {
  Element x[kTileElements];
};

// Sums [64,64]: a warp has 16 rows, in four blocks of 16 columns.
using Sums = Accumulators[4];

// Where an element lies in a tile.
__device__ inline int Swizzled(int row, int column) {
  return row * kTileColumns + ((column / 8) ^ (row % 8)) * 8 + column % 8;
}

// How an operand [M or N, depth] lies in a tile: its depth along the rows, or down the columns.
enum class Depth { kAlongRows = 0, kDownColumns = 1 };

// The descriptor of an operand that begins at row `row`, a multiple of eight, and column `column`
// of a tile (PTX ISA, "Matrix Descriptor Format"). Groups of eight rows are 1024 bytes apart,
// whichever way depth runs.
__device__ inline std::uint64_t Descriptor(const Tile& tile, int row = 0, int column = 0) {
  const std::uint32_t address = SharedAddress(tile.x) + row * 128 + column * 2;
  constexpr std::uint64_t kGroupStride = 1024 / 16;
  constexpr std::uint64_t kSwizzle128 = 1;
  return (address & 0x3ffff) >> 4 | kGroupStride << 16 | kGroupStride << 32 | kSwizzle128 << 62;
}

// The part of the operand for depths [16 step, 16 step + 16).
template <Depth kDepth>
__device__ std::uint64_t AtDepth(std::uint64_t descriptor, int step) {
  return descriptor + step * (kDepth == Depth::kAlongRows ? 32 / 16 : 2048 / 16);
}

// What was written to registers of operands and sums is seen by the products that follow.
__device__ inline void Fence() {
  MIXERBENCH_WARPGROUP_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes a group of products.
__device__ inline void Commit() {
  MIXERBENCH_WARPGROUP_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Keeps the compiler from moving uses of these sums to where their products are under way.
template <int kBlocks>
__device__ void Pin(Accumulators (&sums)[kBlocks]) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) asm volatile("" : "+f"(sums[n][e / 4][e % 4])::"memory");
  }
}

// Until at most kPending groups are under way; `sums` are those of groups that have ended.
template <int kPending, typename... Ended>
__device__ void Wait(Ended&... sums) {
  MIXERBENCH_WARPGROUP_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  (Pin(sums), ...);
}

// What this thread wrote to shared memory is seen by products after the next barrier.
__device__ inline void PublishToProducts() {
  MIXERBENCH_WARPGROUP_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

// Barrier `id` of `num_threads` threads of the block; 0 is __syncthreads().
__device__ inline void SyncThreads(int id, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}

// The registers of a thread from here on, a multiple of eight, in every warp of the warpgroup;
// another one gives them. 0: as many as it has.
template <int kRegisters>
__device__ void TakeRegisters() {
  if constexpr (kRegisters > 0) {
    MIXERBENCH_WARPGROUP_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
  }
}
template <int kRegisters>
__device__ void GiveRegisters() {
  if constexpr (kRegisters > 0) {
    MIXERBENCH_WARPGROUP_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
  }
}

#define MIXERBENCH_SUMS_16(c, i)                                                            \
  "+f"(c[i][0][0]), "+f"(c[i][0][1]), "+f"(c[i][0][2]), "+f"(c[i][0][3]), "+f"(c[i][1][0]), \
      "+f"(c[i][1][1]), "+f"(c[i][1][2]), "+f"(c[i][1][3])

// c [64,64] += a b over a depth of 16, a in registers; without `accumulate` c is overwritten.
template <Depth kDepthB>
__device__ void Multiply(Sums& c, const Operand::A& a, std::uint64_t b, bool accumulate) {
  MIXERBENCH_WARPGROUP_ASM(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, %38; }"
      : MIXERBENCH_SUMS_16(c, 0), MIXERBENCH_SUMS_16(c, 1), MIXERBENCH_SUMS_16(c, 2),
        MIXERBENCH_SUMS_16(c, 3)
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b),
        "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kDepthB)));
}

// The same with both operands in shared memory.
template <Depth kDepthA, Depth kDepthB>
__device__ void Multiply(Sums& c, std::uint64_t a, std::uint64_t b, bool accumulate) {
  MIXERBENCH_WARPGROUP_ASM(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, %35, %36; }"
      : MIXERBENCH_SUMS_16(c, 0), MIXERBENCH_SUMS_16(c, 1), MIXERBENCH_SUMS_16(c, 2),
        MIXERBENCH_SUMS_16(c, 3)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kDepthA)),
        "n"(static_cast<int>(kDepthB)));
}

// c [64,32]
template <Depth kDepthA, Depth kDepthB>
__device__ void Multiply(Accumulators (&c)[2], std::uint64_t a, std::uint64_t b, bool accumulate) {
  MIXERBENCH_WARPGROUP_ASM(
      "{ .reg .pred p; setp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, %19, %20; }"
      : MIXERBENCH_SUMS_16(c, 0), MIXERBENCH_SUMS_16(c, 1)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kDepthA)),
        "n"(static_cast<int>(kDepthB)));
}

#undef MIXERBENCH_SUMS_16

// c += a b over the whole depth of a tile of each, by their descriptors.
template <Depth kDepthA, Depth kDepthB, int kBlocks>
__device__ void MultiplyTiles(Accumulators (&c)[kBlocks], std::uint64_t a, std::uint64_t b,
                              bool accumulate) {
#pragma unroll
  for (int step = 0; step < kTileRows / 16; ++step) {
    Multiply<kDepthA, kDepthB>(c, AtDepth<kDepthA>(a, step), AtDepth<kDepthB>(b, step),
                               accumulate || step > 0);
  }
}

// The same, the left operand in registers.
template <Depth kDepthB>
__device__ void MultiplyTiles(Sums& c, const Operand::A (&a)[4], std::uint64_t b, bool accumulate) {
#pragma unroll
  for (int step = 0; step < kTileRows / 16; ++step) {
    Multiply<kDepthB>(c, a[step], AtDepth<kDepthB>(b, step), accumulate || step > 0);
  }
}

__device__ inline int WarpOfGroup() { return WarpId() % 4; }

// A [16,16] operand from rows `row`.. and columns `column`.. of a tile.
__device__ inline Operand::A LoadA(const Tile& tile, int row, int column) {
  const int lane = LaneId();
  Operand::A a;
  LoadMatrices(a.r, tile.x + Swizzled(row + lane % 16, column + lane / 16 * 8));
  return a;
}

// The transposed operand: memory holds [depth][row].
__device__ inline Operand::A LoadATransposed(const Tile& tile, int depth, int row) {
  const int lane = LaneId();
  Operand::A a;
  LoadMatricesTransposed(
      a.r, tile.x + Swizzled(depth + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
  return a;
}

// Four 8x8 matrices of 2-byte elements, in registers as LoadMatrices leaves them; lane l gives the
// address of row l % 8 of matrix l / 8.
__device__ inline void StoreMatrices(void* row, const std::uint32_t (&r)[4]) {
  MIXERBENCH_WARPGROUP_ASM(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(SharedAddress(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

__device__ inline void StoreMatricesTransposed(void* row, const std::uint32_t (&r)[4]) {
  MIXERBENCH_WARPGROUP_ASM(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
          SharedAddress(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

// A block, as an operand, to rows `row`.. and columns `column`.. of a tile.
__device__ inline void StoreRows(Tile& tile, int row, int column, const Operand::A& a) {
  const int lane = LaneId();
  StoreMatrices(tile.x + Swizzled(row + lane % 16, column + lane / 16 * 8), a.r);
}

// Its transpose: column r of the block becomes row `row` + r.
__device__ inline void StoreColumns(Tile& tile, int row, int column, const Operand::A& a) {
  const int lane = LaneId();
  StoreMatricesTransposed(
      tile.x + Swizzled(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8), a.r);
}

// The same for blocks of sums.
__device__ inline void StoreRows(Tile& tile, int row, int column, const Accumulators& c) {
  StoreRows(tile, row, column, ToOperand<Operand>(c));
}
__device__ inline void StoreColumns(Tile& tile, int row, int column, const Accumulators& c) {
  StoreColumns(tile, row, column, ToOperand<Operand>(c));
}

#undef MIXERBENCH_WARPGROUP_ASM

}  // namespace mixerbench::kernels::device::warpgroup
