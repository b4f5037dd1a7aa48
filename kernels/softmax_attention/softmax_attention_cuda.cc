// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/softmax_attention_cuda.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/cuda/host.h"
#include "kernels/softmax_attention/softmax_attention_kernels.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

using cuda::AsSequence;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kCore[] = "softmax_attention";

at::Tensor EmptyDense(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

at::Tensor EmptyStatistics(const at::Tensor& q) {
  return at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
}

AttentionProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& o, const at::Tensor& log_denominators,
                             double scale) {
  return {.batch_size = q.size(0),
          .seq_len = q.size(1),
          .num_heads = q.size(2),
          .head_dim = q.size(3),
          .scale = static_cast<float>(scale),
          .q = AsSequence(q),
          .k = AsSequence(k),
          .v = AsSequence(v),
          .o = AsSequence(o),
          .log_denominators = log_denominators.data_ptr<float>()};
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // Tensors with aligned rows.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double scale) {
    const c10::DeviceGuard guard(q.device());
    const auto o = EmptyDense(v);
    const auto log_denominators = EmptyStatistics(q);
    const auto problem = MakeProblem(q, k, v, o, log_denominators, scale);
    cuda::CheckLaunch(AttentionForward(problem, cuda::CurrentStream(q)), kCore);
    context->save_for_backward({q, k, v, o, log_denominators});
    context->saved_data["scale"] = scale;
    return o;
  }

  static variable_list backward(AutogradContext* context, variable_list d_outputs) {
    Require(!at::GradMode::is_enabled(), "the device code has no second derivatives");
    const auto saved = context->get_saved_variables();
    const auto& q = saved[0];
    const c10::DeviceGuard guard(q.device());
    const auto d_o = cuda::WithAlignedRows(d_outputs[0]);
    auto d_q = EmptyDense(q);
    auto d_k = EmptyDense(q);
    auto d_v = EmptyDense(q);
    const auto o_products = EmptyStatistics(q);
    auto problem = MakeProblem(q, saved[1], saved[2], saved[3], saved[4],
                               context->saved_data["scale"].toDouble());
    problem.d_o = AsSequence(d_o);
    problem.d_q = AsSequence(d_q);
    problem.d_k = AsSequence(d_k);
    problem.d_v = AsSequence(d_v);
    problem.o_products = o_products.data_ptr<float>();
    cuda::CheckLaunch(AttentionBackward(problem, cuda::CurrentStream(q)), kCore);
    return {std::move(d_q), std::move(d_k), std::move(d_v), at::Tensor()};
  }
};

bool HasDeviceCode(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  const std::int64_t dim = sizes.head_k_dim;
  return args.q.is_cuda() && args.q.scalar_type() == at::kBFloat16 && args.dropout_p == 0 &&
         sizes.num_keys == sizes.num_queries && sizes.num_queries * dim <= kMaxDeviceElements &&
         dim == sizes.head_v_dim && (dim == 16 || dim == 32 || dim == 64 || dim == 128);
}

}  // namespace

std::optional<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (!HasDeviceCode(args, sizes)) return std::nullopt;
  return AttentionFunction::apply(cuda::WithAlignedRows(args.q),
                                  cuda::WithAlignedRows(RepeatHeads(args.k, sizes)),
                                  cuda::WithAlignedRows(RepeatHeads(args.v, sizes)), sizes.scale);
}

}  // namespace mixerbench::kernels::softmax_attention
