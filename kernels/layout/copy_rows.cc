// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout/copy_rows.h"

#include <cstdint>

#include "kernels/device/launch.h"
#include "kernels/layout/rows_cuda.h"

namespace mixerbench::kernels {
namespace {

std::int64_t RowBytes(const at::Tensor& x) {
  return x.size(-1) * static_cast<std::int64_t>(x.element_size());
}

std::int64_t StrideBytes(const at::Tensor& x) {
  return (x.dim() > 1 ? x.stride(-2) : x.size(-1)) * static_cast<std::int64_t>(x.element_size());
}

constexpr std::int64_t kAlignment = 8;  // bytes

bool SupportsRows(const at::Tensor& x) {
  return RunsOnDevice(x) && HasAlignedRows(x, kAlignment) && RowBytes(x) % kAlignment == 0;
}

}  // namespace

void CopyRows(const at::Tensor& target, const at::Tensor& source) {
  const bool same =
      !source.defined() || (source.sizes() == target.sizes() && source.dtype() == target.dtype());
  if (!same || !SupportsRows(target) || (source.defined() && !SupportsRows(source))) {
    source.defined() ? target.copy_(source) : target.zero_();
    return;
  }
  if (target.numel() == 0) return;
  const std::int64_t num_rows = target.numel() / target.size(-1);
  OnDeviceOf(target, "CopyRows", [&](CUstream_st* stream) {
    return LaunchCopyRows({.source = source.defined() ? source.const_data_ptr() : nullptr,
                           .source_stride = source.defined() ? StrideBytes(source) : 0,
                           .num_source_rows = num_rows,
                           .target = target.mutable_data_ptr(),
                           .target_stride = StrideBytes(target),
                           .num_rows = num_rows,
                           .row_bytes = RowBytes(target)},
                          stream);
  });
}

}  // namespace mixerbench::kernels
