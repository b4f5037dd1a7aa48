// Stands in for step_kernels.cu in a build without CUDA.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "harness/device/step_kernels.h"

namespace mixerbench::harness {

int QueueFinishStep(const StepState&, const float*, CUstream_st*) {
  throw BackendUnavailable("this program was built without CUDA");
}

int QueueListOrder(const tasks::SampleOrder&, std::uint64_t*, CUstream_st*) {
  throw BackendUnavailable("this program was built without CUDA");
}

int QueueListScored(const std::int32_t*, std::int64_t, std::int64_t, std::int64_t,
                    const ScoredLists&, CUstream_st*) {
  throw BackendUnavailable("this program was built without CUDA");
}

}  // namespace mixerbench::harness
