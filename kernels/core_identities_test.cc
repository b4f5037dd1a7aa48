// Cores that must agree where their definitions coincide: what no comparison of a core with itself
// can find.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "kernels/linear_attention/dplr/dplr.h"
#include "kernels/linear_attention/gla/gla.h"
#include "kernels/linear_attention/log_linear/log_linear.h"
#include "kernels/linear_attention/mesa/mesa.h"
#include "kernels/linear_attention/sila/sila.h"
#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "kernels/linear_attention/titans/titans.h"
#include "kernels/linear_attention/ttt/ttt.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RandomUnitRows;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

void CheckEqual(const RecurrenceResult& a, const RecurrenceResult& b) {
  CHECK(RelativeError(a.o, b.o) < kFloat64Tolerance);
  CHECK(RelativeError(a.final_state, b.final_state) < kFloat64Tolerance);
}

TEST_CASE("identity: a vector decay that is equal in all channels is a scalar decay") {
  RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                      .k = RandomNormal({2, 75, 2, 6}, 2),
                      .v = RandomNormal({2, 75, 2, 5}, 3),
                      .log_decay = RandomUniform({2, 75, 2}, 4) * -2,
                      .initial_state = RandomNormal({2, 2, 6, 5}, 5),
                      .chunk_size = 32};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto scalar = SimpleGla(args, path);
    auto wide = args;
    wide.log_decay = args.log_decay.unsqueeze(-1).expand({-1, -1, -1, 6});
    CheckEqual(Gla(wide, path), scalar);
  }
}

TEST_CASE("identity: without decay, vector and scalar decay are the same linear attention") {
  const RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                            .k = RandomNormal({2, 75, 2, 6}, 2),
                            .v = RandomNormal({2, 75, 2, 5}, 3)};
  CheckEqual(Gla(args, ExecutionPath::kFast), SimpleGla(args, ExecutionPath::kFast));
}

TEST_CASE("identity: with orthonormal keys the delta rule has nothing to erase") {
  RecurrenceArgs args{.q = RandomNormal({2, 12, 2, 12}, 1),
                      .k = at::eye(12, at::kDouble).view({1, 12, 1, 12}).expand({2, 12, 2, 12}),
                      .v = RandomNormal({2, 12, 2, 5}, 3),
                      .log_decay = RandomUniform({2, 12, 2}, 4) * -2,
                      .chunk_size = 5};
  const auto linear = SimpleGla(args, ExecutionPath::kFast);
  args.beta = at::ones({2, 12, 2}, at::kDouble);
  CheckEqual(DeltaRule(args, ExecutionPath::kFast), linear);
}

// Gates without memory, in every way that the state can be formed. It is read before a token
// writes, so the others get the query of the next token.
SilaArgs SilaWithoutMemory() {
  return {.q = RandomNormal({2, 75, 2, 6}, 1),
          .k = RandomUnitRows({2, 75, 2, 6}, 2),
          .v = RandomNormal({2, 75, 2, 5}, 3),
          .write_logit = RandomNormal({2, 75, 2}, 4),
          .forget_logit = RandomNormal({2, 75, 2}, 5),
          .initial_state = RandomNormal({2, 2, 6, 5}, 6),
          .wants_gates = true};
}

at::Tensor OfNextToken(const at::Tensor& q) {
  return at::cat({q.slice(1, 1), q.slice(1, 0, 1)}, 1);
}

void CheckReadsBefore(const SilaResult& sila, const at::Tensor& o, const at::Tensor& final_state) {
  CHECK(RelativeError(sila.o.slice(1, 1), o.slice(1, 0, 74)) < kFloat64Tolerance);
  CHECK(RelativeError(sila.final_state, final_state) < kFloat64Tolerance);
}

TEST_CASE("identity: sila with a decayed erase and gates of the token is a gated delta rule") {
  SilaArgs args = SilaWithoutMemory();
  args.decayed_erase = true;
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto sila = Sila(args, path);
    const auto delta = DeltaRule({.q = OfNextToken(args.q),
                                  .k = args.k,
                                  .v = args.v,
                                  .log_decay = sila.log_decay,
                                  .beta = sila.write_gate,
                                  .initial_state = args.initial_state},
                                 path);
    CheckReadsBefore(sila, delta.o, delta.final_state);
  }
}

