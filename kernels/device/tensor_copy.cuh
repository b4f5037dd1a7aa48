// What copies by the tensor copy engine need of their threads, whatever they copy: barriers that
// count bytes, groups of writes. Needs sm_90a: elsewhere these functions trap, and no plan chooses
// kernels that call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/warp.cuh"

namespace mixerbench::kernels::device {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MIXERBENCH_COPY_ASM(...) asm volatile(__VA_ARGS__)
#else
#define MIXERBENCH_COPY_ASM(...) __trap()
#endif

// Barriers that this thread made are seen by copies.
__device__ inline void ShowBarriersToCopies() {
  MIXERBENCH_COPY_ASM("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::
                          : "memory");
}

// The barrier's current phase ends when this many bytes have arrived as well; not an arrival.
__device__ inline void ExpectBytes(std::uint64_t* barrier, int bytes) {
  MIXERBENCH_COPY_ASM(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}

// The same, and an arrival.
__device__ inline void ArriveAndExpectBytes(std::uint64_t* barrier, int bytes) {
  MIXERBENCH_COPY_ASM(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}

// Closes this thread's group of writes.
__device__ inline void CommitWrites() {
  MIXERBENCH_COPY_ASM("cp.async.bulk.commit_group;" ::: "memory");
}

// Until all but the last kPending groups of this thread have read what they write.
template <int kPending>
__device__ void WaitForWrites() {
  MIXERBENCH_COPY_ASM("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

#undef MIXERBENCH_COPY_ASM

}  // namespace mixerbench::kernels::device
