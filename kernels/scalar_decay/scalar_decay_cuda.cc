// SPDX-License-Identifier: Apache-2.0
#include "kernels/scalar_decay/scalar_decay_cuda.h"

#include "kernels/cuda/decay_autograd.h"
#include "kernels/cuda/host.h"
#include "kernels/scalar_decay/scalar_decay_kernels.h"

namespace mixerbench::kernels::scalar_decay {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes) {
  if (const auto refusal = cuda::RecurrenceRefusal(sizes.seq_len); !refusal.empty()) {
    return {{}, std::string(refusal)};
  }
  static const cuda::DecayKernels kernels = {
      .core = "scalar_decay",
      .read_axis = cuda::DecayAxis::kNone,
      .gradient_axis = cuda::DecayAxis::kNone,
      .read_walk = {WalkBf16, WalkTf32, WalkFp32},
      .gradient_walk = {WalkBf16, WalkTf32, WalkFp32},
      .decay_gradient = {DecayGradientBf16, DecayGradientFp32, DecayGradientFp32}};
  return cuda::RunDecayWalks(args, sizes, kernels);
}

}  // namespace mixerbench::kernels::scalar_decay
