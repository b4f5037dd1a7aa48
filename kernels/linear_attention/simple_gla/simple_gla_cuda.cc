// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/simple_gla/simple_gla_cuda.h"

#include <string>
#include <utility>

#include "kernels/device/host.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/linear_attention/scan/decay_autograd.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
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
  if (std::string refusal = device::DeviceRefusal(args.q); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  const auto tiles = TileHeads(sizes, decay_scan::DecayScanPlans(decay_scan::DecayAxis::kNone),
                               NameOf(*device::PrecisionFor(args.q.scalar_type())), KeyTiles::kAny);
  return RunInTiles(args, sizes, tiles,
                    [](const RecurrenceArgs& tiled, const PreparedRecurrence& tiled_sizes) {
                      return decay_scan::RunDecayScans(tiled, tiled_sizes, kernels);
                    });
}

}  // namespace mixerbench::kernels::simple_gla
