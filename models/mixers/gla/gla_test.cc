// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gla/gla.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gla {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

at::Tensor LogDecay(Object config, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make(std::move(config), parameters);
  TapRecorder recorder;
  Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  return recorder.records.at("log_decay");
}

// Values of a loop over tokens in Python, written from the equations of gla.md.
TEST_CASE("gla: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"expand_k", 1}, {"gate_low_rank_dim", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "decay_proj.weight",
                                            "decay_proj.bias", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.01167929035033563, -0.015241953858742212, 0.04040190923263109, -0.06089320911056245,
       0.029964420782349777, -0.045518858100346365, 0.05581334926539581, -0.05965831107045085,
       -0.09121477296297067, 0.047134758337534374, 0.0023919283076843188, -0.0516422149150901},
      {0.27927200531381297, -0.2049920662941555, -0.4077614264605002, 0.3134517912199585,
       0.2377582333075135, -0.061571714994377774, -0.2655049937948428, 0.08409475529740841});
}

TEST_CASE("gla: the normaliser slows the decay and the bound limits it") {
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1) * 100;
  const at::Tensor plain = LogDecay({{"gate_logit_normalizer", 1}}, x);
  CHECK(plain.sizes() == at::IntArrayRef({2, 9, 2, 4}));
  CHECK(plain.min().item<double>() < -5);
  CHECK(LogDecay({{"gate_logit_normalizer", 16}}, x).allclose(plain / 16));
  CHECK(LogDecay({{"gate_logit_normalizer", 1}, {"min_log_decay", -5}}, x)
            .equal(plain.clamp_min(-5)));
}

// Grouped queries are those of a mixer whose key heads are equal in each group.
TEST_CASE("gla: heads of a group share keys, values, decays and the state") {
  const at::NoGradGuard no_grad;
  ParameterSet shared = testing::NewParameters(), repeated = testing::NewParameters();
  const auto grouped = Make({{"num_heads", 4}, {"num_kv_heads", 2}}, shared);
  const auto full = Make({{"num_heads", 4}}, repeated);
  const auto repeat = [](const at::Tensor& rows) {  // of two heads
    return rows.unflatten(0, {2, -1}).repeat_interleave(2, 0).flatten(0, 1);
  };
  for (std::size_t i = 0; i < shared.parameters().size(); ++i) {
    const std::string& name = shared.parameters()[i].name;
    const at::Tensor& from = shared.parameters()[i].tensor;
    const at::Tensor to = repeated.parameters()[i].tensor;
    if (from.sizes() == to.sizes()) {
      to.copy_(from);
    } else if (name == "in_proj.weight") {  // q, k, v, inner decay logits, gate
      const auto rows = from.split_with_sizes({8, 4, 8, 16, 16});
      to.copy_(at::cat({rows[0], repeat(rows[1]), repeat(rows[2]), rows[3], rows[4]}));
    } else {  // of the decay
      to.copy_(repeat(from));
    }
  }
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const MixerOptions options{.path = path, .want_final_state = true};
    const MixerResult a = Forward(*grouped, {x}, options), b = Forward(*full, {x}, options);
    CHECK(testing::RelativeError(a.y, b.y) < 1e-12);
    CHECK(testing::RelativeError(Find(&a.final_state, "state").repeat_interleave(2, 1),
                                 Find(&b.final_state, "state")) < 1e-12);
  }
  CHECK(SizeOf(grouped->InitialState(1)).recurrent == 2 * 2 * 4);
}

TEST_CASE("gla: a feature map of queries and keys stands before the recurrence") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = testing::NewParameters(), mapped_parameters = testing::NewParameters();
  const Object one_head = {{"num_heads", 1}, {"expand_k", 1}, {"output_gate", "none"}};
  Object with_map = one_head;
  with_map["feature_map"] = "relu";
  const auto plain = Make(one_head, parameters);
  const auto mapped = Make(with_map, mapped_parameters);
  for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
    const at::Tensor& from = parameters.parameters()[i].tensor;
    if (parameters.parameters()[i].name == "in_proj.weight") {
      from.narrow(0, 0, 32).abs_();  // q and k are positive where x is
    }
    mapped_parameters.parameters()[i].tensor.copy_(from);
  }
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  const auto difference = [&](const at::Tensor& input) {
    return testing::RelativeError(Forward(*mapped, {input}).y, Forward(*plain, {input}).y);
  };
  CHECK(difference(x.abs()) == 0);
  CHECK(difference(x) > 0.01);
}

// Xavier-uniform with gain 2^-2.5: bounds 0.17678 sqrt(6 / (in + out)) of each projection.
TEST_CASE("gla: MAD's start has the bound of each projection, where the policy keeps it") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kWidth = 96;
  const auto make = [](InitPolicy policy) {
    return testing::MadeMixer(
        Register,
        {{"num_heads", 2}, {"expand_k", 1}, {"gate_low_rank_dim", 12}, {"init", "xavier"}},
        {.d_model = kWidth}, policy);
  };
  const auto largest = [](const at::Tensor& x) { return x.abs().max().item<double>(); };
  const testing::MadeMixer mad = make(InitPolicy::kMad);
  // q, k, v, inner decay logits, gate
  const auto rows = mad["in_proj.weight"].split_with_sizes({kWidth, kWidth, kWidth, 12, kWidth});
  const double square = std::sqrt(6.0 / 192) * std::exp2(-2.5);     // 0.03125
  const double rectangle = std::sqrt(6.0 / 108) * std::exp2(-2.5);  // 0.04167, either way
  for (const std::size_t i : {0, 1, 2, 4}) {
    CAPTURE(i);
    CHECK(largest(rows[i]) <= square);
    CHECK(largest(rows[i]) > 0.99 * square);  // of 9216 draws
  }
  for (const at::Tensor& x : {rows[3], mad["decay_proj.weight"]}) {
    CHECK(largest(x) <= rectangle);
    CHECK(largest(x) > 0.97 * rectangle);  // of 1152
  }
  CHECK(largest(mad["o_proj.weight"]) <= square);
  CHECK(largest(mad["o_proj.weight"]) > 0.99 * square);
  // MAD's auto-encoder draws them anew.
  const at::Tensor reset = make(InitPolicy::kMadReset)["in_proj.weight"];
  CHECK(largest(reset) > 0.06);
  CHECK(std::abs(reset.std().item<double>() - 0.02) < 0.001);
}

TEST_CASE("gla: the decay's bias starts at 0, also where the policy keeps mixers' starts") {
  for (const char* init : {"backbone", "xavier"}) {
    CAPTURE(init);
    const testing::MadeMixer made(Register, {{"init", init}}, {.d_model = kModelDim},
                                  InitPolicy::kDefault);
    CHECK(made["decay_proj.bias"].eq(0).all().item<bool>());
    CHECK(made["decay_proj.weight"].ne(0).any().item<bool>());
  }
}

TEST_CASE("gla: impossible gates are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"min_log_decay", 1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/min_log_decay: "));
  CHECK_THROWS_WITH(Make({{"gate_logit_normalizer", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/gate_logit_normalizer: "));
  CHECK_THROWS_WITH(Make({{"output_gate", "swish"}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/output_gate: "));
  CHECK_THROWS_WITH(Make({{"num_heads", 4}, {"num_kv_heads", 3}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_kv_heads: "));
  CHECK_THROWS_WITH(Make({{"feature_map", "taylor"}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/feature_map: must keep"));
}

}  // namespace
}  // namespace mixerbench::models::gla
