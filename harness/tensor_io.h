// Tensors of the framework to and from safetensors files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/core.h"

namespace mixerbench::harness {

// CPU tensors that own their memory. Throws Error(kBadInput) for a missing or malformed file.
kernels::NamedTensors LoadTensors(const std::string& path);

// Any device and layout; written contiguously.
void SaveTensors(const std::string& path, const kernels::NamedTensors& tensors);

}  // namespace mixerbench::harness
