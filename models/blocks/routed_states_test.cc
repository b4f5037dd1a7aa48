// Routing, and every way of running a core in routed states against the definition: each state is
// a sequence of its own, of the tokens that chose it.
// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/routed_states.h"

#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "kernels/linear_attention/gla/gla.h"
#include "kernels/runtime/plan.h"
#include "models/blocks/norms.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models {
namespace {

using kernels::ExecutionPath;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kBatch = 2, kHeads = 2, kKeys = 3, kValues = 4;
constexpr RoutedForm kForms[] = {RoutedForm::kVarlen, RoutedForm::kMasking, RoutedForm::kLoop};

struct Problem {
  std::int64_t seq_len = 9;
  std::int64_t num_states = 4;
  std::int64_t top_k = 1;
  std::int64_t num_writers = 0;  // of them, the first; 0: all, without a mask
  bool has_beta = false;         // the delta rule
  bool own_inputs = false;       // every state has its own q, k, v and gates
  bool has_weights = true;       // of writes
  bool has_states = false;       // initial and final
};

enum Input : std::size_t { kQ, kK, kV, kG, kBeta, kLogits, kWrite, kRead, kInitial };

std::vector<at::Tensor> Draw(const Problem& p) {
  const std::int64_t sets = p.own_inputs ? p.num_states : 1;
  const auto draw = [&](std::vector<std::int64_t> tail, std::uint64_t seed) {
    std::vector<std::int64_t> sizes = {kBatch, p.seq_len};
    sizes.insert(sizes.end(), tail.begin(), tail.end());
    return RandomNormal(sizes, seed);
  };
  std::vector<at::Tensor> inputs(9);
  inputs[kQ] = draw({sets, kHeads, kKeys}, 1);
  inputs[kK] = L2Norm(draw({sets, kHeads, kKeys}, 2));
  inputs[kV] = draw({sets, kHeads, kValues}, 3);
  inputs[kG] =
      at::log_sigmoid(p.has_beta ? draw({sets, kHeads}, 4) : draw({sets, kHeads, kKeys}, 4));
  if (p.has_beta) inputs[kBeta] = at::sigmoid(draw({sets, kHeads}, 5));
  inputs[kLogits] = draw({p.num_states}, 6);
  if (p.has_weights) inputs[kWrite] = draw({p.num_states}, 7);
  inputs[kRead] = draw({p.num_states}, 8);
  if (p.has_states) {
    inputs[kInitial] = RandomNormal({kBatch, p.num_states, kHeads, kKeys, kValues}, 9);
  }
  return inputs;
}

// Undefined where every chosen state is written.
at::Tensor WrittenOf(const Problem& p, const at::Tensor& logits) {
  if (p.num_writers == 0) return {};
  return FirstChoices(RouteBySoftmax(logits, p.top_k), p.num_writers).selected;
}

RoutedArgs ArgsOf(const Problem& p, const std::vector<at::Tensor>& inputs) {
  return {.q = inputs[kQ],
          .k = inputs[kK],
          .v = inputs[kV],
          .log_decay = inputs[kG],
          .beta = inputs[kBeta],
          .written = WrittenOf(p, inputs[kLogits]),
          .write_weights = inputs[kWrite],
          .read_weights = inputs[kRead],
          .initial_state = inputs[kInitial],
          .wants_final_state = p.has_states};
}

kernels::RecurrenceFunction CoreOf(const Problem& p) {
  return p.has_beta ? kernels::DeltaRule : kernels::Gla;
}

std::vector<at::Tensor> Outputs(const RoutedResult& result) {
  std::vector<at::Tensor> outputs = {result.o};
  if (result.final_state.defined()) outputs.push_back(result.final_state);
  return outputs;
}

// The definition of what is erased, token by token: the squares of what the written states recall.
at::Tensor ErasedTokenByToken(const Problem& p, const std::vector<at::Tensor>& inputs) {
  const Routing routing = RouteBySoftmax(inputs[kLogits], p.top_k);
  const at::Tensor written = p.num_writers == 0 ? routing.selected : WrittenOf(p, inputs[kLogits]);
  const auto set = [&](Input input, std::int64_t t, std::int64_t s) {
    return inputs[input].select(1, t).select(1, p.own_inputs ? s : 0);
  };
  at::Tensor states = inputs[kInitial].clone();  // [B,P,H,K,V]
  std::vector<at::Tensor> erased;
  for (std::int64_t t = 0; t < p.seq_len; ++t) {
    at::Tensor sum = at::zeros({kBatch, kHeads}, states.options());
    for (std::int64_t s = 0; s < p.num_states; ++s) {
      const at::Tensor is_written = written.select(1, t).select(1, s).view({-1, 1, 1, 1});
      const at::Tensor k = set(kK, t, s).unsqueeze(-1);
      const at::Tensor before = states.select(1, s);
      const at::Tensor decayed = before * set(kG, t, s).exp().unsqueeze(-1).unsqueeze(-1);
      const at::Tensor recalled = (k * decayed).sum(-2);  // [B,H,V]
      sum = sum + (recalled.square().sum(-1) * is_written.view({-1, 1}));
      const at::Tensor v =
          set(kV, t, s) * inputs[kWrite].select(1, t).select(1, s).view({-1, 1, 1});
      const at::Tensor beta = set(kBeta, t, s).unsqueeze(-1).unsqueeze(-1);
      const at::Tensor after = decayed + beta * k * (v - recalled).unsqueeze(-2);
      states.select(1, s).copy_(at::where(is_written.ne(0), after, before));
    }
    erased.push_back(sum.sqrt());
  }
  return at::stack(erased, 1);
}

TEST_CASE("routed states: what is erased is what keys recall of the states that they write") {
  const at::NoGradGuard no_grad;
  for (const bool own_inputs : {false, true}) {
    for (const std::int64_t num_writers : {0, 1}) {
      const Problem p{.seq_len = 11,
                      .top_k = 2,
                      .num_writers = num_writers,
                      .has_beta = true,
                      .own_inputs = own_inputs,
                      .has_states = true};
      const std::vector<at::Tensor> inputs = Draw(p);
      const Routing routing = RouteBySoftmax(inputs[kLogits], p.top_k);
      for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
        CHECK(RelativeError(RoutedErasedNorm(ArgsOf(p, inputs), routing, path),
                            ErasedTokenByToken(p, inputs)) < kTolerance);
      }
    }
  }
}

