// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba3/trapezoid.h"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "kernels/gates/head_scale.h"
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

// log_decay [B,T,H] -> [B,T R,H]: the first rank of a token decays, the others find its state.
at::Tensor OverRanks(const at::Tensor& log_decay, std::int64_t rank) {
  if (rank == 1) return log_decay;
  return at::constant_pad_nd(log_decay.unsqueeze(2), {0, 0, 0, rank - 1}).flatten(1, 2);
}

// The ranks of a token beside each other, fp32 at least: [B,T R,H,D] -> [B,T,H,R,D].
at::Tensor RanksLast(const at::Tensor& x, std::int64_t rank) {
  return AtLeastFloat(x.unflatten(1, {-1, rank}).transpose(2, 3));
}

// q_{t,r}.k_{t,s}, [B,T,H,R,R].
at::Tensor ScoresOfRanks(const at::Tensor& q, const at::Tensor& k, std::int64_t rank) {
  return at::matmul(RanksLast(q, rank), RanksLast(k, rank).transpose(-1, -2));
}

// sum_s scores_{r,s} v_s, [B,T R,H,P].
at::Tensor ReadByRanks(const at::Tensor& scores, const at::Tensor& v, std::int64_t rank) {
  return at::matmul(scores, RanksLast(v, rank)).transpose(2, 3).flatten(1, 2);
}

// What the ranks of a token read of those after them: o_{t,r} of the core lacks the writes of the
// ranks s > r, sum_s (q_{t,r}.k_{t,s}) v_{t,s}. [B,T R,H,P]
at::Tensor ReadOfLaterRanks(const kernels::RecurrenceArgs& args, std::int64_t rank) {
  return ReadByRanks(ScoresOfRanks(args.q, args.k, rank).triu(1), args.v, rank);
}

// What was read earlier and what a token reads of itself, sum_s (weight (q_r.k_s) + D [r = s]) v_s:
// [B,T R,H,P]
at::Tensor AddReadOfOwnToken(const TrapezoidArgs& args, const at::Tensor& weight,
                             const at::Tensor& earlier, ExecutionPath path) {
  if (args.rank == 1) {
    const at::Tensor scores = (AtLeastFloat(args.q) * AtLeastFloat(args.k)).sum(-1);
    return kernels::ScaleHeads(args.v, scores * weight + args.D, earlier, path);
  }
  const at::Tensor scores = ScoresOfRanks(args.q, args.k, args.rank);
  const at::Tensor direct = args.D.view({-1, 1, 1}) * at::eye(args.rank, args.D.options());
  return earlier +
         ReadByRanks(scores * weight.unsqueeze(-1).unsqueeze(-1) + direct, args.v, args.rank);
}

// What of the last token the next one writes: [B,R,H,D] of [B,T R,H,D].
at::Tensor LastToken(const at::Tensor& x, std::int64_t rank) {
  return x.narrow(1, x.size(1) - rank, rank);
}

}  // namespace

TrapezoidResult Trapezoid(const TrapezoidArgs& args, ExecutionPath path) {
  const at::Tensor log_decay = args.A * args.step;
  const at::Tensor new_weight = args.mix * args.written_step;
  // Of the last token, whose own write is in the initial state.
  const at::Tensor waiting =
      at::constant_pad_nd(new_weight.narrow(1, 0, new_weight.size(1) - 1), {0, 0, 1, 0});
  const at::Tensor weight =
      ((1 - args.mix) * args.written_step + waiting) * at::exp(log_decay);  // [B,T,H]
  const at::Tensor old_v = Delayed(args.v, args.initial.v, args.rank);
  const at::Tensor weights = args.rank == 1 ? weight : weight.repeat_interleave(args.rank, 1);

  kernels::RecurrenceArgs heads;
  heads.q = args.q;
  heads.k = Delayed(args.k, args.initial.k, args.rank);
  heads.v = kernels::ScaleHeads(old_v, weights, /*base=*/{}, path);
  heads.log_decay = OverRanks(log_decay, args.rank);
  heads.scale = 1;
  heads.initial_state = args.initial.state;
  heads.wants_final_state = args.wants_final_state;
  const kernels::RecurrenceResult earlier = kernels::SimpleGla(heads, path);

  at::Tensor o = AddReadOfOwnToken(args, new_weight, earlier.o, path);
  if (args.rank > 1) o = o + ReadOfLaterRanks(heads, args.rank);
  TrapezoidResult result{
      .o = o.to(args.v.scalar_type()),
      .final = {.state = {}, .k = LastToken(args.k, args.rank), .v = LastToken(args.v, args.rank)}};
  if (args.wants_final_state) {
    const at::Tensor written =
        at::einsum("brhn,brhp->bhnp", {AtLeastFloat(result.final.k), AtLeastFloat(result.final.v)});
    const at::Tensor last_weight = new_weight.select(1, new_weight.size(1) - 1);
    result.final.state = earlier.final_state + last_weight.unsqueeze(-1).unsqueeze(-1) * written;
  }
  return result;
}

at::Tensor Angles(const at::Tensor& increments, const at::Tensor& start) {
  at::Tensor angles = increments.cumsum(1);
  if (start.defined()) angles = angles + start.unsqueeze(1);
  return angles.remainder(2 * std::numbers::pi);
}

at::Tensor Turns(const at::Tensor& angles) { return at::complex(at::cos(angles), at::sin(angles)); }

at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& turns) {
  const std::int64_t num_turned = 2 * turns.size(-1);
  // A pair is a complex number: one product instead of four. Split, not narrowed: the backward pass
  // of narrow fills a tensor of all channels.
  const auto parts = x.split_with_sizes({num_turned, x.size(-1) - num_turned}, -1);
  // A view needs pairs at even places.
  const at::Tensor front = x.size(-1) % 2 == 0 ? parts[0] : parts[0].contiguous();
  const at::Tensor pairs = at::view_as_complex(front.unflatten(-1, {-1, 2}));
  const at::Tensor turned = at::view_as_real(pairs * turns).flatten(-2);
  if (num_turned == x.size(-1)) return turned;
  return at::cat({turned, parts[1]}, -1);
}

}  // namespace mixerbench::models::mamba3
