// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba3/mamba3.h"

#include <numbers>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "models/mixers/mamba3/trapezoid.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mamba3 {

void Register(MixerRegistry& registry);

namespace {

using testing::MadeMixer;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

MadeMixer Make(Object config, std::int64_t d_model, at::ScalarType dtype = at::kFloat) {
  return {Register, std::move(config), {.d_model = d_model}, InitPolicy::kZoology, dtype};
}

at::Tensor Values(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

// Values of a loop over tokens in Python, written from the equations of mamba3.md.
TEST_CASE("mamba3: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 4}, {"head_dim", 2}, {"num_groups", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "B_norm.weight", "C_norm.weight",
                                            "B_bias", "C_bias", "dt_bias", "D", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.04958225647295826, 0.028243254827927434, -0.005773246987737618, -0.037198321571730024,
       0.0818404925487253, 0.05246447208291836, -0.00046118378559529064, -0.053179828898578016,
       0.11012085990291351, 0.07346229910144791, 0.003828845177080535, -0.06752325575456321},
      {{"state",
        {-0.13720365480962413, 0.10001746040729992,   0.015355714249841307,  -0.008394150842598376,
         0.027597786672603236, -0.01639734768354724,  -0.035432617223861776, 0.027922676038230707,
         -0.06245663357200571, -0.04029823235310335,  -0.040860595608731856, -0.000157196215045864,
         0.03789885486893757,  -0.005950698849543757, -0.03162103437105414,  0.009535657018785176,
         -0.06812767774907144, 0.07112305832956269,   0.102372429265596,     -0.15198157384947433,
         0.04585218759110731,  -0.07263101292088636,  -0.1335936040088404,   0.19786642211676725,
         0.05093173427918529,  -0.06209036702461128,  0.05381496862561664,   -0.05498451784672914,
         0.033348612937993204, -0.028443312004585178, -0.22924935125096543,  0.2516432462156493}},
       {"angle",
        {0.12559822694975165, 1.9140298762459307, 0.05935048748355165, 1.3997402283397065}},
       {"k",
        {-1.0342792963017615, -0.30392479654419335, -0.024038474397906587, -0.028064050650265904,
         -0.6468696760725386, -0.35649194581827154, 0.4081278711474372, -0.2680645711894697,
         -0.43019010444431105, -0.6182043607268819, -0.5498409070414756, 0.5239368681795028,
         -0.3378686219219952, 0.15367486499408822, 0.3444022787175175, 0.9411511986923984}},
       {"v",
        {0.4440211396921955, -0.3393959480739025, 0.1955517495231061, -0.029110506241121742,
         -0.14069461086598747, 0.2942417173803552, -0.4137876284789803, 0.48551817831004085}}});
}

TEST_CASE("mamba3: parameters of the published block") {
  CHECK(Make({}, 64).parameters.num_elements() == 44164);
  CHECK(Make({}, 128).parameters.num_elements() == 137992);
}

TEST_CASE("mamba3: the state is D N numbers, angles, and the last key and value") {
  const StateSize size = SizeOf(Make({}, 64).mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 128 + 2 * 32);
  CHECK(size.conv == 2 * (128 + 64));
}

TEST_CASE("mamba3: steps, biases and skip start as published under every policy") {
  const MadeMixer model = Make({{"head_dim", 4}}, 64);
  const at::Tensor steps = at::softplus(model["dt_bias"]);
  CHECK(steps.min().item<double>() > 0.99e-3);
  CHECK(steps.max().item<double>() < 0.101);
  for (const char* name : {"D", "B_bias", "C_bias"}) {
    CHECK((model[name] == 1).all().item<bool>());
  }
}

// One head of one channel and four states, of which the first two turn.
TEST_CASE("mamba3: three tokens of the recurrence") {
  TrapezoidArgs args;
  args.step = Values({0.1, 0.2, 0.3}, {1, 3, 1});
  args.written_step = args.step;
  args.A = Values({-1, -0.5, -2}, {1, 3, 1});
  args.mix = Values({0.5, 0.25, 0.75}, {1, 3, 1});
  const at::Tensor turns = at::tanh(Values({0.3, -0.2, 0.5}, {1, 3, 1, 1})) * std::numbers::pi;
  const at::Tensor angles = Angles(turns * args.step.unsqueeze(-1), {});
  args.k = TurnPairs(Values({1, 0, 0.5, 0, 0, 1, 0, 0.5, 1, 1, 0, 0}, {1, 3, 1, 4}), Turns(angles));
  args.q =
      TurnPairs(Values({0.5, 0.5, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0.5}, {1, 3, 1, 4}), Turns(angles));
  args.v = Values({1, -1, 0.5}, {1, 3, 1, 1});
  args.D = Values({0}, {1});
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(Trapezoid(args, path).o.flatten(),
                        Values({0.0250000000, 0.2700614030, 0.0523697290}, {3})) < 1e-8);
  }
}