// The definition: of each sequence and state, the tokens that chose it go through the core's
// reference by themselves.
std::vector<at::Tensor> StateByState(const Problem& p, const std::vector<at::Tensor>& inputs) {
  const Routing routing = RouteBySoftmax(inputs[kLogits], p.top_k);
  const at::Tensor written = WrittenOf(p, inputs[kLogits]);
  at::Tensor o = at::zeros({kBatch, p.seq_len, kHeads, kValues}, inputs[kV].options());
  std::vector<at::Tensor> final_states;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t state = 0; state < p.num_states; ++state) {
      const at::Tensor tokens = routing.selected[b].select(1, state).nonzero().flatten();
      const at::Tensor initial = p.has_states ? inputs[kInitial][b][state]
                                              : at::zeros({kHeads, kKeys, kValues}, o.options());
      if (tokens.size(0) == 0) {
        final_states.push_back(initial);
        continue;
      }
      const auto of = [&](const at::Tensor& x) {  // [1,n,H,.]
        return x[b].select(1, p.own_inputs ? state : 0).index_select(0, tokens).unsqueeze(0);
      };
      const auto weight = [&](const at::Tensor& x) {  // [1,n,1,1]
        return x[b].select(1, state).index_select(0, tokens).view({1, -1, 1, 1});
      };
      kernels::RecurrenceArgs args{.q = of(inputs[kQ]),
                                   .k = of(inputs[kK]),
                                   .v = of(inputs[kV]),
                                   .log_decay = of(inputs[kG]),
                                   .initial_state = initial.unsqueeze(0)};
      if (p.has_beta) args.beta = of(inputs[kBeta]);
      if (p.has_weights) args.v = args.v * weight(inputs[kWrite]);
      if (written.defined()) {  // what reads alone is a token that writes and forgets nothing
        const at::Tensor writes = weight(written);
        args.v = args.v * writes;
        args.log_decay = args.log_decay * (p.has_beta ? writes.squeeze(-1) : writes);
        if (p.has_beta) args.beta = args.beta * writes.squeeze(-1);
      }
      const auto result = CoreOf(p)(args, ExecutionPath::kReference);
      const at::Tensor read = (result.o * weight(inputs[kRead])).squeeze(0);
      const at::Tensor places = tokens.add(b * p.seq_len);
      o = o.flatten(0, 1).index_add(0, places, read).view(o.sizes());
      final_states.push_back(result.final_state.squeeze(0));
    }
  }
  std::vector<at::Tensor> outputs = {o};
  if (p.has_states) {
    outputs.push_back(at::stack(final_states).view(inputs[kInitial].sizes()));
  }
  return outputs;
}

