// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/attention_problem_cuda.h"

#include <algorithm>
#include <cstdint>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/decay_sums.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/device/host.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// AttentionProblem::decay_sums of a log decay and slopes, either of which may be undefined: a slope
// is a log decay that is the same at all tokens.
at::Tensor DecaySumsInBaseTwo(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  at::Tensor sums;
  if (args.log_decay.defined()) {
    sums = SumLogDecay(args.log_decay.detach());
  } else {
    sums = at::zeros({sizes.batch_size, sizes.num_heads, sizes.num_keys},
                     args.q.options().dtype(at::kDouble).requires_grad(false));
  }
  if (args.slopes.defined()) {
    const auto tokens = at::arange(sizes.num_keys, sums.options());
    sums = sums - args.slopes.detach().to(at::kDouble).unsqueeze(-1) * tokens;
  }
  const auto [coarse, fine] = Split(sums * std::numbers::log2e, at::kFloat);
  return at::stack({coarse, fine}, -1);
}

}  // namespace

at::Tensor EmptyStatistics(const at::Tensor& q) {
  return at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
}

ScoreRule RuleOf(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  return {.scale = sizes.scale, .dropout_p = args.dropout_p, .window = args.window};
}

void SaveRule(torch::autograd::AutogradContext* context, const ScoreRule& rule) {
  context->saved_data["scale"] = rule.scale;
  context->saved_data["dropout_p"] = rule.dropout_p;
  context->saved_data["window"] = rule.window;
}

ScoreRule SavedRule(const torch::autograd::AutogradContext* context) {
  const auto& saved = context->saved_data;
  return {.scale = saved.at("scale").toDouble(),
          .dropout_p = saved.at("dropout_p").toDouble(),
          .window = saved.at("window").toInt()};
}

AttentionProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& o, const at::Tensor& log_denominators,
                             const ScoreRule& rule, const at::Tensor& dropout_seed,
                             const at::Tensor& decay_sums) {
  AttentionProblem problem;
  problem.batch_size = k.size(0);
  problem.seq_len = k.size(1);
  problem.num_heads = k.size(2);
  problem.head_dim = k.size(3);
  problem.scale = static_cast<float>(rule.scale);
  problem.q = device::AsSequence(q);
  problem.k = device::AsSequence(k);
  problem.v = device::AsSequence(v);
  problem.o = device::AsSequence(o);
  problem.log_denominators = log_denominators.data_ptr<float>();
  problem.dropout = MakeDropoutRule(rule.dropout_p);
  if (dropout_seed.defined()) problem.dropout_seed = dropout_seed.const_data_ptr<std::int64_t>();
  problem.window =
      static_cast<int>(rule.window > 0 ? std::min(rule.window, problem.seq_len) : problem.seq_len);
  if (decay_sums.defined()) problem.decay_sums = decay_sums.const_data_ptr<float>();
  return problem;
}

std::string DeviceCodeRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  std::string reason = device::DeviceRefusal(args.q);
  if (!reason.empty()) return reason;
  if (args.sinks.defined()) return "no device code for attention with sinks";
  reason = Refusal(DevicePlans(), device::NameOf(*device::PrecisionFor(args.q.scalar_type())),
                   sizes.head_k_dim, sizes.head_v_dim);
  if (!reason.empty()) return reason;
  if (sizes.scale <= 0) return "the scale is not positive";
  if (sizes.head_k_dim == sizes.head_v_dim) return {};
  return "head_v_dim " + std::to_string(sizes.head_v_dim) + " is not head_k_dim " +
         std::to_string(sizes.head_k_dim);
}

OptionalTensors MakeOptionalTensors(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  OptionalTensors found;
  if (args.dropout_p > 0) found.dropout_seed = DrawDropoutSeed(args);
  if (args.log_decay.defined()) found.log_decay = args.log_decay;
  if (args.log_decay.defined() || args.slopes.defined()) {
    found.decay_sums = DecaySumsInBaseTwo(args, sizes);
  }
  return found;
}

}  // namespace mixerbench::kernels::softmax_attention
