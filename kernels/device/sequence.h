// How device code sees the tensors of a core: pointers and strides, no torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

struct CUstream_st;  // what cudaStream_t points to

namespace mixerbench::kernels::device {

// How matrix products take their operands; sums are in fp32 always.
enum class OperandPrecision {
  kBf16,  // tensors in bf16
  kTf32,  // tensors in fp32, products round them to tf32
  kFp32,  // tensors in fp32, products as exact as fp32 (three tf32 products)
};

constexpr std::string_view NameOf(OperandPrecision precision) {
  switch (precision) {
    case OperandPrecision::kBf16:
      return "bf16";
    case OperandPrecision::kTf32:
      return "tf32";
    case OperandPrecision::kFp32:
      return "fp32";
  }
  return "";
}

// A tensor [B,T,H,D] whose channels are adjacent. Strides in elements; data and every row start at
// a multiple of 16 bytes, and D elements are a multiple of 16 bytes.
struct Sequence {
  void* data = nullptr;  // bf16 or fp32; read-only unless it is an output
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

// What a plan depends on.
struct DeviceLimits {
  int num_multiprocessors = 0;
  int shared_memory_bytes = 0;  // of one CTA, opted in
  int compute_capability = 0;   // 90 for 9.0
  bool has_warpgroups = false;  // code for sm_90a runs
};

}  // namespace mixerbench::kernels::device
