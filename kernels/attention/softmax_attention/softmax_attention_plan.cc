// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"

#include "base/check.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// T K up to which the tiled kernels beat ATen's: the table in softmax_attention.md.
constexpr std::int64_t kMaxElements = 512 * 64;

constexpr std::int64_t kMaxWholeTokens = 256;
// T K of the sums of dK and dV, which lie in the registers of one CTA.
constexpr std::int64_t kMaxWholeElements = 256 * 64;

// Queries beyond this share of the tokens are served as well by the kernels of all queries, which
// need no gather before them.
constexpr std::int64_t kScoredShare = 4;

std::int64_t WholeTokens(std::int64_t seq_len) {
  if (seq_len <= 64) return 64;
  return seq_len <= 128 ? 128 : kMaxWholeTokens;
}

// Channels of a head.
const SizeRange kHeadDims = {.values = {16, 32, 64, 128}};

constexpr std::string_view kTiledName = "tiled";
constexpr std::string_view kWholeName = "whole";

}  // namespace

bool HasDeviceCode(std::int64_t head_dim) { return kHeadDims.Contains(head_dim); }

std::string_view NameOf(AttentionPlan plan) {
  Require(plan != AttentionPlan::kNone, "ATen's attention is no plan of this project");
  return plan == AttentionPlan::kWhole ? kWholeName : kTiledName;
}

const std::vector<DevicePlan>& DevicePlans() {
  static const std::string shape = "head_k_dim is head_v_dim, as many keys as queries";
  static const std::vector<DevicePlan> plans = {
      {.name = std::string(kScoredPlan),
       .dtypes = {"bf16"},
       .head_k_dim = kHeadDims,
       .head_v_dim = kHeadDims,
       .when = "head_k_dim is head_v_dim; at most a quarter of the tokens and " +
               std::to_string(MaxScoredPositions(64)) + " are scored, " +
               std::to_string(MaxScoredPositions(128)) + " with head_k_dim 128"},
      {.name = std::string(kWholeName),
       .dtypes = {"bf16"},
       .head_k_dim = kHeadDims,
       .head_v_dim = kHeadDims,
       .seq_len = {.multiple_of = 1, .max = kMaxWholeTokens},
       .when = shape + "; seq_len head_k_dim <= " + std::to_string(kMaxWholeElements) +
               "; no log decay, slopes or window; the backward pass alone, the forward pass is "
               "tiled"},
      {.name = std::string(kTiledName),
       .dtypes = {"bf16"},
       .head_k_dim = kHeadDims,
       .head_v_dim = kHeadDims,
       .when = shape + "; with dropout, a log decay, slopes, a window or seq_len head_k_dim <= " +
               std::to_string(kMaxElements)}};
  return plans;
}

AttentionPlan PlanAttention(std::int64_t seq_len, std::int64_t head_dim, const AttentionForm& form,
                            const device::DeviceLimits& limits) {
  if (!HasDeviceCode(head_dim)) return AttentionPlan::kNone;
  if (form.has_terms) return AttentionPlan::kTiled;
  if (!form.has_dropout && seq_len * head_dim > kMaxElements) return AttentionPlan::kNone;
  const std::int64_t num_tokens = WholeTokens(seq_len);
  const bool fits = seq_len <= kMaxWholeTokens && num_tokens * head_dim <= kMaxWholeElements &&
                    WholeBackwardBytes(num_tokens, head_dim) <= limits.shared_memory_bytes;
  return fits ? AttentionPlan::kWhole : AttentionPlan::kTiled;
}

bool SupportsScoredPositions(std::int64_t num_queries, std::int64_t seq_len,
                             std::int64_t head_dim) {
  return num_queries > 0 && num_queries * kScoredShare <= seq_len &&
         num_queries <= MaxScoredPositions(head_dim);
}

}  // namespace mixerbench::kernels::softmax_attention
