// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/launch.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/check.h"

namespace mixerbench::kernels {

bool RunsOnDevice(const at::Tensor& x) {
  return HasDeviceFunctions() && x.is_cuda() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

Element ElementOf(const at::Tensor& x) {
  Require(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
          "device functions take float32 and bfloat16");
  return x.scalar_type() == at::kFloat ? Element::kFloat : Element::kBFloat16;
}

bool HasAlignedRows(const at::Tensor& x, std::int64_t alignment) {
  if (x.dim() == 0 || x.stride(-1) != 1) return false;
  const auto element_size = static_cast<std::int64_t>(x.element_size());
  if (reinterpret_cast<std::intptr_t>(x.const_data_ptr()) % alignment != 0) return false;
  if (x.dim() == 1) return true;
  if (x.stride(-2) * element_size % alignment != 0) return false;
  for (std::int64_t axis = x.dim() - 3; axis >= 0; --axis) {
    if (x.stride(axis) != x.stride(axis + 1) * x.size(axis + 1)) return false;
  }
  return true;
}

at::Tensor AlignedRows(const at::Tensor& x, std::int64_t alignment) {
  if (!x.defined() || HasAlignedRows(x, alignment)) return x;
  std::vector<std::int64_t> shape = x.sizes().vec();
  const std::int64_t unit = alignment / static_cast<std::int64_t>(x.element_size());
  shape.back() = (shape.back() + unit - 1) / unit * unit;
  if (shape.back() == x.size(-1)) return x.clone(at::MemoryFormat::Contiguous);
  const at::Tensor copy = at::empty(shape, x.options()).narrow(-1, 0, x.size(-1));
  return copy.copy_(x);
}

ConstRows RowsOf(const at::Tensor& x, std::int64_t alignment) {
  if (!x.defined()) return {};
  Require(HasAlignedRows(x, alignment), "rows must be aligned and equally far apart");
  return {x.const_data_ptr(), ElementOf(x), x.dim() > 1 ? x.stride(-2) : x.size(-1)};
}

Rows MutableRowsOf(const at::Tensor& x, std::int64_t alignment) {
  if (!x.defined()) return {};
  Require(HasAlignedRows(x, alignment), "rows must be aligned and equally far apart");
  return {x.mutable_data_ptr(), ElementOf(x), x.dim() > 1 ? x.stride(-2) : x.size(-1)};
}

const float* FloatsOf(const at::Tensor& x) {
  if (!x.defined()) return nullptr;
  Require(x.is_contiguous(), "a dense tensor is needed");
  return x.const_data_ptr<float>();
}

float* MutableFloatsOf(const at::Tensor& x) {
  if (!x.defined()) return nullptr;
  Require(x.is_contiguous(), "a dense tensor is needed");
  return x.mutable_data_ptr<float>();
}

namespace internal {

CUstream_st* CurrentStream(at::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<CUstream_st*>(guard.getStreamNativeHandle(guard.getStream(device)));
}

void CheckLaunch(int error, std::string_view function) {
  if (error == 0) return;
  throw std::runtime_error(std::string(function) + " failed with CUDA error " +
                           std::to_string(error));
}

}  // namespace internal
}  // namespace mixerbench::kernels
