// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/low_rank_core.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";
constexpr char kErase[] = "erase";

// S_{t-1}^T b_t [B,T,H,V]: of the first token from the initial state, of the others what a query
// b_t reads at the token before.
at::Tensor Recalled(const kernels::DplrArgs& args, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  const at::Tensor& state = args.recurrence.initial_state;
  const at::Tensor first = args.b.narrow(1, 0, 1);
  const at::Tensor at_start =
      state.defined() ? first.to(state.scalar_type()).transpose(1, 2).matmul(state).transpose(1, 2)
                      : at::zeros_like(args.recurrence.v.narrow(1, 0, 1));
  const auto dtype = args.b.scalar_type();
  kernels::DplrArgs shifted = args;
  shifted.recurrence.q =
      at::cat({args.b.narrow(1, 1, args.b.size(1) - 1), at::zeros_like(first)}, 1);
  shifted.recurrence.k = args.recurrence.k.to(dtype);
  shifted.recurrence.v = args.recurrence.v.to(dtype);
  shifted.recurrence.scale = 1;
  const at::Tensor later = kernels::Dplr(shifted, path).o;
  return at::cat({at_start.to(dtype), later.narrow(1, 0, later.size(1) - 1)}, 1);
}

}  // namespace

MatrixCore LowRankCore(LowRankFactors factors, const MatrixLayout& layout) {
  MatrixCore core;
  core.states = {{kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}};
  core.run = [factors = std::move(factors)](const kernels::RecurrenceArgs& args,
                                            const MixerOptions& options, Mixed& mixed) {
    kernels::DplrArgs dplr = factors(args, mixed);
    dplr.recurrence.initial_state = Find(options.initial_state, kState);
    const kernels::RecurrenceResult result = kernels::Dplr(dplr, options.path);
    if (options.taps) {
      TapState(options.taps, result.final_state);
      if (options.taps.Wants(kErase)) {
        options.taps.Record(kErase, at::linalg_vector_norm(Recalled(dplr, options.path), 2, {-1}));
      }
    }
    if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
    return result.o;
  };
  return core;
}

}  // namespace mixerbench::models
