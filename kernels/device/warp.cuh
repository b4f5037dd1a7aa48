// The instructions of one warp that C++ has no words for: matrix products, matrix loads,
// asynchronous copies. Everything above this file is plain C++.
// Needs sm_80.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

namespace mixerbench::kernels::device {

inline __device__ std::uint32_t SharedAddress(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// d += a b for bf16 operands: a [16,16] row-major, b [16,8] column-major, d [16,8]. Fragment layout
// (group g = lane / 4, t = lane % 4): d holds rows g, g+8 and columns 2t, 2t+1; a the rows g, g+8
// and columns 2t, 2t+1, 2t+8, 2t+9; b those rows and column g.
inline __device__ void MmaBf16(float (&d)[4], const std::uint32_t (&a)[4],
                               const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for tf32: a [16,8] (rows g, g+8, columns t, t+4), b [8,8] (rows t, t+4, column g).
inline __device__ void MmaTf32(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                               std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

inline __device__ std::uint32_t RoundToTf32(float x) {
  // To nearest, ties away from zero. As integers: the instruction for it is emulated by five. The
  // sum would turn the NaN that arithmetic makes, 0x7fffffff, into -0.
  const std::uint32_t rounded = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return x == x ? rounded : 0x7fffe000u;
}

// Four 8x8 matrices of 2-byte elements; lane l gives the address of row l % 8 of matrix l / 8.
inline __device__ void LoadMatrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

inline __device__ void LoadMatricesTransposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// Copies 16 bytes to shared memory in the background, zeros when not `valid` (then `source` is not
// read, but must be a legal address).
inline __device__ void CopyAsync16(void* destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(destination)),
               "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}

// The same for 4 bytes.
inline __device__ void CopyAsync4(void* destination, const void* source, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(destination)),
               "l"(source), "r"(valid ? 4 : 0)
               : "memory");
}

// Closes a group of this thread's copies.
inline __device__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of this thread's groups are under way.
template <int kPending>
inline __device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Barriers in shared memory between groups of warps. A phase ends when `count` threads have
// arrived; phases have parities 0, 1, 0, ...
inline __device__ void InitBarrier(std::uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(count)
               : "memory");
}

// What this thread did before is visible to those that wait.
inline __device__ void Arrive(std::uint64_t* barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(SharedAddress(barrier))
      : "memory");
}

// This thread arrives as soon as all copies that it has started are there; it does not wait.
inline __device__ void ArriveAfterCopies(std::uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(SharedAddress(barrier))
               : "memory");
}

// Waits for the end of the phase with this parity, the current or the previous one.
inline __device__ void WaitForPhase(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif
      "@!done bra again;\n}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// Brings a line of global memory to the L2 cache.
inline __device__ void PrefetchToL2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

inline __device__ float ShuffleFrom(float x, int lane) { return __shfl_sync(~0u, x, lane); }
inline __device__ float ShuffleUp(float x, int delta) { return __shfl_up_sync(~0u, x, delta); }
inline __device__ float ShuffleUp(float x, int delta, int width) {
  return __shfl_up_sync(~0u, x, delta, width);
}
inline __device__ float ShuffleXor(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
inline __device__ bool AllLanes(bool condition) { return __all_sync(~0u, condition) != 0; }
inline __device__ void SyncWarp() { __syncwarp(); }
inline __device__ void SyncBlock() { __syncthreads(); }

// 2^x; results below the normal numbers are zero.
inline __device__ float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// e^x to a few roundings of x and of the result.
inline __device__ float Exp(float x) { return Exp2(x * 1.44269504f); }

// Two floats as bf16, `low` in the low half.
inline __device__ std::uint32_t PackBf16(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
inline __device__ float LowBf16(std::uint32_t x) { return __uint_as_float(x << 16); }
inline __device__ float HighBf16(std::uint32_t x) { return __uint_as_float(x & 0xffff0000u); }

inline __device__ float FloatFromBits(std::uint32_t x) { return __uint_as_float(x); }

}  // namespace mixerbench::kernels::device