void CheckForms(const Problem& p) {
  CAPTURE(p.seq_len, p.num_states, p.top_k, p.num_writers, p.has_beta, p.own_inputs, p.has_weights,
          p.has_states);
  const std::vector<at::Tensor> inputs = Draw(p);
  const auto expected = testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) { return StateByState(p, x); }, inputs);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    for (const RoutedForm form : kForms) {
      CAPTURE(NameOf(form), path == ExecutionPath::kFast);
      const auto actual = testing::Differentiate(
          [&](const std::vector<at::Tensor>& x) {
            return Outputs(RunRouted(ArgsOf(p, x), RouteBySoftmax(x[kLogits], p.top_k), CoreOf(p),
                                     form, path));
          },
          inputs);
      REQUIRE(actual.outputs.size() == expected.outputs.size());
      for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
        CHECK(RelativeError(actual.outputs[i], expected.outputs[i]) < kTolerance);
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(i);
        if (!inputs[i].defined()) continue;
        CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < kTolerance);
      }
    }
  }
}

TEST_CASE("routing: a mask has what the places name") {
  const at::Tensor places = at::tensor({1, 3}, at::kLong);
  CHECK(MaskOf(places, 5).equal(at::tensor({0, 1, 0, 1, 0}).to(at::kBool)));
}

TEST_CASE("routing: scores are the softmax in float32 and are not renormalised") {
  const at::Tensor logits = RandomNormal({2, 5, 4}, 1, at::kBFloat16);
  const Routing routing = RouteBySoftmax(logits, 2);
  CHECK(routing.scores.scalar_type() == at::kFloat);
  CHECK(RelativeError(routing.scores, logits.to(at::kDouble).softmax(-1)) < 1e-6);
  CHECK(routing.selected.sum(-1).eq(2).all().item<bool>());
  CHECK(OfChoices(routing, routing.scores).equal(routing.scores.gather(2, routing.indices)));
}

TEST_CASE("routing: the first choices are those of a routing with fewer") {
  const at::Tensor logits = RandomNormal({2, 5, 4}, 1);
  const Routing few = RouteBySoftmax(logits, 2);
  const Routing first = FirstChoices(RouteBySoftmax(logits, 3), 2);
  CHECK(first.indices.equal(few.indices));
  CHECK(first.choices.equal(few.choices));
  CHECK(first.selected.equal(few.selected));
}

// With logits z: p = softmax, d loss / d z_i = p_i (c_i - <c, p>) / N, c = (P/K) f.
TEST_CASE("routing: the balance loss is 1 at balance and its gradient passes the means alone") {
  const at::Tensor balanced = at::tensor({4.0, 0.0, 0.0, 4.0}).view({1, 2, 2});
  CHECK(std::abs(BalanceLoss(RouteBySoftmax(balanced, 1)).item<double>() - 1) < 1e-6);
  const at::Tensor logits = RandomNormal({2, 5, 4}, 2).requires_grad_(true);
  const Routing routing = RouteBySoftmax(logits, 2);
  BalanceLoss(routing).backward();
  const at::Tensor c = routing.selected.mean(at::IntArrayRef({0, 1})) * 2;
  const at::Tensor p = routing.scores.detach();
  CHECK(RelativeError(logits.grad(), p * (c - (c * p).sum(-1, true)) / 10) < 1e-6);
}

