// Tensors of the framework to and from safetensors files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/tensor_file.h"
#include "kernels/core.h"

namespace mixerbench::harness {

// CPU tensors that own their memory. Throws Error(kBadInput) for a missing or malformed file.
kernels::NamedTensors LoadTensors(const std::string& path);

// The same without the file: any device and layout in, contiguous; CPU tensors out.
io::TensorFile ToTensorFile(const kernels::NamedTensors& tensors);
kernels::NamedTensors FromTensorFile(const io::TensorFile& file);

// Any device and layout; written contiguously.
void SaveTensors(const std::string& path, const kernels::NamedTensors& tensors);

}  // namespace mixerbench::harness
