// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/delta_rule/delta_rule_kernels.h"
#include "kernels/delta_rule/delta_rule_layout.h"

namespace mixerbench::kernels::delta_rule {
namespace {

bool HasDeviceCode(std::int64_t head_k_dim, std::int64_t head_v_dim) {
  const bool k_fits = head_k_dim == 16 || head_k_dim == 32 || head_k_dim == 64 || head_k_dim == 128;
  const bool v_fits = head_v_dim == 16 || head_v_dim == 32 || head_v_dim % kMaxWalkColumns == 0;
  return k_fits && v_fits;
}

bool HasWideWalks(const DeltaRuleSizes& sizes, const cuda::DeviceLimits& limits) {
  return limits.has_warpgroups && limits.shared_memory_bytes >= kFusedBytes &&
         sizes.precision == cuda::OperandPrecision::kBf16 &&
         (sizes.head_k_dim == 64 || sizes.head_k_dim == 128) &&
         sizes.head_v_dim % kMaxWalkColumns == 0;
}

// One block of threads walks a whole sequence, so there must be enough of them; the kernels count
// tokens and sequences in 32 bits.
bool CanFuse(const DeltaRuleSizes& sizes, const cuda::DeviceLimits& limits) {
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  return HasWideWalks(sizes, limits) && sizes.head_k_dim == 64 && sizes.head_v_dim <= 128 &&
         num_sequences >= limits.num_multiprocessors &&
         num_sequences * NumChunks(sizes) < std::numeric_limits<std::int32_t>::max() / 64;
}

}  // namespace

std::optional<DeltaRulePlan> PlanDeltaRule(const DeltaRuleSizes& sizes,
                                           const cuda::DeviceLimits& limits) {
  if (!HasDeviceCode(sizes.head_k_dim, sizes.head_v_dim)) return std::nullopt;
  const std::int64_t element_size = sizes.precision == cuda::OperandPrecision::kBf16 ? 2 : 4;
  const std::int64_t chunk_size = ChunkSize(sizes.precision);
  const auto fits = [&](std::int64_t bytes) { return bytes <= limits.shared_memory_bytes; };
  const std::int64_t gradient_stage =
      GradientStageBytes(element_size, chunk_size, sizes.head_k_dim);
  const std::int64_t gradient_base = GradientBaseBytes(element_size, chunk_size, sizes.head_k_dim);
  if (!fits(WalkBytes(element_size, chunk_size, sizes.head_k_dim)) ||
      !fits(gradient_base + gradient_stage)) {
    return std::nullopt;
  }

  DeltaRulePlan plan;
  // Two blocks on a multiprocessor hide the wait for tiles better than two stages of one.
  const bool has_next_stage = sizes.head_v_dim > chunk_size;
  const bool two_blocks_fit = fits(2 * (gradient_base + gradient_stage));
  plan.gradient_stages =
      has_next_stage && !two_blocks_fit && fits(gradient_base + 2 * gradient_stage) ? 2 : 1;
  plan.walk_columns = static_cast<int>(std::min<std::int64_t>(kMaxWalkColumns, sizes.head_v_dim));
  const auto num_walks = [&] {
    return sizes.batch_size * sizes.num_heads * sizes.head_v_dim / plan.walk_columns;
  };
  while (plan.walk_columns > 16 && 2 * num_walks() <= limits.num_multiprocessors) {
    plan.walk_columns /= 2;
  }
  plan.has_wide_walks = HasWideWalks(sizes, limits);
  if (CanFuse(sizes, limits)) plan.fused_multiprocessors = limits.num_multiprocessors;
  return plan;
}

}  // namespace mixerbench::kernels::delta_rule
