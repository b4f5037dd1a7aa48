// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_rows_autograd.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/host.h"
#include "kernels/differentiable.h"
#include "kernels/fused/columns.h"

namespace mixerbench::kernels::cuda {
namespace {

bool HasDtypeAndDevice(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16;
}

DecayRowsProblem Sizes(std::int64_t seq_len, std::int64_t rows_per_sequence,
                       std::int64_t head_k_dim, std::int64_t head_v_dim) {
  return {.seq_len = seq_len,
          .key_dim = head_k_dim,
          .value_dim = head_v_dim,
          .rows_per_sequence = rows_per_sequence};
}

DecayRowsProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& log_decay, const at::Tensor& rows, float scale) {
  DecayRowsProblem problem = Sizes(k.size(1), q.size(1), k.size(3), v.size(3));
  problem.batch_size = k.size(0);
  problem.num_heads = k.size(2);
  problem.rows = rows.const_data_ptr<std::int64_t>();
  problem.scale = scale;
  problem.q = AsSequence(q);
  problem.k = AsSequence(k);
  problem.v = AsSequence(v);
  problem.log_decay = AsSequence(log_decay);
  return problem;
}

}  // namespace

bool PrefersDecayRows(const at::Tensor& x, std::int64_t rows_per_sequence, std::int64_t head_k_dim,
                      std::int64_t head_v_dim) {
  return HasDtypeAndDevice(x) &&
         PrefersDecayRows(Sizes(x.size(1), rows_per_sequence, head_k_dim, head_v_dim), LimitsOf(x));
}

std::optional<at::Tensor> RunDecayRows(const RecurrenceArgs& args, const PreparedRecurrence& sizes,
                                       const DecayRowsKernels& kernels) {
  if (args.initial_state.defined() || !args.log_decay.defined() || sizes.scale <= 0 ||
      !HasDtypeAndDevice(args.k) ||
      !HasDecayRowsKernel(Sizes(sizes.seq_len, args.q.size(1), sizes.head_k_dim, sizes.head_v_dim),
                          LimitsOf(args.k))) {
    return std::nullopt;
  }
  const at::Tensor q = WithAlignedRows(args.q);
  const at::Tensor k = WithAlignedRows(args.k);
  const at::Tensor v = WithAlignedRows(args.v);
  const at::Tensor log_decay = WithAlignedRows(args.log_decay.to(at::kFloat));
  const at::Tensor& rows = args.rows->rows;
  const auto scale = static_cast<float>(sizes.scale);
  at::Tensor o;
  {
    const at::NoGradGuard no_grad;
    const c10::DeviceGuard guard(q.device());
    o = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options());
    DecayRowsProblem problem = MakeProblem(q, k, v, log_decay, rows, scale);
    problem.o = AsSequence(o);
    CheckLaunch(kernels.forward(problem, CurrentStream(q)), kernels.core);
  }
  SetBackward(kernels.core, {q, k, v, log_decay}, {o}, {q, k, v, log_decay, rows},
              [kernels, scale](const BackwardArgs& backward) -> std::vector<at::Tensor> {
                if (!backward.grads[0].defined()) return std::vector<at::Tensor>(4);
                const auto& saved = backward.saved;
                const at::Tensor& queries = saved[0];
                const c10::DeviceGuard guard(queries.device());
                const at::Tensor d_o = WithAlignedRows(backward.grads[0]);
                const at::Tensor d_q = at::empty(queries.sizes(), queries.options());
                auto d_kv = fused::EmptyTogether({saved[1], saved[2]});
                const at::Tensor d_log_decay = at::empty(saved[3].sizes(), saved[3].options());
                DecayRowsProblem problem =
                    MakeProblem(queries, saved[1], saved[2], saved[3], saved[4], scale);
                problem.d_o = AsSequence(d_o);
                problem.d_q = AsSequence(d_q);
                problem.d_k = AsSequence(d_kv[0]);
                problem.d_v = AsSequence(d_kv[1]);
                problem.d_log_decay = AsSequence(d_log_decay);
                CheckLaunch(kernels.backward(problem, CurrentStream(queries)), kernels.core);
                return {d_q, std::move(d_kv[0]), std::move(d_kv[1]), d_log_decay};
              });
  return o;
}

}  // namespace mixerbench::kernels::cuda
