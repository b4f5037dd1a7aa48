// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/attention_problem_cuda.h"

#include <cstdint>

#include <ATen/ops/empty.h>

#include "kernels/cuda/host.h"
#include "kernels/softmax_attention/attention_dropout.h"

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
  problem.q = cuda::AsSequence(q);
  problem.k = cuda::AsSequence(k);
  problem.v = cuda::AsSequence(v);
  problem.o = cuda::AsSequence(o);
  problem.log_denominators = log_denominators.data_ptr<float>();
  problem.dropout = MakeDropoutRule(dropout_p);
  if (dropout_seed.defined()) problem.dropout_seed = dropout_seed.const_data_ptr<std::int64_t>();
  return problem;
}

std::optional<at::Tensor> OptionalDropoutSeed(const SoftmaxAttentionArgs& args) {
  if (args.dropout_p == 0) return std::nullopt;
  return DrawDropoutSeed(args);
}

}  // namespace mixerbench::kernels::softmax_attention
