// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/routed_states.h"

#include <limits>
#include <string_view>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "kernels/layout/rows.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "models/blocks/delta_rule_gates.h"

namespace mixerbench::models {
namespace {

using kernels::ExecutionPath;
using kernels::RecurrenceArgs;
using kernels::RecurrenceResult;

// A factor [B,T,S] for what has two axes more.
at::Tensor Factor(const at::Tensor& weights) { return weights.unsqueeze(-1).unsqueeze(-1); }

// `count` states from `first` on of x [B,T,S,...].
at::Tensor States(const at::Tensor& x, std::int64_t first, std::int64_t count) {
  if (x.size(2) != 1) return x.narrow(2, first, count);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[2] = count;
  return x.expand(sizes);
}

// Zeros where `unwritten` [B,T,S], which has two axes or one less than x: v = 0 and beta = 0 write
// nothing, log_decay = 0 forgets nothing.
at::Tensor ZerosWhere(const at::Tensor& unwritten, const at::Tensor& x) {
  at::Tensor mask = unwritten;
  while (mask.dim() < x.dim()) mask = mask.unsqueeze(-1);
  return x.masked_fill(mask, 0);
}

// Those states as heads of one call, [B,T,count H,.].
RecurrenceArgs MaskedArgs(const RoutedArgs& args, const Routing& routing, std::int64_t first,
                          std::int64_t count) {
  const at::Tensor& all_written = args.written.defined() ? args.written : routing.selected;
  const at::Tensor written = all_written.narrow(2, first, count);
  const at::Tensor write_weights =
      args.write_weights.defined() ? args.write_weights.narrow(2, first, count) * written : written;
  const auto masked = [&](const at::Tensor& x) {
    return ZerosWhere(written.eq(0), States(x, first, count)).flatten(2, 3);
  };
  RecurrenceArgs heads;
  heads.q = States(args.q, first, count).flatten(2, 3);
  heads.k = States(args.k, first, count).flatten(2, 3);
  heads.v =
      (States(args.v, first, count) * Factor(write_weights)).to(args.v.scalar_type()).flatten(2, 3);
  heads.log_decay = masked(args.log_decay);
  if (args.beta.defined()) heads.beta = masked(args.beta);
  if (args.initial_state.defined()) {
    heads.initial_state = args.initial_state.narrow(1, first, count).flatten(1, 2);
  }
  heads.wants_final_state = args.wants_final_state;
  return heads;
}

RoutedResult RunMasked(const RoutedArgs& args, const Routing& routing,
                       kernels::RecurrenceFunction core, std::int64_t states_at_a_time,
                       ExecutionPath path) {
  const at::Tensor read_weights = args.read_weights * routing.selected;
  at::Tensor sum;
  std::vector<at::Tensor> final_states;
  for (std::int64_t first = 0; first < read_weights.size(2); first += states_at_a_time) {
    const RecurrenceResult result = core(MaskedArgs(args, routing, first, states_at_a_time), path);
    const at::Tensor o = result.o.unflatten(2, {states_at_a_time, -1});
    const at::Tensor read = (o * Factor(read_weights.narrow(2, first, states_at_a_time))).sum(2);
    sum = sum.defined() ? sum + read : read;
    if (args.wants_final_state) {
      final_states.push_back(result.final_state.unflatten(1, {states_at_a_time, -1}));
    }
  }
  return {.o = sum.to(args.v.scalar_type()),
          .final_state = args.wants_final_state ? at::cat(final_states, 1) : at::Tensor()};
}

// The pairs of a token and a state that it chose, K T of a sequence: in order of tokens, or packed,
// which is in order of states and then of tokens. Each way round is a gather.
class Packing {
 public:
  explicit Packing(const Routing& routing)
      : batch_size_(routing.indices.size(0)),
        num_choices_(routing.indices.size(2)),
        num_pairs_(routing.indices.size(1) * num_choices_) {
    const std::int64_t num_states = routing.scores.size(2);
    const std::int64_t num_tokens = routing.indices.size(1);
    const at::Tensor states = routing.indices.flatten(1);  // [B,N], N = K T
    const at::Tensor order = at::argsort(states, /*stable=*/true, /*dim=*/1, /*descending=*/false);
    const auto count = [&](std::int64_t n) { return at::arange(n, order.options()); };
    const at::Tensor packed_states = states.gather(1, order);
    starts_ = at::cat(
        {at::zeros({batch_size_, 1}, order.options().dtype(at::kBool)),
         packed_states.narrow(1, 1, num_pairs_ - 1).ne(packed_states.narrow(1, 0, num_pairs_ - 1))},
        1);

    const at::Tensor sequence = count(batch_size_).unsqueeze(1);
    pairs_.positions = (order + sequence * num_pairs_).flatten();
    pairs_.inverse =
        at::empty_like(pairs_.positions).scatter_(0, pairs_.positions, count(num_rows()));
    unpacked_ = {.positions = pairs_.inverse, .inverse = pairs_.positions};
    const at::Tensor tokens =
        order.div(num_choices_, /*rounding_mode=*/"floor") + sequence * num_tokens;
    states_.positions = (tokens * num_states + packed_states).flatten();
    states_.inverse = at::full({batch_size_ * num_tokens * num_states}, num_rows(), order.options())
                          .scatter_(0, states_.positions, count(num_rows()));
  }

  // [B,N]: whether a state's first token is here, and another's stood before it.
  const at::Tensor& starts() const { return starts_; }

