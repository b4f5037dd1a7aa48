// What host code between tensors and device code needs; linked with CUDA only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/device/sequence.h"

namespace mixerbench::kernels::device {

// How device code takes the operands of products for tensors of this dtype: fp32 as tf32 only where
// the process allows it (harness SetNumerics). nullopt: the dtype has no device code.
std::optional<OperandPrecision> PrecisionFor(at::ScalarType dtype);

// Why device code takes no tensors like `x`, whatever their sizes: another device, another dtype, a
// GPU before kMinComputeCapability. Empty when it takes them.
std::string DeviceRefusal(const at::Tensor& x);

// Why no device code runs a recurrence of `seq_len` tokens here: plain ATen was asked for
// (kernels/runtime/plain_aten.h), or it is one token, which gains nothing and whose products ATen's
// path does not round. Empty when it may run.
std::string_view RecurrenceRefusal(std::int64_t seq_len);

// In fp32 and contiguous; undefined stays.
at::Tensor DenseFloats(const at::Tensor& x);

// Neighbouring channels are adjacent: `x` itself or a copy; undefined stays.
at::Tensor WithAdjacentChannels(const at::Tensor& x);

// Channels are adjacent, and data and rows start at multiples of 16 bytes: `x` itself when it is
// so, else a copy. x [B,T,H,D], D elements a multiple of 16 bytes.
at::Tensor WithAlignedRows(const at::Tensor& x);

// x [B,T,H,D] or [B,T,H].
Sequence AsSequence(const at::Tensor& x);

// Of the device of `x`.
DeviceLimits LimitsOf(const at::Tensor& x);

// PyTorch's current stream on the device of `x`.
CUstream_st* CurrentStream(const at::Tensor& x);

// Throws std::runtime_error with CUDA's text when a launch returned an error.
void CheckLaunch(int error, const char* what);

}  // namespace mixerbench::kernels::device
