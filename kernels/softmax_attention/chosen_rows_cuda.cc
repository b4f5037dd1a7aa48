// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/chosen_rows_cuda.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/cuda/host.h"
#include "kernels/fused/columns.h"
#include "kernels/softmax_attention/attention_dropout.h"
#include "kernels/softmax_attention/chosen_rows_kernels.h"
#include "kernels/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

using cuda::AsSequence;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kCore[] = "softmax_attention of chosen rows";

ChosenRowsProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& o, const at::Tensor& log_denominators,
                              const at::Tensor& rows, double scale, double dropout_p,
                              const at::Tensor& dropout_seed) {
  ChosenRowsProblem problem;
  problem.batch_size = k.size(0);
  problem.seq_len = k.size(1);
  problem.num_heads = k.size(2);
  problem.head_dim = k.size(3);
  problem.scale = static_cast<float>(scale);
  problem.q = AsSequence(q);
  problem.k = AsSequence(k);
  problem.v = AsSequence(v);
  problem.o = AsSequence(o);
  problem.log_denominators = log_denominators.data_ptr<float>();
  problem.dropout = MakeDropoutRule(dropout_p);
  if (dropout_seed.defined()) {
    problem.dropout_seed = dropout_seed.const_data_ptr<std::int64_t>();
  }
  problem.num_queries = q.size(1);
  problem.rows = rows.const_data_ptr<std::int64_t>();
  return problem;
}

class ChosenRowsFunction : public torch::autograd::Function<ChosenRowsFunction> {
 public:
  // Tensors with aligned rows; the seed is undefined without dropout.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& rows, double scale,
                            double dropout_p, const at::Tensor& dropout_seed) {
    const c10::DeviceGuard guard(q.device());
    const auto o = at::empty(q.sizes(), q.options());
    const auto log_denominators =
        at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
    const auto problem =
        MakeProblem(q, k, v, o, log_denominators, rows, scale, dropout_p, dropout_seed);
    cuda::CheckLaunch(ChosenRowsForward(problem, cuda::CurrentStream(q)), kCore);
    context->save_for_backward({q, k, v, o, log_denominators, rows, dropout_seed});
    context->saved_data["scale"] = scale;
    context->saved_data["dropout_p"] = dropout_p;
    return o;
  }

  static variable_list backward(AutogradContext* context, variable_list d_outputs) {
    Require(!at::GradMode::is_enabled(), "the device code has no second derivatives");
    const auto saved = context->get_saved_variables();
    const auto& q = saved[0];
    const c10::DeviceGuard guard(q.device());
    const auto d_o = cuda::WithAlignedRows(d_outputs[0]);
    auto d_q = at::empty(q.sizes(), q.options());
    // Side by side when k and v are: SplitColumns then need not copy them together.
    auto gradients = fused::EmptyTogether({saved[1], saved[2]});
    auto problem = MakeProblem(q, saved[1], saved[2], saved[3], saved[4], saved[5],
                               context->saved_data["scale"].toDouble(),
                               context->saved_data["dropout_p"].toDouble(), saved[6]);
    problem.d_o = AsSequence(d_o);
    problem.d_q = AsSequence(d_q);
    problem.d_k = AsSequence(gradients[0]);
    problem.d_v = AsSequence(gradients[1]);
    cuda::CheckLaunch(ChosenRowsBackward(problem, cuda::CurrentStream(q)), kCore);
    return {std::move(d_q),
            std::move(gradients[0]),
            std::move(gradients[1]),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

bool TakesChosenRows(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  return args.q.is_cuda() && args.q.scalar_type() == at::kBFloat16 && sizes.scale > 0 &&
         sizes.head_k_dim == sizes.head_v_dim && HasDeviceCode(sizes.head_k_dim) &&
         sizes.num_queries <= MaxChosenRows(sizes.head_k_dim);
}

}  // namespace

std::optional<at::Tensor> RunChosenRowsOnCuda(const SoftmaxAttentionArgs& args,
                                              const Prepared& sizes) {
  if (!TakesChosenRows(args, sizes)) return std::nullopt;
  return ChosenRowsFunction::apply(
      cuda::WithAlignedRows(args.q), cuda::WithAlignedRows(RepeatHeads(args.k, sizes)),
      cuda::WithAlignedRows(RepeatHeads(args.v, sizes)), args.rows->rows, sizes.scale,
      args.dropout_p, args.dropout_p > 0 ? DrawDropoutSeed(args) : at::Tensor());
}

}  // namespace mixerbench::kernels::softmax_attention
