// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/softmax_attention_cuda.h"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/attention/softmax_attention/attention_problem_cuda.h"
#include "kernels/attention/softmax_attention/decay_sums.h"
#include "kernels/attention/softmax_attention/scored_positions_cuda.h"
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/device/host.h"
#include "kernels/layout/columns.h"
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

using device::AsSequence;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kCore[] = "softmax_attention";

AttentionForm FormOf(const AttentionProblem& problem) {
  return {.has_dropout = problem.dropout.threshold > 0, .has_terms = problem.has_terms()};
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // Tensors with aligned rows; those of OptionalTensors.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& log_decay,
                            const std::optional<at::Tensor>& decay_sums,
                            const std::optional<at::Tensor>& dropout_seed, const ScoreRule& rule) {
    const c10::DeviceGuard guard(q.device());
    const auto o = at::empty(v.sizes(), v.options());
    const auto log_denominators = EmptyStatistics(q);
    const at::Tensor none;
    const auto problem = MakeProblem(q, k, v, o, log_denominators, rule,
                                     dropout_seed.value_or(none), decay_sums.value_or(none));
    device::CheckLaunch(TiledForward(problem, device::CurrentStream(q)), kCore);
    context->save_for_backward({q, k, v, o, log_denominators, dropout_seed.value_or(none),
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
    // Side by side when q, k and v are: SplitColumns then need not copy them together.
    auto gradients = EmptyTogether({q, saved[1], saved[2]});
    auto problem = MakeProblem(q, saved[1], saved[2], saved[3], saved[4], SavedRule(context),
                               saved[5], saved[6]);
    problem.d_o = AsSequence(d_o);
    problem.d_q = AsSequence(gradients[0]);
    problem.d_k = AsSequence(gradients[1]);
    problem.d_v = AsSequence(gradients[2]);
    const at::Tensor& log_decay = saved[7];
    at::Tensor d_decay_sums;
    if (log_decay.defined() && context->needs_input_grad(kLogDecay)) {
      d_decay_sums = EmptyStatistics(q);
      problem.d_decay_sums = d_decay_sums.mutable_data_ptr<float>();
    }
    if (PlanAttention(problem.seq_len, problem.head_dim, FormOf(problem), device::LimitsOf(q)) ==
        AttentionPlan::kWhole) {
      device::CheckLaunch(WholeBackward(problem, device::CurrentStream(q)), kCore);
    } else {
      const auto o_products = EmptyStatistics(q);
      problem.o_products = o_products.data_ptr<float>();
      device::CheckLaunch(TiledBackward(problem, device::CurrentStream(q)), kCore);
    }
    return {std::move(gradients[0]),
            std::move(gradients[1]),
            std::move(gradients[2]),
            d_decay_sums.defined() ? LogDecayGradient(d_decay_sums, log_decay) : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

// Of attention of all queries.
std::string AttentionRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  std::string reason = DeviceCodeRefusal(args, sizes);
  if (!reason.empty()) return reason;
  return sizes.num_keys == sizes.num_queries ? "" : "there are keys before the first query";
}

}  // namespace

DeviceAttempt<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (PlainAten::IsAsked()) return {{}, std::string(kPlainAtenAsked)};
  if (args.scored != nullptr) return RunScoredPositionsOnCuda(args, sizes);
  if (std::string refusal = AttentionRefusal(args, sizes); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  const AttentionForm form = {.has_dropout = args.dropout_p > 0,
                              .has_terms = !ExtraTerm(args, sizes).empty()};
  const AttentionPlan plan =
      PlanAttention(sizes.num_keys, sizes.head_k_dim, form, device::LimitsOf(args.q));
  if (plan == AttentionPlan::kNone) return {};  // ATen's is faster
  RecordAttention(args, NameOf(AttentionPlan::kTiled), NameOf(plan));
  const OptionalTensors optional = MakeOptionalTensors(args, sizes);
  return {AttentionFunction::apply(
              device::WithAlignedRows(args.q), device::WithAlignedRows(RepeatHeads(args.k, sizes)),
              device::WithAlignedRows(RepeatHeads(args.v, sizes)), optional.log_decay,
              optional.decay_sums, optional.dropout_seed, RuleOf(args, sizes)),
          {}};
}

void FillOnCuda(const DropoutMask& mask, const at::Tensor& kept) {
  const c10::DeviceGuard guard(kept.device());
  device::CheckLaunch(FillDropoutMask(mask, device::CurrentStream(kept)), kCore);
}

}  // namespace mixerbench::kernels::softmax_attention
