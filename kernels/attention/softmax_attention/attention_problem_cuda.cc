// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/attention_problem_cuda.h"

#include <cstdint>

#include <ATen/ops/empty.h>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/device/host.h"

namespace mixerbench::kernels::softmax_attention {

at::Tensor EmptyStatistics(const at::Tensor& q) {
  return at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
}

AttentionProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& o, const at::Tensor& log_denominators, double scale,
                             double dropout_p, const at::Tensor& dropout_seed) {
  AttentionProblem problem;
  problem.batch_size = k.size(0);
  problem.seq_len = k.size(1);
  problem.num_heads = k.size(2);
  problem.head_dim = k.size(3);
  problem.scale = static_cast<float>(scale);
  problem.q = device::AsSequence(q);
  problem.k = device::AsSequence(k);
  problem.v = device::AsSequence(v);
  problem.o = device::AsSequence(o);
  problem.log_denominators = log_denominators.data_ptr<float>();
  problem.dropout = MakeDropoutRule(dropout_p);
  if (dropout_seed.defined()) problem.dropout_seed = dropout_seed.const_data_ptr<std::int64_t>();
  return problem;
}

std::string HeadRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  std::string reason = device::DeviceRefusal(args.q);
  if (!reason.empty()) return reason;
  if (const std::string term = ExtraTerm(args, sizes); !term.empty()) {
    return "no device code for attention with " + term;
  }
  reason = Refusal(DevicePlans(), device::NameOf(*device::PrecisionFor(args.q.scalar_type())),
                   sizes.head_k_dim, sizes.head_v_dim);
  if (!reason.empty()) return reason;
  if (sizes.scale <= 0) return "the scale is not positive";
  if (sizes.head_k_dim == sizes.head_v_dim) return {};
  return "head_v_dim " + std::to_string(sizes.head_v_dim) + " is not head_k_dim " +
         std::to_string(sizes.head_k_dim);
}

std::optional<at::Tensor> OptionalDropoutSeed(const SoftmaxAttentionArgs& args) {
  if (args.dropout_p == 0) return std::nullopt;
  return DrawDropoutSeed(args);
}

}  // namespace mixerbench::kernels::softmax_attention
