// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla_plan.h"

#include <limits>
#include <string>
#include <vector>

#include "kernels/linear_attention/gla/gla_kernels.h"
#include "kernels/linear_attention/gla/gla_layout.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::gla {
namespace {

// Heads that the fused plan has kernels for.
const SizeRange& FusedDims() {
  static const SizeRange dims = {.values = {16, 32, kMaxFusedValues}};
  return dims;
}

std::vector<DevicePlan> MakePlans() {
  std::vector<DevicePlan> plans = {
      {.name = std::string(kFusedPlan),
       .dtypes = {"bf16"},
       .head_k_dim = FusedDims(),
       .head_v_dim = FusedDims(),
       .when = "head_v_dim is head_k_dim or twice it, and 2 batch_size num_heads > "
               "multiprocessors"}};
  const auto& scans = decay_scan::DecayScanPlans(decay_scan::DecayAxis::kKey);
  plans.insert(plans.end(), scans.begin(), scans.end());
  return plans;
}

}  // namespace

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = MakePlans();
  return plans;
}

bool SupportsFused(const FusedProblem& sizes, const device::DeviceLimits& limits) {
  const bool has_kernels =
      FusedDims().Contains(sizes.key_dim) && FusedDims().Contains(sizes.value_dim) &&
      (sizes.value_dim == sizes.key_dim || sizes.value_dim == 2 * sizes.key_dim);
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  // Tokens and sequences are counted in 32 bits.
  if (!has_kernels || sizes.seq_len > std::numeric_limits<std::int32_t>::max() - 2 * kFusedChunk ||
      num_sequences > std::numeric_limits<std::int32_t>::max()) {
    return false;
  }
  const FusedLayout layout(static_cast<int>(sizes.key_dim), static_cast<int>(sizes.value_dim),
                           FusedPass::kBackward);
  return layout.bytes <= limits.shared_memory_bytes &&
         2 * num_sequences > limits.num_multiprocessors;
}

std::int64_t FusedStateElements(const FusedProblem& sizes) {
  return sizes.batch_size * sizes.num_heads * NumFusedChunks(sizes.seq_len) * sizes.key_dim *
         sizes.value_dim;
}

}  // namespace mixerbench::kernels::gla
