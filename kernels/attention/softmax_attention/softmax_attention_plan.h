// Which device code of softmax attention serves a problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/sequence.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::softmax_attention {

enum class AttentionPlan {
  kNone,   // no device code, or slower than ATen's
  kTiled,  // a CTA for 64 queries or keys of one (b, h), forward and backward
  kWhole,  // backward a CTA for all tokens of one (b, h)
};

// What ATen's attention cannot do: it takes no generator, and its kernels with a mask of scores
// hold all of them in memory.
struct AttentionForm {
  bool has_dropout = false;
  bool has_terms = false;  // a log decay, slopes or a window
};

// For bf16, `seq_len` >= 1 queries and as many keys, keys and values of `head_dim` channels.
AttentionPlan PlanAttention(std::int64_t seq_len, std::int64_t head_dim, const AttentionForm& form,
                            const device::DeviceLimits& limits);

// The name of the backward pass of a plan; forward all are "tiled".
std::string_view NameOf(AttentionPlan plan);

// All plans of the core, and the sizes that they take.
const std::vector<DevicePlan>& DevicePlans();

// Whether there is device code for heads of `head_dim` channels.
bool HasDeviceCode(std::int64_t head_dim);

// Most queries a sequence that the kernels of scored positions take, whatever the number of keys:
// dQ of all of them lies in the registers of one CTA.
constexpr std::int64_t MaxScoredPositions(std::int64_t head_dim) {
  return head_dim <= 64 ? 128 : 64;
}

// Whether attention for `num_queries` chosen tokens of each sequence alone (SoftmaxAttentionArgs)
// shall be taken, rather than for all `seq_len` tokens of which most results are dropped.
bool SupportsScoredPositions(std::int64_t num_queries, std::int64_t seq_len, std::int64_t head_dim);

// Shared memory of the whole backward kernel for `num_tokens` (64, 128 or 256), in bytes: q, k, v
// and dO in bf16, rows padded by 16 bytes, dl of the tiles of 64 tokens that see each other, lse
// and delta, a barrier for each tile.
constexpr std::int64_t WholeBackwardBytes(std::int64_t num_tokens, std::int64_t head_dim) {
  const std::int64_t num_tiles = num_tokens / 64;
  return 4 * num_tokens * (head_dim + 8) * 2 + num_tiles * (num_tiles + 1) / 2 * 64 * 64 * 2 +
         2 * num_tokens * 4 + num_tiles * 8;
}

}  // namespace mixerbench::kernels::softmax_attention