TEST_CASE("mamba3: with all weight on the current token it is scalar decay token by token") {
  TrapezoidArgs args;
  args.q = RandomNormal({2, 7, 2, 3}, 1);
  args.k = RandomNormal({2, 7, 2, 3}, 2);
  args.v = RandomNormal({2, 7, 2, 4}, 3);
  args.step = RandomUniform({2, 7, 2}, 4);
  args.written_step = args.step;
  args.A = -RandomUniform({2, 7, 2}, 5);
  args.mix = at::ones({2, 7, 2}, at::kDouble);
  args.D = at::zeros({2}, at::kDouble);
  const auto result = Trapezoid(args, ExecutionPath::kFast);
  at::Tensor state = at::zeros({2, 2, 3, 4}, at::kDouble);
  for (std::int64_t t = 0; t < 7; ++t) {
    const at::Tensor step = args.step.select(1, t).unsqueeze(-1).unsqueeze(-1);
    const at::Tensor decay = (args.A.select(1, t).unsqueeze(-1).unsqueeze(-1) * step).exp();
    state = decay * state +
            step * args.k.select(1, t).unsqueeze(-1) * args.v.select(1, t).unsqueeze(-2);
    const at::Tensor o = (args.q.select(1, t).unsqueeze(-1) * state).sum(-2);
    CHECK(RelativeError(result.o.select(1, t), o) < 1e-12);
  }
  CHECK(RelativeError(result.final.state, state) < 1e-12);
}

// The definition, one token at a time: all ranks write, then all read.
at::Tensor RanksTokenByToken(const TrapezoidArgs& args, std::int64_t num_tokens) {
  const std::int64_t R = args.rank;
  const auto of_token = [&](const at::Tensor& x, std::int64_t t) {  // [B,H,R,D]
    return x.narrow(1, t * R, R).transpose(1, 2);
  };
  const auto gate = [&](const at::Tensor& x, std::int64_t t) {
    return x.select(1, t).unsqueeze(-1).unsqueeze(-1);
  };
  at::Tensor state =
      at::zeros({args.v.size(0), args.v.size(2), args.k.size(3), args.v.size(3)}, at::kDouble);
  std::vector<at::Tensor> read;
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const at::Tensor step = gate(args.step, t), mix = gate(args.mix, t);
    const at::Tensor decay = (gate(args.A, t) * step).exp();
    state = decay * state;
    if (t > 0) {
      state = state +
              (1 - mix) * step * decay *
                  at::matmul(of_token(args.k, t - 1).transpose(-1, -2), of_token(args.v, t - 1));
    }
    state =
        state + mix * step * at::matmul(of_token(args.k, t).transpose(-1, -2), of_token(args.v, t));
    read.push_back(
        (at::matmul(of_token(args.q, t), state) + args.D.view({-1, 1, 1}) * of_token(args.v, t))
            .transpose(1, 2));
  }
  return at::cat(read, 1);
}

TrapezoidArgs RandomRanks(std::int64_t rank, std::int64_t num_tokens) {
  TrapezoidArgs args;
  args.rank = rank;
  args.q = RandomNormal({2, num_tokens * rank, 2, 3}, 1);
  args.k = RandomNormal({2, num_tokens * rank, 2, 3}, 2);
  args.v = RandomNormal({2, num_tokens * rank, 2, 4}, 3);
  args.step = RandomUniform({2, num_tokens, 2}, 4);
  args.written_step = args.step;
  args.A = -RandomUniform({2, num_tokens, 2}, 5);
  args.mix = RandomUniform({2, num_tokens, 2}, 6);
  args.D = RandomNormal({2}, 7);
  return args;
}

TEST_CASE("mamba3: every rank reads what all ranks of its token wrote") {
  for (const std::int64_t rank : {1, 2, 3}) {
    const TrapezoidArgs args = RandomRanks(rank, 29);
    const at::Tensor expected = RanksTokenByToken(args, 29);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(Trapezoid(args, path).o, expected) < 1e-12);
    }
  }
}