TEST_CASE("identity: titans with chunks of a token and no momentum is sila with such gates") {
  const SilaArgs args = SilaWithoutMemory();
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto sila = Sila(args, path);
    TitansArgs titans{.q = OfNextToken(args.q),
                      .k = args.k,
                      .v = args.v,
                      .step = sila.write_gate / 2,
                      .log_decay = sila.log_decay,
                      .mini_batch_size = 1};
    titans.initial_state.memory = args.initial_state;
    titans.initial_state.momentum = RandomNormal({2, 2, 6, 5}, 7);  // forgotten at once
    const auto result = Titans(titans, path);
    CheckReadsBefore(sila, result.o, result.final_state.memory);
  }
}

// With an eps without end, and its root in the weight, the norm of TTT's loss only centres what the
// layer makes of a key, and nothing here is off centre. The bias is what a further key, always 1,
// writes.
TEST_CASE("identity: ttt with mini-batches of a token, whose norm only centres, is a delta rule") {
  constexpr double kEps = 1e30;
  using Tensors = std::vector<at::Tensor>;
  const auto centred = [](const at::Tensor& x) { return x - x.mean(-1, /*keepdim=*/true); };
  const auto with_one = [](const at::Tensor& x) { return at::constant_pad_nd(x, {0, 1}, 1); };
  const Tensors inputs = {RandomNormal({2, 75, 2, 6}, 1),        // q
                          RandomUnitRows({2, 75, 2, 6}, 2),      // k
                          RandomNormal({2, 75, 2, 6}, 3),        // v
                          RandomUniform({2, 75, 2}, 4),          // learning_rate
                          RandomUniform({1}, 5),                 // token_scale
                          RandomUniform({2, 1}, 6) * 0.5 + 0.5,  // norm_weight over the root
                          RandomNormal({2, 6}, 7),               // norm_bias
                          RandomNormal({2, 2, 6, 6}, 8),         // weight
                          RandomNormal({2, 2, 6}, 9)};           // bias
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto ttt = [&](const Tensors& x) -> Tensors {
      const auto result = Ttt({.q = x[0],
                               .k = x[1],
                               .v = x[1] + centred(x[2]),  // the loss takes the key off again
                               .learning_rate = x[3],
                               .token_scale = x[4],
                               .norm_weight = (x[5] * std::sqrt(kEps)).expand({2, 6}),
                               .norm_bias = centred(x[6]),
                               .initial_state = {.weight = centred(x[7]), .bias = centred(x[8])},
                               .norm_eps = kEps,
                               .scale = 0.5},
                              path);
      const auto& state = result.final_state;
      return {result.o, at::cat({state.weight, state.bias.unsqueeze(2)}, 2)};
    };
    // A weight g scales what the layer makes of a key z:
    // g (g z + bias - v) = g^2 (z - (v - bias) / g).
    const auto delta_rule = [&](const Tensors& x) -> Tensors {
      const auto result =
          DeltaRule({.q = with_one(x[0] * 0.5),
                     .k = with_one(x[1]),
                     .v = centred(x[2] - x[6]) / x[5],
                     .beta = x[3] * x[4] * (x[5] * x[5]).squeeze(-1),
                     .initial_state = centred(at::cat({x[7], x[8].unsqueeze(2)}, 2)),
                     .scale = 1},
                    path);
      return {result.o, result.final_state};
    };
    CHECK(testing::RelativeError(testing::Differentiate(ttt, inputs),
                                 testing::Differentiate(delta_rule, inputs)) < kFloat64Tolerance);
  }
}

TEST_CASE("identity: log-linear attention whose levels weigh the same is a scalar decay") {
  const RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                            .k = RandomNormal({2, 75, 2, 6}, 2),
                            .v = RandomNormal({2, 75, 2, 5}, 3),
                            .log_decay = RandomUniform({2, 75, 2}, 4) * -2};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto scalar = SimpleGla(args, path);
    const auto levels = LogLinear({.q = args.q,
                                   .k = args.k,
                                   .v = args.v,
                                   .level_weight = at::ones({2, 75, 2, 8}, at::kDouble),
                                   .log_decay = args.log_decay,
                                   .chunk_size = 16},
                                  path);
    // The levels together are the state.
    CheckEqual({levels.o, levels.final_state.sum(2)}, scalar);
  }
}

