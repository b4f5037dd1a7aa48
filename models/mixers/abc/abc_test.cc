// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/abc/abc.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "models/mixers/abc/cumulative_softmax.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::abc {

void Register(MixerRegistry& registry);

namespace {

using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of abc.md.
TEST_CASE("abc: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"expand_k", 1}, {"num_slots", 3}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.020219080045087493, -0.013859223719957448, 0.005897860381450312, 0.0027450320928633816,
       0.022683878164082037, -0.009666524569008947, -0.004467847352996601, 0.01808593575039045,
       0.06831457878216211, -0.03686022547599218, 0.001146477068965639, 0.034699752861104764},
      {{"keys",
        {0.10123055439244305, -0.04886589820847846, 0.16264899014519033, -0.09833584436664254,
         -0.044408358704221024, -0.07701800670427264, -0.17399314738918634, 0.16788176484206008,
         -0.160082522913128, -0.043997604981384775, 0.10277940034090423, -0.06722661463795171}},
       {"values",
        {-0.1486463713179531, 0.10868520265837135, -0.03831904146985618, 0.034747346792933065,
         -0.2263358523997703, 0.17307838734285885, 0.019374698754242456, -0.003366282423859057,
         -0.12755073269449033, 0.03538860993139503, 0.02673984573799447, -0.01281337068472832}},
       {"sums",
        {3.1430741262815842, 2.8771221371898235, 3.5275753213601, 2.8738593284196123,
         3.719556619786303, 2.8771119943146664}}});
}

TEST_CASE("abc: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 2, K = M = 4, V 8
  CHECK(parameters.num_elements() == 16 * (8 + 8 + 16 + 8 + 16) + 16 * 16 + 8);
  CHECK(SizeOf(mixer->InitialState(1)).recurrent == 2 * 4 * (4 + 8 + 1));
}

TEST_CASE("abc: the cumulative softmax weighs all tokens so far as a softmax does") {
  const at::Tensor u = RandomNormal({2, 7, 2, 3}, 1) * 10;
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto gates = CumulativeSoftmax(u, {}, path);
    CHECK(gates.writes.select(1, 0).eq(1).all().item<bool>());
    CHECK(gates.log_decay.select(1, 0).eq(0).all().item<bool>());
    // What is left at the end of each token's write.
    const at::Tensor after = gates.log_decay.flip({1}).cumsum(1).flip({1}) - gates.log_decay;
    CHECK(RelativeError(gates.writes * after.exp(), at::softmax(u, 1)) < kTolerance);
    CHECK(RelativeError(gates.final_sums, u.exp().sum(1)) < kTolerance);
  }
}

TEST_CASE("abc: the cumulative softmax has the gradients of its reference") {
  for (const std::int64_t seq_len : {1, 2, 9}) {
    for (const bool continues : {false, true}) {
      CAPTURE(seq_len, continues);
      const auto function = [&](ExecutionPath path) {
        return [=](const std::vector<at::Tensor>& x) {
          const auto gates = CumulativeSoftmax(x[0], x.size() > 1 ? x[1] : at::Tensor(), path);
          return std::vector<at::Tensor>{gates.writes, gates.log_decay, gates.final_sums};
        };
      };
      std::vector<at::Tensor> inputs = {RandomNormal({2, seq_len, 2, 3}, 1) * 3};
      if (continues) inputs.push_back(RandomNormal({2, 2, 3}, 2).exp());
      const auto actual = testing::Differentiate(function(ExecutionPath::kFast), inputs);
      const auto expected = testing::Differentiate(function(ExecutionPath::kReference), inputs);
      CHECK(RelativeError(actual, expected) < kTolerance);
    }
  }
}

TEST_CASE("abc: small writes have all their digits in float32") {
  const at::Tensor u = at::zeros({1, 4096, 1, 1}, at::kFloat);
  const auto gates =
      CumulativeSoftmax(u, at::full({1, 1, 1}, 1e6, at::kFloat), ExecutionPath::kFast);
  CHECK(RelativeError(gates.log_decay, at::log1p(-gates.writes.to(at::kDouble))) < 1e-6);
}

TEST_CASE("abc: without a norm over time nothing decays") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({{"norm", "none"}}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {RandomNormal({2, 5, kModelDim}, 1)}, {.taps = TapScope(recorder)});
  CHECK(recorder.records.count("log_decay") == 0);
  CHECK(RelativeError(recorder.records.at("slot_writes").sum(-1),
                      at::full({2, 5, 2}, 1., at::kDouble)) < 1e-6);
  CHECK_FALSE(mixer->InitialState(1).tensors.contains("sums"));
}

TEST_CASE("abc: impossible options are errors that name them") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"norm", "rows"}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/norm: "));
  CHECK_THROWS_WITH(Make({{"num_heads", 8}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/expand_k: "));
}

}  // namespace
}  // namespace mixerbench::models::abc
