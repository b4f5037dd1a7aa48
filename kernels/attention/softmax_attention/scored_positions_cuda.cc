// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/scored_positions_cuda.h"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/attention/softmax_attention/attention_problem_cuda.h"
#include "kernels/attention/softmax_attention/decay_sums.h"
#include "kernels/attention/softmax_attention/scored_positions_kernels.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/device/host.h"
#include "kernels/layout/columns.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

using device::AsSequence;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kCore[] = "softmax_attention of scored positions";

ScoredProblem ForRows(const AttentionProblem& problem, const at::Tensor& q,
                      const at::Tensor& rows) {
  return {problem, q.size(1), rows.const_data_ptr<std::int64_t>()};
}

class ScoredPositionsFunction : public torch::autograd::Function<ScoredPositionsFunction> {
 public:
  // Tensors with aligned rows; those of OptionalTensors.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& log_decay,
                            const at::Tensor& rows, const std::optional<at::Tensor>& decay_sums,
                            const std::optional<at::Tensor>& dropout_seed, const ScoreRule& rule) {
    const c10::DeviceGuard guard(q.device());
    const at::Tensor none;
    const auto o = at::empty(q.sizes(), q.options());
    const auto log_denominators = EmptyStatistics(q);
    const auto problem =
        ForRows(MakeProblem(q, k, v, o, log_denominators, rule, dropout_seed.value_or(none),
                            decay_sums.value_or(none)),
                q, rows);
    device::CheckLaunch(ScoredPositionsForward(problem, device::CurrentStream(q)), kCore);
    context->save_for_backward({q, k, v, o, log_denominators, rows, dropout_seed.value_or(none),
                                decay_sums.value_or(none), log_decay.value_or(none)});
    SaveRule(context, rule);
    return o;
  }

  static variable_list backward(AutogradContext* context, variable_list d_outputs) {
    Require(!at::GradMode::is_enabled(), "the device code has no second derivatives");
    const auto saved = context->get_saved_variables();
    const auto& q = saved[0];
    const c10::DeviceGuard guard(q.device());
    const auto d_o = device::WithAlignedRows(d_outputs[0]);
    auto d_q = at::empty(q.sizes(), q.options());
    // Side by side when k and v are: SplitColumns then need not copy them together.
    auto gradients = EmptyTogether({saved[1], saved[2]});
    auto problem = ForRows(MakeProblem(q, saved[1], saved[2], saved[3], saved[4],
                                       SavedRule(context), saved[6], saved[7]),
                           q, saved[5]);
    problem.d_o = AsSequence(d_o);
    problem.d_q = AsSequence(d_q);
    problem.d_k = AsSequence(gradients[0]);
    problem.d_v = AsSequence(gradients[1]);
    const at::Tensor& log_decay = saved[8];
    at::Tensor d_decay_sums;
    if (log_decay.defined() && context->needs_input_grad(kLogDecay)) {
      d_decay_sums = EmptyStatistics(saved[1]);
      problem.d_decay_sums = d_decay_sums.mutable_data_ptr<float>();
    }
    device::CheckLaunch(ScoredPositionsBackward(problem, device::CurrentStream(q)), kCore);
    return {std::move(d_q),
            std::move(gradients[0]),
            std::move(gradients[1]),
            d_decay_sums.defined() ? LogDecayGradient(d_decay_sums, log_decay) : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

std::string ScoredPositionsRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  std::string reason = DeviceCodeRefusal(args, sizes);
  const std::int64_t most = MaxScoredPositions(sizes.head_k_dim);
  if (!reason.empty() || sizes.num_queries <= most) return reason;
  return std::to_string(sizes.num_queries) + " scored positions are above " + std::to_string(most);
}

}  // namespace

DeviceAttempt<at::Tensor> RunScoredPositionsOnCuda(const SoftmaxAttentionArgs& args,
                                                   const Prepared& sizes) {
  if (std::string refusal = ScoredPositionsRefusal(args, sizes); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  RecordAttention(args, kScoredPlan, kScoredPlan);
  const OptionalTensors optional = MakeOptionalTensors(args, sizes);
  return {
      ScoredPositionsFunction::apply(
          device::WithAlignedRows(args.q), device::WithAlignedRows(RepeatHeads(args.k, sizes)),
          device::WithAlignedRows(RepeatHeads(args.v, sizes)), optional.log_decay,
          args.scored->positions, optional.decay_sums, optional.dropout_seed, RuleOf(args, sizes)),
      {}};
}

}  // namespace mixerbench::kernels::softmax_attention