TEST_CASE("identity: a log-linear delta rule whose levels weigh the same is a delta rule") {
  const RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                            .k = RandomUnitRows({2, 75, 2, 6}, 2),
                            .v = RandomNormal({2, 75, 2, 5}, 3),
                            .log_decay = RandomUniform({2, 75, 2}, 4) * -2,
                            .beta = RandomUniform({2, 75, 2}, 5)};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto levels = LogLinear({.q = args.q,
                                   .k = args.k,
                                   .v = args.v,
                                   .level_weight = at::ones({2, 75, 2, 8}, at::kDouble),
                                   .log_decay = args.log_decay,
                                   .beta = args.beta,
                                   .chunk_size = 16},
                                  path);
    CheckEqual({levels.o, levels.final_state.sum(2)}, DeltaRule(args, path));
  }
}

TEST_CASE("identity: mesa with a ridge without end is a scalar decay with a write strength") {
  constexpr double kRidge = 1e15;
  RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                      .k = RandomUnitRows({2, 75, 2, 6}, 2),
                      .v = RandomNormal({2, 75, 2, 5}, 3),
                      .log_decay = RandomUniform({2, 75, 2}, 4) * -2};
  const auto beta = RandomUniform({2, 75, 2}, 5);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto mesa = Mesa({.q = args.q,
                            .k = args.k,
                            .v = args.v,
                            .beta = beta,
                            .ridge = at::full({2, 6}, kRidge, at::kDouble),
                            .log_decay = args.log_decay},
                           path);
    RecurrenceArgs written = args;
    written.k = args.k * beta.unsqueeze(-1);
    CheckEqual({mesa.o * kRidge, mesa.final_state}, SimpleGla(written, path));
  }
}

TEST_CASE("identity: diagonal plus low rank without the low rank is a vector decay") {
  const RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                            .k = RandomNormal({2, 75, 2, 6}, 2),
                            .v = RandomNormal({2, 75, 2, 5}, 3),
                            .log_decay = RandomUniform({2, 75, 2, 6}, 4) * -2,
                            .initial_state = RandomNormal({2, 2, 6, 5}, 5),
                            .chunk_size = 32};
  const auto b = RandomNormal({2, 75, 2, 6}, 6);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CheckEqual(Dplr({.recurrence = args, .a = at::zeros_like(b), .b = b}, path), Gla(args, path));
  }
}

TEST_CASE("identity: the delta rule is diagonal plus low rank, alone and with equal channels") {
  const auto k = RandomNormal({2, 75, 2, 6}, 2);
  RecurrenceArgs args{.q = RandomNormal({2, 75, 2, 6}, 1),
                      .k = k / k.norm(2, -1, /*keepdim=*/true),
                      .v = RandomNormal({2, 75, 2, 5}, 3),
                      .log_decay = RandomUniform({2, 75, 2}, 4) * -2,
                      .beta = RandomUniform({2, 75, 2}, 5) * 2,
                      .initial_state = RandomNormal({2, 2, 6, 5}, 6),
                      .chunk_size = 32};
  const auto beta = args.beta.unsqueeze(-1);
  auto corrected = args;
  corrected.v = beta * args.v;
  corrected.beta = at::Tensor();
  const DplrArgs low_rank{.recurrence = corrected,
                          .a = beta * at::exp(args.log_decay).unsqueeze(-1) * args.k,
                          .b = args.k};
  auto wide = args;
  wide.log_decay = args.log_decay.unsqueeze(-1).expand({-1, -1, -1, 6});
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto expected = DeltaRule(args, path);
    CheckEqual(Dplr(low_rank, path), expected);
    CheckEqual(Dplr(DeltaRuleAsDplr(args), path), expected);
    CheckEqual(Dplr(DeltaRuleAsDplr(wide), path), expected);
    auto without = args;
    without.log_decay = at::Tensor();
    CheckEqual(Dplr(DeltaRuleAsDplr(without), path), DeltaRule(without, path));
  }
}

}  // namespace
}  // namespace mixerbench::kernels
