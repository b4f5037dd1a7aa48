// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/softmax_attention.h"

#include <string>
#include <string_view>
#include <utility>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/check.h"
#include "kernels/attention/softmax_attention/aten_attention.h"
#include "kernels/attention/softmax_attention/deterministic_sdpa.h"
#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/attention/softmax_attention/softmax_attention_cuda.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kAtenFusedPlan = "aten_sdpa";

// at::scaled_dot_product_attention takes no generator, aligns its causal mask with the first key,
// and on CUDA keeps the backward pass free of atomics only for half precision, when asked to.
bool CanUseFusedAttention(const SoftmaxAttentionArgs& args,
                          const softmax_attention::Prepared& sizes) {
  if (args.dropout_p > 0 || args.scored != nullptr || sizes.num_keys != sizes.num_queries ||
      !softmax_attention::ExtraTerm(args, sizes).empty()) {
    return false;
  }
  if (args.q.is_cpu()) return true;
  const bool is_half = args.q.scalar_type() == at::kBFloat16 || args.q.scalar_type() == at::kHalf;
  return is_half && at::globalContext().deterministicAlgorithms();
}

// Both plans of ATen's functions; `args` without tokens that are not finite.
at::Tensor Attend(const SoftmaxAttentionArgs& args, const softmax_attention::Prepared& sizes) {
  if (!CanUseFusedAttention(args, sizes)) return softmax_attention::AtenAttention(args, sizes);
  const auto heads = [&](const at::Tensor& x) {
    return softmax_attention::RepeatHeads(x, sizes).transpose(1, 2);
  };
  return softmax_attention::DeterministicSdpa(args.q.transpose(1, 2), heads(args.k), heads(args.v),
                                              sizes.scale)
      .transpose(1, 2);
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
  // A weight of zero hides no value that is not finite. The last token alone sees all.
  if (sizes.num_queries == 1 && args.scored == nullptr) return Attend(args, sizes);
  const NonFiniteTokens tokens({args.k, args.v});
  if (!tokens.exist()) return Attend(args, sizes);
  SoftmaxAttentionArgs finite = args;
  finite.k = tokens.Clear(args.k);
  finite.v = tokens.Clear(args.v);
  const auto mark = softmax_attention::RepeatHeads(tokens.mark().unsqueeze(-1), sizes).squeeze(-1);
  return Attend(finite, sizes) +
         softmax_attention::AtQueries(mark, args, sizes).unsqueeze(-1).to(args.v.scalar_type());
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
