// Which GPUs run the kernels that are made of hopper.cuh. hopper.cu defines it;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels {

// Whether that device runs kernels compiled for sm_90a: compute capability 9.0 alone.
bool IsHopper(int device);

}  // namespace mixerbench::kernels
