// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/linear_attention/delta_rule/delta_rule_layout.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::delta_rule {
namespace {

// Heads that each kind of kernel is for.
const SizeRange kKeyDims = {.values = {16, 32, 64, 128}};
const SizeRange kValueDims = {.values = {16, 32}, .multiple_of = kMaxScanColumns};
const SizeRange kWideKeyDims = {.values = {64, 128}};
const SizeRange kWideValueDims = {.multiple_of = kMaxScanColumns};
const SizeRange kFusedKeyDims = {.values = {64}};
const SizeRange kFusedValueDims = {.multiple_of = kMaxScanColumns, .max = 128};

constexpr std::string_view kWideName = "chunk_scan_wgmma";

constexpr std::int64_t ElementSize(device::OperandPrecision precision) {
  return precision == device::OperandPrecision::kBf16 ? 2 : 4;
}

// What the plan of four kernels needs at least.
std::int64_t SharedMemoryBytes(const DeltaRuleSizes& sizes) {
  const std::int64_t element_size = ElementSize(sizes.precision);
  const std::int64_t chunk_size = ChunkSize(sizes.precision);
  return std::max(ScanBytes(element_size, chunk_size, sizes.head_k_dim),
                  GradientBaseBytes(element_size, chunk_size, sizes.head_k_dim) +
                      GradientStageBytes(element_size, chunk_size, sizes.head_k_dim));
}

bool SupportsWgmma(const DeltaRuleSizes& sizes, const device::DeviceLimits& limits) {
  return limits.has_warpgroups && limits.shared_memory_bytes >= kFusedBytes &&
         sizes.precision == device::OperandPrecision::kBf16 &&
         kWideKeyDims.Contains(sizes.head_k_dim) && kWideValueDims.Contains(sizes.head_v_dim);
}

// One CTA scans a whole sequence, so there must be enough of them; the kernels count
// tokens and sequences in 32 bits.
bool SupportsFused(const DeltaRuleSizes& sizes, const device::DeviceLimits& limits) {
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  return SupportsWgmma(sizes, limits) && kFusedKeyDims.Contains(sizes.head_k_dim) &&
         kFusedValueDims.Contains(sizes.head_v_dim) &&
         num_sequences >= limits.num_multiprocessors &&
         num_sequences * NumChunks(sizes) < std::numeric_limits<std::int32_t>::max() / 64;
}

}  // namespace

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = {
      {.name = std::string(kFusedPlan),
       .dtypes = {"bf16"},
       .head_k_dim = kFusedKeyDims,
       .head_v_dim = kFusedValueDims,
       .needs_sm90 = true,
       .when = "batch_size num_heads >= multiprocessors"},
      {.name = std::string(kWideName),
       .dtypes = {"bf16"},
       .head_k_dim = kWideKeyDims,
       .head_v_dim = kWideValueDims,
       .needs_sm90 = true},
      {.name = std::string(kChunkScanPlan),
       .dtypes = {"bf16", "tf32", "fp32"},
       .head_k_dim = kKeyDims,
       .head_v_dim = kValueDims,
       .when = "the tiles of a chunk fit the shared memory of a CTA"}};
  return plans;
}

std::string_view NameOf(const DeltaRulePlan& plan) {
  if (plan.fused_multiprocessors > 0) return kFusedPlan;
  return plan.uses_wgmma ? kWideName : kChunkScanPlan;
}

std::string PlanRefusal(const DeltaRuleSizes& sizes, const device::DeviceLimits& limits) {
  std::string reason =
      Refusal(DevicePlans(), NameOf(sizes.precision), sizes.head_k_dim, sizes.head_v_dim);
  if (!reason.empty()) return reason;
  const std::int64_t bytes = SharedMemoryBytes(sizes);
  if (bytes <= limits.shared_memory_bytes) return {};
  return "needs " + std::to_string(bytes) + " bytes of shared memory a CTA, the GPU has " +
         std::to_string(limits.shared_memory_bytes);
}

std::optional<DeltaRulePlan> PlanDeltaRule(const DeltaRuleSizes& sizes,
                                           const device::DeviceLimits& limits) {
  if (!PlanRefusal(sizes, limits).empty()) return std::nullopt;
  const std::int64_t element_size = ElementSize(sizes.precision);
  const std::int64_t chunk_size = ChunkSize(sizes.precision);
  const auto fits = [&](std::int64_t bytes) { return bytes <= limits.shared_memory_bytes; };
  const std::int64_t gradient_stage =
      GradientStageBytes(element_size, chunk_size, sizes.head_k_dim);
  const std::int64_t gradient_base = GradientBaseBytes(element_size, chunk_size, sizes.head_k_dim);
  DeltaRulePlan plan;
  // Two blocks on a multiprocessor hide the wait for tiles better than two stages of one.
  const bool has_next_stage = sizes.head_v_dim > chunk_size;
  const bool two_blocks_fit = fits(2 * (gradient_base + gradient_stage));
  plan.gradient_stages =
      has_next_stage && !two_blocks_fit && fits(gradient_base + 2 * gradient_stage) ? 2 : 1;
  plan.scan_columns = static_cast<int>(std::min<std::int64_t>(kMaxScanColumns, sizes.head_v_dim));
  const auto num_scans = [&] {
    return sizes.batch_size * sizes.num_heads * sizes.head_v_dim / plan.scan_columns;
  };
  while (plan.scan_columns > 16 && 2 * num_scans() <= limits.num_multiprocessors) {
    plan.scan_columns /= 2;
  }
  plan.uses_wgmma = SupportsWgmma(sizes, limits);
  if (SupportsFused(sizes, limits)) plan.fused_multiprocessors = limits.num_multiprocessors;
  return plan;
}

}  // namespace mixerbench::kernels::delta_rule