TEST_CASE("mamba3: ranks go on from the state that a piece leaves") {
  constexpr std::int64_t kTokens = 29, kCut = 11, kRank = 3;
  const TrapezoidArgs args = RandomRanks(kRank, kTokens);
  const auto piece = [&](std::int64_t start, std::int64_t length) {
    TrapezoidArgs part = args;
    for (at::Tensor* x : {&part.q, &part.k, &part.v}) {
      *x = x->narrow(1, start * kRank, length * kRank);
    }
    for (at::Tensor* x : {&part.step, &part.written_step, &part.A, &part.mix}) {
      *x = x->narrow(1, start, length);
    }
    return part;
  };
  const TrapezoidResult first = Trapezoid(piece(0, kCut), ExecutionPath::kFast);
  TrapezoidArgs rest = piece(kCut, kTokens - kCut);
  rest.initial = first.final;
  const TrapezoidResult second = Trapezoid(rest, ExecutionPath::kFast);
  const TrapezoidResult whole = Trapezoid(args, ExecutionPath::kFast);
  CHECK(RelativeError(at::cat({first.o, second.o}, 1), whole.o) < 1e-12);
  CHECK(RelativeError(second.final.state, whole.final.state) < 1e-12);
}

TEST_CASE("mamba3: equal ranks are one") {
  constexpr std::int64_t kRank = 3, kStates = 6;
  const Object sizes = {{"d_state", kStates}, {"head_dim", 8}};
  Object with_ranks = sizes;
  with_ranks["mimo_rank"] = kRank;
  const MadeMixer one = Make(sizes, 16, at::kDouble);
  const MadeMixer many = Make(with_ranks, 16, at::kDouble);
  // Rows: 32 values, writes, reads, three gates of 4 heads, one angle, 32 of the gate.
  const auto rows = one["in_proj.weight"].split_with_sizes({32, kStates, kStates, 12 + 1 + 32}, 0);
  at::NoGradGuard no_grad;
  many["in_proj.weight"].copy_(
      at::cat({rows[0], rows[1].repeat({kRank, 1}), rows[2].repeat({kRank, 1}), rows[3]}, 0));
  many["dt_bias"].copy_(one["dt_bias"]);
  many["o_proj.weight"].copy_(one["o_proj.weight"]);
  many["D"].mul_(kRank);  // which sees a rank's share of the values
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  CHECK(RelativeError(Forward(*many.mixer, {.x = x}).y, Forward(*one.mixer, {.x = x}).y) < 1e-12);
}

TEST_CASE("mamba3: ranks multiply writes and reads, not the state") {
  const MadeMixer model = Make({{"mimo_rank", 4}}, 64);
  CHECK(model.parameters.num_elements() == 96388);
  const StateSize size = SizeOf(model.mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 128 + 2 * 32);
  CHECK(size.conv == 4 * 2 * 128 + 2 * 64);
}

TEST_CASE("mamba3: what reads and what is written turn together, distances stay") {
  const at::Tensor x = RandomNormal({1, 5, 2, 6}, 1);
  const at::Tensor y = RandomNormal({1, 5, 2, 6}, 2);
  const at::Tensor angles = Angles(RandomNormal({1, 5, 2, 2}, 3) * 5, RandomUniform({1, 2, 2}, 4));
  CHECK(angles.min().item<double>() >= 0);
  CHECK(angles.max().item<double>() < 2 * std::numbers::pi);
  CHECK(RelativeError((TurnPairs(x, Turns(angles)) * TurnPairs(y, Turns(angles))).sum(-1),
                      (x * y).sum(-1)) < 1e-12);
  CHECK(TurnPairs(x, Turns(angles)).narrow(-1, 4, 2).equal(x.narrow(-1, 4, 2)));
}

TEST_CASE("mamba3: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"head_dim", 5}}, 16), Catch::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Make({{"head_dim", -1}}, 16), Catch::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Make({{"num_groups", 3}}, 64), Catch::StartsWith("/mixer/num_groups: "));
  CHECK_THROWS_WITH(Make({{"rope_fraction", 0.75}}, 16),
                    Catch::StartsWith("/mixer/rope_fraction: "));
  CHECK_THROWS_WITH(Make({{"d_state", 2}}, 16), Catch::StartsWith("/mixer/rope_fraction: "));
  CHECK_THROWS_WITH(Make({{"mimo_rank", 0}}, 16), Catch::StartsWith("/mixer/mimo_rank: "));
  CHECK_THROWS_WITH(Make({{"A_floor", 0}}, 16), Catch::StartsWith("/mixer/A_floor: "));
}

}  // namespace
}  // namespace mixerbench::models::mamba3
