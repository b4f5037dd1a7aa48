// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_scan.h"

#include <algorithm>

#include "kernels/linear_attention/scan/decay_scan_layout.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/linear_attention/scan/wgmma_scan_layout.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::decay_scan {
namespace {

// A segment shorter than this spends its time on filling the pipeline.
constexpr std::int64_t kMinTokensPerSegment = 256;
constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kMaxHeadDim = 128;
// The driver's share of the shared memory of every CTA.
constexpr int kReservedBytes = 1024;

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// CTAs stay on their multiprocessor and have all of its memory.
void PlanChunks(ScanPlan& plan, const ScanProblem& problem, int keys, const DeviceLimits& limits) {
  plan.uses_wgmma = true;
  plan.max_blocks = limits.num_multiprocessors;
  plan.value_tile = 64;
  plan.num_producers = 1;  // the consumer leaves one sum of log decays a segment
  plan.num_slots = 6;
  while (WgmmaScanLayout(keys, plan.num_slots, problem.factor.data != nullptr).bytes >
         limits.shared_memory_bytes) {
    --plan.num_slots;
  }
  // Copies may start when the scan over the chunk before the last one has ended.
  plan.lookahead = std::max(1, (plan.num_slots - 2) / kWgmmaScanProducers);
}

// Channels of a head by scans of warpgroups: tiles of 64 are worth their products when they are
// more than half full.
const SizeRange& WarpgroupDims() {
  static const SizeRange dims = {.multiple_of = 8, .min = 33, .max = kMaxHeadDim};
  return dims;
}

// The two plans of one kind of scan.
void AddPlans(const std::string& suffix, const std::vector<std::string>& dtypes,
              const SizeRange& dims, bool needs_sm90, std::vector<DevicePlan>& plans) {
  DevicePlan plan = {.name = std::string(kChunkParallelPlan) + suffix,
                     .dtypes = dtypes,
                     .head_k_dim = dims,
                     .head_v_dim = dims,
                     .needs_sm90 = needs_sm90,
                     .when =
                         "tiles of 64 channels of all heads are at most half as many as "
                         "multiprocessors, and seq_len > 256"};
  plans.push_back(plan);
  plan.name = std::string(kChunkScanPlan) + suffix;
  plan.when = "";
  plans.push_back(plan);
}

std::vector<DevicePlan> MakePlans(DecayAxis axis) {
  std::vector<DevicePlan> plans;
  if (axis == DecayAxis::kNone) AddPlans("_wgmma", {"bf16"}, WarpgroupDims(), true, plans);
  AddPlans("", {"bf16"}, {.multiple_of = 8, .max = kMaxHeadDim}, false, plans);
  AddPlans("", {"tf32", "fp32"}, {.multiple_of = 4, .max = kMaxHeadDim}, false, plans);
  return plans;
}

}  // namespace

const std::vector<DevicePlan>& DecayScanPlans(DecayAxis axis) {
  static const std::vector<DevicePlan> scalar = MakePlans(DecayAxis::kNone);
  static const std::vector<DevicePlan> vector = MakePlans(DecayAxis::kKey);
  return axis == DecayAxis::kNone ? scalar : vector;
}

std::string_view NameOf(const ScanPlan& plan) {
  if (plan.num_segments > 1) return plan.uses_wgmma ? "chunk_parallel_wgmma" : kChunkParallelPlan;
  return plan.uses_wgmma ? "chunk_scan_wgmma" : kChunkScanPlan;
}

bool SupportsWgmma(const ScanProblem& problem, DecayAxis axis, const DeviceLimits& limits) {
  return limits.has_warpgroups && axis == DecayAxis::kNone &&
         problem.precision == OperandPrecision::kBf16 &&
         WarpgroupDims().Contains(problem.key_dim) && WarpgroupDims().Contains(problem.value_dim);
}

ScanPlan PlanScan(const ScanProblem& problem, DecayAxis axis, const DeviceLimits& limits) {
  ScanPlan plan;
  plan.value_tile =
      static_cast<int>(std::min<std::int64_t>(64, 16 * CeilDivide(problem.value_dim, 16)));

  // Consumers of 128 key channels need more than half of the registers.
  const int keys = PaddedKeys(problem.key_dim);
  const int blocks_per_multiprocessor = keys == 128 ? 1 : 2;

  const std::int64_t num_tiles =
      problem.batch_size * problem.num_heads * CeilDivide(problem.value_dim, plan.value_tile);
  const std::int64_t num_resident =
      static_cast<std::int64_t>(blocks_per_multiprocessor) * limits.num_multiprocessors;
  std::int64_t num_segments = 1;
  // Summing up costs about half a scan and two launches: it pays when half of the multiprocessors
  // would have nothing to do.
  if (2 * num_tiles <= limits.num_multiprocessors) {
    num_segments =
        std::min(num_resident / num_tiles, CeilDivide(problem.seq_len, kMinTokensPerSegment));
  }
  const std::int64_t chunks = CeilDivide(CeilDivide(problem.seq_len, num_segments), kScanChunk);
  plan.tokens_per_segment = static_cast<int>(kScanChunk * chunks);
  plan.num_segments = static_cast<int>(CeilDivide(problem.seq_len, plan.tokens_per_segment));

  const int element_size = problem.precision == OperandPrecision::kBf16 ? 2 : 4;
  const int budget = blocks_per_multiprocessor == 1
                         ? limits.shared_memory_bytes
                         : (limits.shared_memory_bytes - kReservedBytes) / 2;
  if (SupportsWgmma(problem, axis, limits)) {
    PlanChunks(plan, problem, keys, limits);
    return plan;
  }
  const int num_blocks = static_cast<int>(
      CeilDivide(std::min<std::int64_t>(problem.seq_len, plan.tokens_per_segment), kBlockTokens));
  const auto fits = [&] {
    // Besides the blocks on their way, one in the hands of every producer and of the consumers.
    plan.num_slots = std::min((plan.lookahead + 1) * plan.num_producers + 1, num_blocks);
    return ScanLayout(element_size, keys, plan.value_tile, axis, plan.num_slots,
                      plan.lookahead * plan.num_producers)
               .bytes <= budget;
  };
  for (plan.num_producers = std::min(4, num_blocks);; plan.num_producers /= 2) {
    for (plan.lookahead = 3; plan.lookahead > 1 && !fits(); --plan.lookahead) {
    }
    if (fits() || plan.num_producers == 1) return plan;
  }
}

std::int64_t SavedStateElements(const ScanProblem& problem, DecayAxis axis) {
  return CeilDivide(problem.seq_len, SavedChunk(axis)) * problem.batch_size * problem.num_heads *
         16 * CeilDivide(problem.value_dim, 16) * PaddedKeys(problem.key_dim);
}

int NumProductSums(std::int64_t value_dim) { return static_cast<int>(CeilDivide(value_dim, 16)); }

std::int64_t TokenProductElements(const ScanProblem& problem) {
  return CeilDivide(problem.seq_len, kBlockTokens) * kBlockTokens * problem.batch_size *
         problem.num_heads * NumProductSums(problem.value_dim);
}

std::int64_t SegmentStateElements(const ScanProblem& problem, const ScanPlan& plan) {
  return plan.num_segments * problem.batch_size * problem.num_heads * problem.value_dim *
         problem.key_dim;
}

std::int64_t SegmentDecayElements(const ScanProblem& problem, const ScanPlan& plan) {
  return plan.num_segments * problem.batch_size * problem.num_heads *
         std::max(problem.value_dim, problem.key_dim) * plan.num_producers;
}

}  // namespace mixerbench::kernels::decay_scan
