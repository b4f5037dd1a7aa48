// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/softmax_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include "base/check.h"
#include "kernels/named_tensors.h"
#include "kernels/non_finite.h"
#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/softmax_attention/deterministic_sdpa.h"
#include "kernels/softmax_attention/prepare.h"
#include "kernels/softmax_attention/softmax_attention_cuda.h"
#include "kernels/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kAtenFusedPlan = "aten_sdpa";

// at::scaled_dot_product_attention takes no generator, aligns its causal mask with the first key,
// and on CUDA keeps the backward pass free of atomics only for half precision, when asked to.
bool CanUseFusedAttention(const SoftmaxAttentionArgs& args,
                          const softmax_attention::Prepared& sizes) {
  if (args.dropout_p > 0 || args.rows != nullptr || sizes.num_keys != sizes.num_queries) {
    return false;
  }
  if (args.q.is_cpu()) return true;
  const bool is_half = args.q.scalar_type() == at::kBFloat16 || args.q.scalar_type() == at::kHalf;
  return is_half && at::globalContext().deterministicAlgorithms();
}

// Scores that are held at once, unless those of one query of each head are more: 64 MiB in fp32.
constexpr std::int64_t kMaxScores = std::int64_t{1} << 24;

// Queries whose scores are formed together. Dropout is drawn for all of them at once; it belongs to
// training, where the backward pass needs every weight anyway.
std::int64_t QueriesPerTile(const SoftmaxAttentionArgs& args,
                            const softmax_attention::Prepared& sizes) {
  if (args.dropout_p > 0) return sizes.num_queries;
  const std::int64_t scores_per_query = sizes.batch_size * sizes.num_heads * sizes.num_keys;
  return std::clamp<std::int64_t>(kMaxScores / scores_per_query, 1, sizes.num_queries);
}

// q [B,H,T,K], k [B,H,S,K], v [B,H,S,V], tile by tile of the queries.
at::Tensor MaskedAttention(const SoftmaxAttentionArgs& args,
                           const softmax_attention::Prepared& sizes, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v) {
  const auto scaled_q = q.to(sizes.compute_dtype) * sizes.scale;
  const auto keys = k.to(sizes.compute_dtype);
  const auto values = v.to(sizes.compute_dtype);
  const auto dropout = softmax_attention::DropoutFactors(args, sizes);
  at::Tensor after_rows;  // [B,1,R,S]
  if (args.rows != nullptr) after_rows = softmax_attention::KeysAfterRows(args, sizes);
  const std::int64_t per_tile = QueriesPerTile(args, sizes);
  std::vector<at::Tensor> tiles;
  for (std::int64_t first = 0; first < sizes.num_queries; first += per_tile) {
    const std::int64_t count = std::min(per_tile, sizes.num_queries - first);
    // Keys that the tile's last query sees; of chosen queries any may be the last token.
    const std::int64_t num_visible =
        args.rows != nullptr ? sizes.num_keys : sizes.num_keys - sizes.num_queries + first + count;
    const auto hidden = args.rows != nullptr
                            ? after_rows.narrow(2, first, count)
                            : at::ones({count, num_visible}, q.options().dtype(at::kBool))
                                  .triu(num_visible - count + 1);
    auto scores = at::matmul(scaled_q.narrow(2, first, count), keys.narrow(2, 0, num_visible).mT());
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    auto weights = at::softmax(scores, -1);  // [B,H,T,S]
    if (dropout.defined()) weights = weights * dropout;
    tiles.push_back(at::matmul(weights, values.narrow(2, 0, num_visible)).to(v.scalar_type()));
  }
  return tiles.size() == 1 ? tiles.front() : at::cat(tiles, 2);
}

// q [B,T,H,K], k [B,S,H,K], v [B,S,H,V] -> [B,T,H,V].
at::Tensor Attend(const SoftmaxAttentionArgs& args, const softmax_attention::Prepared& sizes,
                  const at::Tensor& all_k, const at::Tensor& all_v) {
  const auto q = args.q.transpose(1, 2);
  const auto k = all_k.transpose(1, 2);
  const auto v = all_v.transpose(1, 2);
  if (!CanUseFusedAttention(args, sizes)) {
    return MaskedAttention(args, sizes, q, k, v).transpose(1, 2);
  }
  return softmax_attention::DeterministicSdpa(q, k, v, sizes.scale).transpose(1, 2);
}

