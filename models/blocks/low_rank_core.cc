// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/low_rank_core.h"

#include <utility>

#include "models/blocks/erase_tap.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";

// What queries q [B,T,H,K] read, in the dtype of b.
at::Tensor Read(const kernels::DplrArgs& args, const at::Tensor& q, ExecutionPath path) {
  kernels::DplrArgs other = args;
  other.recurrence.q = q;
  other.recurrence.k = args.recurrence.k.to(q.scalar_type());
  other.recurrence.v = args.recurrence.v.to(q.scalar_type());
  other.recurrence.scale = 1;
  return kernels::Dplr(other, path).o;
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
      const kernels::DplrArgs plain = kernels::PlainFactors(dplr);
      TapErase(options.taps, plain.b, plain.recurrence.initial_state,
               [&](const at::Tensor& q) { return Read(plain, q, options.path); });
    }
    if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
    return result.o;
  };
  return core;
}

}  // namespace mixerbench::models
