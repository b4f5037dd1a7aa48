// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/simple_gla/simple_gla_cuda.h"

#include "kernels/device/host.h"
#include "kernels/linear_attention/scan/decay_autograd.h"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes) {
  if (const auto refusal = device::RecurrenceRefusal(sizes.seq_len); !refusal.empty()) {
    return {{}, std::string(refusal)};
  }
  static const decay_scan::DecayKernels kernels = {
      .core = "simple_gla",
      .read_axis = decay_scan::DecayAxis::kNone,
      .gradient_axis = decay_scan::DecayAxis::kNone,
      .read_scan = {ScanBf16, ScanTf32, ScanFp32},
      .gradient_scan = {ScanBf16, ScanTf32, ScanFp32},
      .decay_gradient = {DecayGradientBf16, DecayGradientFp32, DecayGradientFp32}};
  return decay_scan::RunDecayScans(args, sizes, kernels);
}

}  // namespace mixerbench::kernels::simple_gla
