// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/mesa/mesa.h"
#include "kernels/linear_attention/mesa/mesa_solve.h"

namespace mixerbench::kernels {
namespace {

at::Tensor Multiply(const at::Tensor& matrix, const at::Tensor& x) {
  return at::einsum("bhij,bhj->bhi", {matrix, x});
}

// matrix [B,H,K,K], q [B,H,K]. The value that the iterations reach, with the gradient of the exact
// solution: x - x' is zero, and as a function of matrix and q it moves as A^-1 (q - A x) does.
at::Tensor SolveToken(const at::Tensor& matrix, const at::Tensor& q, std::int64_t num_iterations) {
  at::Tensor x;
  {
    const at::NoGradGuard no_grad;
    x = mesa::ConjugateGradients([&](const at::Tensor& p) { return Multiply(matrix, p); }, q,
                                 num_iterations);
  }
  if (!at::GradMode::is_enabled() || !(matrix.requires_grad() || q.requires_grad())) return x;
  const auto moved =
      at::linalg_solve(matrix.detach(), (q - Multiply(matrix, x)).unsqueeze(-1)).squeeze(-1);
  return x + (moved - moved.detach());
}

}  // namespace

MesaResult ReferenceMesa(const MesaArgs& args) {
  const auto sizes = mesa::PrepareMesa(args);
  const auto dtype = sizes.compute_dtype;
  const auto q = (args.q.to(dtype) * sizes.scale).unbind(1);      // [B,H,K]
  const auto k = args.k.to(dtype).unbind(1);                      // [B,H,K]
  const auto v = args.v.to(dtype).unbind(1);                      // [B,H,V]
  const auto beta = args.beta.to(dtype).unsqueeze(-1).unbind(1);  // [B,H,1]
  const auto ridge = at::diag_embed(args.ridge.to(dtype));        // [H,K,K]
  std::vector<at::Tensor> decay;                                  // [B,H,1,1]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(dtype)).unsqueeze(-1).unsqueeze(-1).unbind(1);
  }
  const auto initial = [&](const at::Tensor& state, std::int64_t width) {
    if (state.defined()) return state.to(dtype);
    return at::zeros({sizes.batch_size, sizes.num_heads, sizes.head_k_dim, width},
                     args.q.options().dtype(dtype));
  };
  auto gram = initial(args.initial_gram, sizes.head_k_dim);
  auto state = initial(args.initial_state, sizes.head_v_dim);
  std::vector<at::Tensor> o, residuals;
  for (std::size_t t = 0; t < q.size(); ++t) {
    if (!decay.empty()) {
      gram = decay[t] * gram;
      state = decay[t] * state;
    }
    const auto written = (beta[t] * k[t]).unsqueeze(-1);
    gram = gram + written * k[t].unsqueeze(-2);
    state = state + written * v[t].unsqueeze(-2);
    const auto matrix = gram + ridge;
    const auto x = SolveToken(matrix, q[t], args.num_iterations);
    o.push_back(at::einsum("bhk,bhkv->bhv", {x, state}));
    if (args.wants_residual) {
      const auto error = Multiply(matrix, x).detach() - q[t].detach();
      residuals.push_back(at::linalg_vector_norm(error, 2, {-1}) /
                          at::linalg_vector_norm(q[t].detach(), 2, {-1}));
    }
  }
  MesaResult result{
      .o = at::stack(o, 1).to(args.v.scalar_type()), .final_gram = gram, .final_state = state};
  if (args.wants_residual) result.residual = at::stack(residuals, 1);
  return result;
}

}  // namespace mixerbench::kernels
