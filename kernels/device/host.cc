// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/host.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/runtime/device_plan.h"
#include "kernels/runtime/plain_aten.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::device {
namespace {

constexpr std::uintptr_t kAlignment = 16;

bool HasAlignedRows(const at::Tensor& x) {
  if (x.size(-1) > 1 && x.stride(-1) != 1) return false;
  for (std::int64_t axis = 0; axis < x.dim() - 1; ++axis) {
    const auto bytes = static_cast<std::uintptr_t>(x.stride(axis)) * x.element_size();
    if (x.size(axis) > 1 && bytes % kAlignment != 0) return false;
  }
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

}  // namespace

std::optional<OperandPrecision> PrecisionFor(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return OperandPrecision::kBf16;
  if (dtype != at::kFloat) return std::nullopt;
  const bool exact =
      at::globalContext().float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST;
  return exact ? OperandPrecision::kFp32 : OperandPrecision::kTf32;
}

std::string DeviceRefusal(const at::Tensor& x) {
  if (!x.is_cuda()) return std::string(kOnCpu);
  if (!PrecisionFor(x.scalar_type())) {
    return std::string("no device code for ") + c10::toString(x.scalar_type());
  }
  const int capability = LimitsOf(x).compute_capability;
  if (capability >= kMinComputeCapability) return {};
  return "compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10) + " is below 8.0";
}

std::string_view RecurrenceRefusal(std::int64_t seq_len) {
  if (PlainAten::IsAsked()) return kPlainAtenAsked;
  return seq_len == 1 ? "a single token" : "";
}

at::Tensor DenseFloats(const at::Tensor& x) {
  return x.defined() ? x.to(at::kFloat).contiguous() : x;
}

at::Tensor WithAdjacentChannels(const at::Tensor& x) {
  return !x.defined() || x.size(-1) == 1 || x.stride(-1) == 1 ? x : x.contiguous();
}

at::Tensor WithAlignedRows(const at::Tensor& x) {
  if (HasAlignedRows(x)) return x;
  const auto dense = x.contiguous();
  return HasAlignedRows(dense) ? dense : dense.clone();
}

Sequence AsSequence(const at::Tensor& x) {
  return {.data = const_cast<void*>(x.const_data_ptr()),  // NOLINT: outputs have the same type
          .batch_stride = x.stride(0),
          .token_stride = x.stride(1),
          .head_stride = x.stride(2)};
}

DeviceLimits LimitsOf(const at::Tensor& x) {
  DeviceLimits limits;
  const int device = x.get_device();
  CheckLaunch(
      cudaDeviceGetAttribute(&limits.num_multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "cudaDeviceGetAttribute");
  CheckLaunch(cudaDeviceGetAttribute(&limits.shared_memory_bytes,
                                     cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
              "cudaDeviceGetAttribute");
  int major = 0;
  int minor = 0;
  CheckLaunch(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "cudaDeviceGetAttribute");
  CheckLaunch(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
              "cudaDeviceGetAttribute");
  limits.compute_capability = 10 * major + minor;
  limits.has_warpgroups = major == 9;
  return limits;
}

CUstream_st* CurrentStream(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(x.get_device())).stream();
}

void CheckLaunch(int error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " +
                           cudaGetErrorString(static_cast<cudaError_t>(error)));
}

}  // namespace mixerbench::kernels::device
