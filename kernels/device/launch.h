// What every fused function needs to call device code: whether it can, on which stream, with which
// pointers, and what an error code means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

// False in builds without CUDA, where no device function may be called.
bool HasDeviceFunctions();

// Whether `x` is on a GPU for which this program holds device functions, in fp32 or bf16.
bool RunsOnDevice(const at::Tensor& x);

Element ElementOf(const at::Tensor& x);

constexpr std::int64_t kRowAlignment = 16;  // bytes

// Whether the rows of `x` [..., W] lie at one distance and all begin at multiples of `alignment`.
bool HasAlignedRows(const at::Tensor& x, std::int64_t alignment = kRowAlignment);

// `x` [..., W] with rows of W elements at one distance that are aligned to so many bytes: itself or
// a copy (which may have gaps between its rows). An undefined tensor stays.
at::Tensor AlignedRows(const at::Tensor& x, std::int64_t alignment = kRowAlignment);

// The rows of such a tensor; an undefined tensor is absent.
ConstRows RowsOf(const at::Tensor& x, std::int64_t alignment = kRowAlignment);
Rows MutableRowsOf(const at::Tensor& x, std::int64_t alignment = kRowAlignment);

// Data as float; nullptr for an undefined tensor. fp32, contiguous.
const float* FloatsOf(const at::Tensor& x);
float* MutableFloatsOf(const at::Tensor& x);

// Calls launch(stream) with the device of `x` current and its current stream. Throws
// std::runtime_error naming `function` when the error code it returns is not 0.
template <typename Launch>
void OnDeviceOf(const at::Tensor& x, std::string_view function, Launch launch);

}  // namespace mixerbench::kernels

// --- implementation ------------------------------------------------------------------------------

#include <c10/core/DeviceGuard.h>

namespace mixerbench::kernels {
namespace internal {
CUstream_st* CurrentStream(at::Device device);
void CheckLaunch(int error, std::string_view function);
}  // namespace internal

template <typename Launch>
void OnDeviceOf(const at::Tensor& x, std::string_view function, Launch launch) {
  const c10::DeviceGuard guard(x.device());
  internal::CheckLaunch(launch(internal::CurrentStream(x.device())), function);
}

}  // namespace mixerbench::kernels