TEST_CASE("routed states: every form gives what the states give one by one, gradients included") {
  for (const bool has_beta : {false, true}) {
    for (const std::int64_t seq_len : {1, 2, 9, 67}) {
      CheckForms({.seq_len = seq_len, .has_beta = has_beta});
    }
    CheckForms({.num_states = 3, .top_k = 2, .has_beta = has_beta});
    CheckForms({.num_states = 3, .top_k = 3, .has_beta = has_beta});
    CheckForms({.top_k = 2, .has_beta = has_beta, .own_inputs = true});
    CheckForms({.num_states = 1, .has_beta = has_beta, .own_inputs = true, .has_weights = false});
    CheckForms({.seq_len = 3, .num_states = 7, .has_beta = has_beta, .has_weights = false});
    CheckForms({.top_k = 2, .has_beta = has_beta, .has_states = true});
    for (const bool has_states : {false, true}) {
      CheckForms({.seq_len = 13,
                  .num_states = 5,
                  .top_k = 3,
                  .num_writers = 1,
                  .has_beta = has_beta,
                  .own_inputs = has_states,
                  .has_states = has_states});
    }
  }
}

TEST_CASE("routed states: one state with weights of one is the core itself") {
  const Problem p{.num_states = 1, .has_weights = false};
  std::vector<at::Tensor> inputs = Draw(p);
  inputs[kRead].fill_(1);
  const at::Tensor expected = kernels::Gla({.q = inputs[kQ].squeeze(2),
                                            .k = inputs[kK].squeeze(2),
                                            .v = inputs[kV].squeeze(2),
                                            .log_decay = inputs[kG].squeeze(2)},
                                           ExecutionPath::kFast)
                                  .o;
  for (const RoutedForm form : kForms) {
    const auto result = RunRouted(ArgsOf(p, inputs), RouteBySoftmax(inputs[kLogits], 1),
                                  kernels::Gla, form, ExecutionPath::kFast);
    CHECK(RelativeError(result.o, expected) < kTolerance);
  }
}

TEST_CASE("routed states: what is not finite reaches no earlier token, whatever its state") {
  constexpr std::int64_t kPoisoned = 5;
  const Problem p{.num_states = 2};
  std::vector<at::Tensor> inputs = Draw(p);
  const auto run = [&](RoutedForm form) {
    return RunRouted(ArgsOf(p, inputs), RouteBySoftmax(inputs[kLogits], 1), kernels::Gla, form,
                     ExecutionPath::kFast)
        .o;
  };
  for (const RoutedForm form : kForms) {
    const at::Tensor before = run(form);
    for (const Input poisoned : {kK, kV, kG, kWrite}) {
      CAPTURE(NameOf(form), static_cast<int>(poisoned));
      const at::Tensor kept = inputs[poisoned].clone();
      inputs[poisoned][1][kPoisoned].fill_(std::numeric_limits<double>::quiet_NaN());
      const at::Tensor after = run(form);
      inputs[poisoned] = kept;
      CHECK(RelativeError(after[0], before[0]) < kTolerance);
      CHECK(RelativeError(after[1].narrow(0, 0, kPoisoned), before[1].narrow(0, 0, kPoisoned)) <
            kTolerance);
      CHECK(after[1][kPoisoned].isnan().all().item<bool>());
    }
  }
}

TEST_CASE("routed states: a plan tells how the states ran, and why not packed") {
  const auto plan_of = [](const Problem& p) {
    const kernels::PlanRecorder recorder;
    const std::vector<at::Tensor> inputs = Draw(p);
    RunRouted(ArgsOf(p, inputs), RouteBySoftmax(inputs[kLogits], 1), CoreOf(p), RoutedForm::kVarlen,
              ExecutionPath::kFast);
    for (const kernels::PlanRecord& record : recorder.records()) {
      if (record.function == "routed_states") return record;
    }
    return kernels::PlanRecord();
  };
  CHECK(plan_of({}).forward == "varlen");
  CHECK(plan_of({}).reason.empty());
  CHECK(plan_of({.has_states = true}).forward == "masking");
  CHECK(plan_of({.has_states = true}).reason == "varlen neither takes nor leaves states");
}

}  // namespace
}  // namespace mixerbench::models
