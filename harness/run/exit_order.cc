// SPDX-License-Identifier: Apache-2.0
#include "harness/run/exit_order.h"

#include <algorithm>
#include <array>

namespace mixerbench::harness {

ExitCode First(ExitCode a, ExitCode b) {
  static constexpr std::array kOrder = {
      ExitCode::kInternal,        ExitCode::kUsage,        ExitCode::kBadInput,
      ExitCode::kOutput,          ExitCode::kEnvironment,  ExitCode::kStoppedEarly,
      ExitCode::kNothingSelected, ExitCode::kMissing,      ExitCode::kNo,
      ExitCode::kCellsFailed,     ExitCode::kInconclusive, ExitCode::kOk};
  return *std::find_if(kOrder.begin(), kOrder.end(),
                       [=](ExitCode code) { return code == a || code == b; });
}

}  // namespace mixerbench::harness
