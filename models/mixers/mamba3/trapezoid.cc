// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba3/trapezoid.h"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models::mamba3 {
namespace {

// x [B,T R,H,D] one token later; `first` [B,R,H,D], undefined: zeros.
at::Tensor Delayed(const at::Tensor& x, const at::Tensor& first, std::int64_t rank) {
  const at::Tensor start = first.defined()
                               ? first.to(x.scalar_type())
                               : at::zeros({x.size(0), rank, x.size(2), x.size(3)}, x.options());
  return at::cat({start, x.narrow(1, 0, x.size(1) - rank)}, 1);
}

at::Tensor LastToken(const at::Tensor& x, std::int64_t rank) {
  return x.narrow(1, x.size(1) - rank, rank);
}

// log_decay [B,T,H] -> [B,T R,H]: the first rank of a token decays, the others find its state.
at::Tensor OverRanks(const at::Tensor& log_decay, std::int64_t rank) {
  if (rank == 1) return log_decay;
  return at::constant_pad_nd(log_decay.unsqueeze(2), {0, 0, 0, rank - 1}).flatten(1, 2);
}

// What the ranks of a token read of those after them: o_{t,r} of the core lacks the writes of the
// ranks s > r, sum_s (q_{t,r}.k_{t,s}) v_{t,s}. [B,T R,H,V], fp32 at least.
at::Tensor ReadOfLaterRanks(const kernels::RecurrenceArgs& args, std::int64_t rank) {
  const auto ranks_last = [&](const at::Tensor& x) {  // [B,T,H,R,D]
    return AtLeastFloat(x.unflatten(1, {-1, rank}).transpose(2, 3));
  };
  const at::Tensor scores = at::matmul(ranks_last(args.q), ranks_last(args.k).transpose(-1, -2));
  return at::matmul(scores.triu(1), ranks_last(args.v)).transpose(2, 3).flatten(1, 2);
}

}  // namespace

TrapezoidResult Trapezoid(const TrapezoidArgs& args, ExecutionPath path) {
  const auto weighted = [](const at::Tensor& v, const at::Tensor& weight) {
    return (v * weight.unsqueeze(-1)).to(v.scalar_type());
  };
  const auto every_rank = [&](const at::Tensor& x) {
    return args.rank == 1 ? x : x.repeat_interleave(args.rank, 1);
  };
  const at::Tensor log_decay = args.A * args.step;
  const at::Tensor old_weight = every_rank((1 - args.mix) * args.written_step * at::exp(log_decay));
  const at::Tensor new_weight = every_rank(args.mix * args.written_step);
  const at::Tensor decays = OverRanks(log_decay, args.rank);

  kernels::RecurrenceArgs heads;
  heads.q = at::cat({args.q, args.q}, 2);
  heads.k = at::cat({Delayed(args.k, args.initial.k, args.rank), args.k}, 2);
  heads.v = at::cat({weighted(Delayed(args.v, args.initial.v, args.rank), old_weight),
                     weighted(args.v, new_weight)},
                    2);
  heads.log_decay = at::cat({decays, decays}, 2);
  heads.scale = 1;
  if (args.initial.state.defined()) {
    heads.initial_state = at::cat({args.initial.state, at::zeros_like(args.initial.state)}, 1);
  }
  const kernels::RecurrenceResult both = kernels::SimpleGla(heads, path);
  const auto sum = [](const at::Tensor& x, std::int64_t axis) {
    const auto halves = x.chunk(2, axis);
    return halves[0] + halves[1];
  };
  at::Tensor o = both.o;
  if (args.rank > 1) o = (o + ReadOfLaterRanks(heads, args.rank)).to(o.scalar_type());
  return {.o = sum(o, 2),
          .final = {.state = sum(both.final_state, 1),
                    .k = LastToken(args.k, args.rank),
                    .v = LastToken(args.v, args.rank)}};
}

at::Tensor Angles(const at::Tensor& increments, const at::Tensor& start) {
  at::Tensor angles = increments.cumsum(1);
  if (start.defined()) angles = angles + start.unsqueeze(1);
  return angles.remainder(2 * std::numbers::pi);
}

at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& angles) {
  const std::int64_t num_turned = 2 * angles.size(-1);
  // A pair is a complex number: one product instead of four. Split, not narrowed: the backward pass
  // of narrow fills a tensor of all channels.
  const auto parts = x.split_with_sizes({num_turned, x.size(-1) - num_turned}, -1);
  // A view needs pairs at even places.
  const at::Tensor front = x.size(-1) % 2 == 0 ? parts[0] : parts[0].contiguous();
  const at::Tensor pairs = at::view_as_complex(front.unflatten(-1, {-1, 2}));
  const at::Tensor turns = at::complex(at::cos(angles), at::sin(angles));
  const at::Tensor turned = at::view_as_real(pairs * turns).flatten(-2);
  if (num_turned == x.size(-1)) return turned;
  return at::cat({turned, parts[1]}, -1);
}

}  // namespace mixerbench::models::mamba3
