// SPDX-License-Identifier: Apache-2.0
#include "harness/run/standing.h"

#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {

bool Stands(const reports::CellResult& result, RetryPolicy retry) {
  if (reports::IsMissing(result)) return false;
  if (reports::WasThrottled(result)) return false;  // the GPU may have cooled down
  // A segment that is not supported will not be by another training.
  const bool is_failed =
      result.state != reports::CellState::kCompleted || reports::FailedSegment(result) != nullptr;
  return retry == RetryPolicy::kNone || (retry == RetryPolicy::kFailed && !is_failed);
}

}  // namespace mixerbench::harness
