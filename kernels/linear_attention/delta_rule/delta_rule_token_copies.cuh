// Tiles of tokens by the tensor copy engine: one thread asks for a tile [64 tokens, 64 channels] of
// a Sequence, zeros beyond its end, and the bytes arrive at a barrier. Needs sm_90a: elsewhere the
// device functions trap, and no plan chooses kernels that call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/tensor_map.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"
#include "kernels/linear_attention/delta_rule/warpgroup.cuh"

namespace mixerbench::kernels::delta_rule {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MIXERBENCH_COPY_ASM(...) asm volatile(__VA_ARGS__)
#else
#define MIXERBENCH_COPY_ASM(...) __trap()
#endif

// Channels `channel`.. of tokens `token`.. of (b, h) to a tile, swizzled.
__device__ inline void CopyTokens(warpgroup::Tile* to, const CUtensorMap& from, int channel, int h,
                                  int token, int b, std::uint64_t* barrier) {
  MIXERBENCH_COPY_ASM(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(device::SharedAddress(to)),
      "l"(&from), "r"(channel), "r"(h), "r"(token), "r"(b), "r"(device::SharedAddress(barrier))
      : "memory");
}

// The same the other way, without a barrier: part of this thread's open group of writes. Tokens
// beyond the end are not written.
__device__ inline void WriteTokens(const CUtensorMap& to, int channel, int h, int token, int b,
                                   const warpgroup::Tile& from) {
  MIXERBENCH_COPY_ASM(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"
      " [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&to),
      "r"(channel), "r"(h), "r"(token), "r"(b), "r"(device::SharedAddress(from.x))
      : "memory");
}

#undef MIXERBENCH_COPY_ASM

// How tiles of a bf16 Sequence with `head_dim` channels, a multiple of 64, are copied.
inline cudaError_t MapTokens(const Sequence& x, const DeltaRuleSizes& sizes, std::int64_t head_dim,
                             CUtensorMap* map) {
  constexpr std::int64_t kElementSize = sizeof(warpgroup::Element);
  // The stride of an axis of one element is of no account, but must be legal.
  const auto stride = [&](std::int64_t elements, std::int64_t count) {
    return static_cast<cuuint64_t>((count > 1 ? elements : head_dim) * kElementSize);
  };
  return device::MapTensor<4>(
      {.data = x.data,
       .sizes = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(sizes.num_heads),
                 static_cast<cuuint64_t>(sizes.seq_len), static_cast<cuuint64_t>(sizes.batch_size)},
       .strides = {stride(x.head_stride, sizes.num_heads), stride(x.token_stride, sizes.seq_len),
                   stride(x.batch_stride, sizes.batch_size)},
       .box = {warpgroup::kTileColumns, 1, warpgroup::kTileRows, 1}},
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, map);
}

}  // namespace mixerbench::kernels::delta_rule