// `x` [B,T,H,D] after the cached tokens [B,S,H,D], if any.
at::Tensor Append(const at::Tensor& cached, const at::Tensor& x, std::string_view name) {
  if (!cached.defined()) return x;
  Require(cached.dim() == 4, std::string(name) + " must be [B,S,H,D]");
  RequireShape(cached, {x.size(0), cached.size(1), x.size(2), x.size(3)}, name);
  Require(cached.scalar_type() == x.scalar_type(),
          std::string(name) + " must have the dtype of k and v");
  return at::cat({cached, x}, 1);
}

NamedTensors Run(const NamedTensors& inputs, const CoreOptions& options) {
  SoftmaxAttentionArgs args{.q = FindTensor(inputs, "q"),
                            .k = FindTensor(inputs, "k"),
                            .v = FindTensor(inputs, "v"),
                            .scale = options.scale};
  softmax_attention::Prepare(args);
  args.k = Append(FindTensor(inputs, "initial_k"), args.k, "initial_k");
  args.v = Append(FindTensor(inputs, "initial_v"), args.v, "initial_v");
  return {{"o", SoftmaxAttention(args, options.path)}, {"final_k", args.k}, {"final_v", args.v}};
}

}  // namespace

at::Tensor ParallelSoftmaxAttention(const SoftmaxAttentionArgs& args) {
  const auto sizes = softmax_attention::Prepare(args);
  auto on_device = softmax_attention::RunOnCuda(args, sizes);
  if (on_device.result) return *std::move(on_device.result);
  const std::string_view plan = CanUseFusedAttention(args, sizes) ? kAtenFusedPlan : kAtenPlan;
  softmax_attention::RecordAttention(args, plan, plan, on_device.refusal);
  const auto k = softmax_attention::RepeatHeads(args.k, sizes);  // [B,S,H,K]
  const auto v = softmax_attention::RepeatHeads(args.v, sizes);  // [B,S,H,V]
  // A weight of zero hides no value that is not finite. The last token alone sees all.
  if (sizes.num_queries == 1 && args.rows == nullptr) return Attend(args, sizes, k, v);
  const NonFiniteTokens tokens({k, v});
  if (!tokens.exist()) return Attend(args, sizes, k, v);
  const auto o = Attend(args, sizes, tokens.Clear(k), tokens.Clear(v));
  const auto mark = softmax_attention::AtQueries(tokens.mark(), args, sizes);
  return o + mark.unsqueeze(-1).to(o.scalar_type());
}

at::Tensor SoftmaxAttention(const SoftmaxAttentionArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kFast) return ParallelSoftmaxAttention(args);
  softmax_attention::RecordAttention(args, kReferencePlan, kReferencePlan, kReferenceAsked);
  return ReferenceSoftmaxAttention(args);
}

namespace softmax_attention {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "causal softmax attention over a growing cache";
  entry.source = "arXiv 1706.03762";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      {.name = "initial_k",
       .shape = "B S H K",
       .kind = InputKind::kState,
       .required = false,
       .help = "keys of the S tokens before; none: S = 0"},
      {.name = "initial_v",
       .shape = "B S H V",
       .kind = InputKind::kState,
       .required = false,
       .help = "values of the S tokens before"},
  };
  entry.outputs = {
      {.name = "o", .shape = "B T H V", .help = "what each query reads"},
      {.name = "final_k", .shape = "B S H K", .kind = InputKind::kState, .help = "all keys"},
      {.name = "final_v", .shape = "B S H V", .kind = InputKind::kState, .help = "all values"},
  };
  entry.state_pairs = {{"final_k", "initial_k"}, {"final_v", "initial_v"}};
  entry.device_plans = DevicePlans();
  entry.run = Run;
  registry.Add("softmax_attention", std::move(entry));
}

}  // namespace softmax_attention
}  // namespace mixerbench::kernels
