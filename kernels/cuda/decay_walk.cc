// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_walk.h"

#include <algorithm>

#include "kernels/cuda/decay_walk_layout.h"

namespace mixerbench::kernels::cuda {
namespace {

// A segment shorter than this spends its time on filling the pipeline.
constexpr std::int64_t kMinTokensPerSegment = 256;
// Blocks of threads for each multiprocessor when the sequences are cut: two hide each other's
// waits.
constexpr std::int64_t kBlocksPerMultiprocessor = 2;

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

WalkPlan PlanWalk(const WalkProblem& problem, DecayAxis axis, const DeviceLimits& limits) {
  WalkPlan plan;
  plan.value_tile =
      static_cast<int>(std::min<std::int64_t>(64, 16 * CeilDivide(problem.value_dim, 16)));

  const int element_size = problem.precision == OperandPrecision::kBf16 ? 2 : 4;
  int blocks = static_cast<int>(std::min<std::int64_t>(4, CeilDivide(problem.seq_len, 16)));
  const auto bytes = [&] {
    return kNumStages *
           StageLayout(element_size, PaddedKeys(problem.key_dim), plan.value_tile, blocks, axis)
               .bytes;
  };
  while (blocks > 1 && bytes() > limits.shared_memory_bytes) blocks = blocks > 2 ? 2 : 1;
  plan.tokens_per_stage = 16 * blocks;

  // Summing up costs about half a walk, so segments pay when they at least double the blocks.
  const std::int64_t num_blocks =
      problem.batch_size * problem.num_heads * CeilDivide(problem.value_dim, plan.value_tile);
  std::int64_t num_segments = 1;
  if (2 * num_blocks <= limits.num_multiprocessors) {
    num_segments = std::min(kBlocksPerMultiprocessor * limits.num_multiprocessors / num_blocks,
                            CeilDivide(problem.seq_len, kMinTokensPerSegment));
  }
  const std::int64_t chunks = CeilDivide(CeilDivide(problem.seq_len, num_segments), kWalkChunk);
  plan.tokens_per_segment = static_cast<int>(kWalkChunk * chunks);
  plan.num_segments = static_cast<int>(CeilDivide(problem.seq_len, plan.tokens_per_segment));
  return plan;
}

std::int64_t SavedStateElements(const WalkProblem& problem) {
  return CeilDivide(problem.seq_len, kWalkChunk) * problem.batch_size * problem.num_heads * 16 *
         CeilDivide(problem.value_dim, 16) * PaddedKeys(problem.key_dim);
}

std::int64_t SegmentStateElements(const WalkProblem& problem, const WalkPlan& plan) {
  return plan.num_segments * problem.batch_size * problem.num_heads * problem.value_dim *
         problem.key_dim;
}

std::int64_t SegmentDecayElements(const WalkProblem& problem, const WalkPlan& plan) {
  return plan.num_segments * problem.batch_size * problem.num_heads *
         std::max(problem.value_dim, problem.key_dim) * (plan.tokens_per_stage / 16);
}

}  // namespace mixerbench::kernels::cuda