  // x [B,T,S,...] of the states as RoutedArgs has them -> [B,N,...].
  at::Tensor Pack(const at::Tensor& x) const {
    return x.size(2) == 1 ? PackChoices(States(x, 0, num_choices_)) : Gather(x, states_);
  }
  // x [B,T,K,...] of the choices -> [B,N,...].
  at::Tensor PackChoices(const at::Tensor& x) const { return Gather(x, pairs_); }
  // x [B,N,...] -> [B,T,K,...].
  at::Tensor Unpack(const at::Tensor& x) const {
    return Gather(x.unsqueeze(2), unpacked_).unflatten(1, {-1, num_choices_});
  }

 private:
  std::int64_t num_rows() const { return batch_size_ * num_pairs_; }

  // Rows of x [B,.,.,...], which has that many of them.
  at::Tensor Gather(const at::Tensor& x, const kernels::ScoredPositions& selection) const {
    std::vector<std::int64_t> sizes = {batch_size_, num_pairs_};
    const auto width = x.sizes().slice(3);
    sizes.insert(sizes.end(), width.begin(), width.end());
    const at::Tensor rows = width.empty() ? x.unsqueeze(3) : x.flatten(3);
    return kernels::GatherRows(rows, selection, ExecutionPath::kFast).view(sizes);
  }

  std::int64_t batch_size_;
  std::int64_t num_choices_;
  std::int64_t num_pairs_;  // of a sequence
  at::Tensor starts_;
  kernels::ScoredPositions pairs_;     // packed from [B,T,K]
  kernels::ScoredPositions states_;    // packed from [B,T,P]
  kernels::ScoredPositions unpacked_;  // [B,T,K] from packed
};

// Without states.
RoutedResult RunPacked(const RoutedArgs& args, const Routing& routing,
                       kernels::RecurrenceFunction core) {
  // A token that is not finite must not reach earlier ones, which packed may stand after it.
  const auto flat = [](const at::Tensor& x) { return x.defined() ? x.flatten(2).unsqueeze(2) : x; };
  const kernels::NonFiniteTokens tokens(
      {flat(args.k), flat(args.v), flat(args.beta), flat(args.write_weights)},
      flat(args.log_decay));
  const auto finite = [&](const at::Tensor& x) {
    return tokens.exist() && x.defined() ? tokens.Clear(flat(x)).reshape(x.sizes()) : x;
  };

  const Packing packing(routing);
  RecurrenceArgs packed{.q = packing.Pack(args.q),
                        .k = packing.Pack(finite(args.k)),
                        .v = packing.Pack(finite(args.v)),
                        .wants_final_state = false};
  if (args.write_weights.defined()) {
    const at::Tensor weights = packing.PackChoices(OfChoices(routing, finite(args.write_weights)));
    packed.v = (packed.v * Factor(weights)).to(args.v.scalar_type());
  }
  packed.log_decay = packing.Pack(finite(args.log_decay));
  if (args.beta.defined()) packed.beta = packing.Pack(finite(args.beta));
  if (args.written.defined()) {
    const at::Tensor unwritten = packing.PackChoices(OfChoices(routing, args.written)).eq(0);
    for (at::Tensor* const x : {&packed.v, &packed.log_decay, &packed.beta}) {
      if (x->defined()) *x = ZerosWhere(unwritten, *x);
    }
  }
  const at::Tensor starts = packing.starts().unsqueeze(-1);
  packed.log_decay =
      packed.log_decay.masked_fill(packed.log_decay.dim() == 3 ? starts : starts.unsqueeze(-1),
                                   -std::numeric_limits<double>::infinity());

  const at::Tensor read = packing.Unpack(core(packed, ExecutionPath::kFast).o);
  at::Tensor o = (read * Factor(OfChoices(routing, args.read_weights))).sum(2);
  if (tokens.exist()) o = o + tokens.mark().unsqueeze(-1);
  return {.o = o.to(args.v.scalar_type()), .final_state = {}};
}

}  // namespace

at::Tensor RoutedErasedNorm(const RoutedArgs& args, const Routing& routing, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  const at::Tensor& written = args.written.defined() ? args.written : routing.selected;
  const std::int64_t num_states = written.size(2);
  const at::Tensor of_states = DeltaErasedNorm(MaskedArgs(args, routing, 0, num_states), path)
                                   .unflatten(2, {num_states, -1});  // [B,T,P,H]
  return at::linalg_vector_norm(of_states * written.unsqueeze(-1), 2, {2});
}

RoutedResult RunRouted(const RoutedArgs& args, const Routing& routing,
                       kernels::RecurrenceFunction core, RoutedForm form, ExecutionPath path) {
  const std::int64_t num_states = routing.scores.size(2);
  if (path == ExecutionPath::kReference) {
    return RunMasked(args, routing, core, num_states, path);
  }
  const bool has_states = args.initial_state.defined() || args.wants_final_state;
  const bool is_packed = form == RoutedForm::kVarlen && !has_states;
  const RoutedForm taken = form == RoutedForm::kVarlen && has_states ? RoutedForm::kMasking : form;
  const std::string_view plan = NameOf(taken);
  const bool needs_backward = kernels::NeedsBackward({args.q, args.k, args.v, args.read_weights});
  kernels::RecordPlan("routed_states", plan, needs_backward ? plan : std::string_view(),
                      taken == form ? "" : "varlen neither takes nor leaves states");
  return is_packed
             ? RunPacked(args, routing, core)
             : RunMasked(args, routing, core, taken == RoutedForm::kLoop ? 1 : num_states, path);
}

}  // namespace mixerbench::models
