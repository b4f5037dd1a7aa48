// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv7/rwkv7.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::rwkv7 {

void Register(MixerRegistry& registry);

namespace {

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

// Layer `layer` of two.
std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, std::int64_t layer,
                            ParameterSet& parameters) {
  MixerContext context{.d_model = d_model, .layer_index = layer, .num_layers = 2};
  if (layer > 0) context.offered.insert("v_first");
  return testing::MakeMixer(Register, std::move(config), context, ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of rwkv7.md.
TEST_CASE("rwkv7: outputs and state are those of an independent loop") {
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  const auto mixer = Make({{"decay_low_rank_dim", 2},
                           {"a_low_rank_dim", 2},
                           {"v_low_rank_dim", 2},
                           {"gate_low_rank_dim", 2}},
                          4, /*layer=*/1, parameters);
  testing::FillParameters(
      parameters,
      {"token_mix",     "r_proj.weight", "k_proj.weight", "v_proj.weight", "decay_down", "decay_up",
       "decay_bias",    "a_down",        "a_up",          "a_bias",        "gate_down",  "gate_up",
       "v_down",        "v_up",          "v_bias",        "k_k",           "k_a",        "r_k",
       "o_norm.weight", "o_norm.bias",   "o_proj.weight"});
  testing::CheckOutputsAndState(
      *mixer,
      {.x = testing::Sines({1, 3, 4}, 30), .values = {{"v_first", testing::Sines({1, 3, 4}, 31)}}},
      {-0.076890825249073855, 0.076587091468524077, -0.067433311927880296, 0.050487254538930916,
       -0.044012188708583908, 0.086176326489213237, -0.11838233140120162, 0.136908628284093,
       -0.14991596210952349, 0.15023206964688418, -0.13318806250284412, 0.10075346635422333},
      {0.024748870279244307, -0.022534427912930168, 0.0076184583715090456, 0.017802406060419412,
       -0.14004077281026875, -0.089959423751823683, 0.14602966902173059, 0.06865178542920114});
}

TEST_CASE("rwkv7: the first layer offers its values, later ones read them") {
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  const auto first = Make({}, 16, 0, parameters);
  CHECK(first->traits().offers == std::set<std::string>{"v_first"});
  CHECK(first->traits().reads.empty());
  const at::Tensor x = testing::RandomNormal({2, 5, 16}, 1);
  CHECK(Forward(*first, {x}).offers.at("v_first").sizes() == at::IntArrayRef({2, 5, 16}));

  ParameterSet others(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  const auto second = Make({}, 16, 1, others);
  CHECK(second->traits().offers.empty());
  CHECK(second->traits().reads == std::set<std::string>{"v_first"});
}

TEST_CASE("rwkv7: parameters start as those of its authors") {
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  Make({}, 128, /*layer=*/1, parameters);
  const auto at_channel = [&](const std::string& name, std::int64_t i) {
    return testing::FindParameter(parameters, name).flatten()[i].item<double>();
  };
  const auto close = [](double value) { return Approx(value).epsilon(1e-12); };
  // l = 1 of L = 2: r1 = 1/2, r0 = 1. Channel 100 is number 36 of head 1.
  const double i = 100, ramp = 100.0 / 127, z = (36 - 31.5) / 31.5;
  CHECK(at_channel("token_mix", 100) == close(1 - std::pow(i / 128, 0.1)));
  CHECK(at_channel("token_mix", 128 + 100) == close(1 - std::pow(i / 128, 0.45)));
  CHECK(at_channel("token_mix", 0) == 1);
  CHECK(at_channel("decay_bias", 100) == close(-5.5 + 6 * ramp * ramp + 2.5 * z * z));
  CHECK(at_channel("a_bias", 100) == close(-0.19 + 0.3 * z * z + 0.4 * (ramp - 0.5)));
  CHECK(at_channel("v_bias", 100) == close(0.73 - 0.4 * (ramp - 0.5)));
  CHECK(at_channel("k_k", 100) == close(0.71 - 0.1 * (ramp - 0.5)));
  CHECK(at_channel("k_a", 100) == 1.02);
  CHECK(at_channel("r_k", 100) == -0.04);
  CHECK(at_channel("o_norm.weight", 100) == 1);
  CHECK(at_channel("decay_down", 100) == 0);
  // Ranks: 2.5 and 1.7 sqrt(128) are nearest to 32, 5 sqrt(128) = 57 to 64.
  CHECK(testing::FindParameter(parameters, "decay_up").sizes() == at::IntArrayRef({128, 32}));
  CHECK(testing::FindParameter(parameters, "v_up").sizes() == at::IntArrayRef({128, 32}));
  CHECK(testing::FindParameter(parameters, "gate_up").sizes() == at::IntArrayRef({128, 64}));
  const auto is_orthogonal = [](const at::Tensor& columns, double gain) {
    const at::Tensor product = columns.t().matmul(columns);
    return testing::RelativeError(product, at::eye(columns.size(1), at::kDouble) * gain * gain) <
           kFloat64Tolerance;
  };
  CHECK(is_orthogonal(testing::FindParameter(parameters, "r_proj.weight"), 1));
  CHECK(is_orthogonal(testing::FindParameter(parameters, "k_proj.weight"), 0.1));
  CHECK(is_orthogonal(testing::FindParameter(parameters, "gate_up"), 0.1));

  // Models of fla draw their other linear layers.
  ParameterSet fla(1, InitPolicy::kFla, 2, at::kCPU, at::kDouble);
  Make({}, 128, /*layer=*/1, fla);
  CHECK(is_orthogonal(testing::FindParameter(fla, "r_proj.weight"), 1));
  CHECK(is_orthogonal(testing::FindParameter(fla, "k_proj.weight"), 0.1));
  CHECK(is_orthogonal(testing::FindParameter(fla, "v_proj.weight"), 1));
  CHECK(testing::FindParameter(fla, "o_proj.weight").std().item<double>() ==
        Approx(0.02).epsilon(0.05));

  ParameterSet zoology(1, InitPolicy::kZoology, 2, at::kCPU, at::kDouble);
  Make({}, 128, /*layer=*/0, zoology);
  CHECK(testing::FindParameter(zoology, "r_proj.weight").std().item<double>() ==
        Approx(0.02).epsilon(0.05));
  CHECK(testing::FindParameter(zoology, "o_norm.weight")[0].item<double>() ==
        close(std::pow(0.5, 0.7)));
}

// sqrt(256) = 16: 5 16 and, in two heads of 128, 2.5 16 128/64 are both 80 = 2.5 32.
TEST_CASE("rwkv7: widths halfway between two multiples of 32 are the even one") {
  const auto width = [](std::int64_t num_heads, const char* name) {
    ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
    Make({{"num_heads", num_heads}}, 256, /*layer=*/0, parameters);
    return testing::FindParameter(parameters, name).size(1);
  };
  CHECK(width(4, "gate_up") == 64);
  CHECK(width(4, "decay_up") == 32);
  CHECK(width(2, "decay_up") == 64);
  CHECK(width(2, "a_up") == 64);
}

TEST_CASE("rwkv7: decays stay above exp(-0.61), and the write gate is the learning rate") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  const auto mixer = Make({{"init", "backbone"}}, 16, 0, parameters);
  TapRecorder recorder;
  Forward(*mixer, {testing::RandomNormal({2, 9, 16}, 1) * 100}, {.taps = TapScope(recorder)});
  const at::Tensor& log_decay = recorder.records.at("log_decay");
  CHECK(log_decay.sizes() == at::IntArrayRef({2, 9, 2, 8}));
  CHECK(log_decay.min().item<double>() > -0.60654);
  CHECK(log_decay.max().item<double>() < 0);
  CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(recorder.records.at("erase").sizes() == at::IntArrayRef({2, 9, 2}));
}

// 24 layers of 16 heads of 64 are 16 64 64 + 1024 each without the channel mixer's shift.
TEST_CASE("rwkv7: parameters and state are as many as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
  const std::int64_t d = 128;
  const auto mixer = Make({{"decay_low_rank_dim", 16},
                           {"a_low_rank_dim", 16},
                           {"v_low_rank_dim", 16},
                           {"gate_low_rank_dim", 64}},
                          d, /*layer=*/1, parameters);
  const std::int64_t small = 6 * d + 3 * d + 3 * d + 2 * d;  // mixes; biases; k_k, k_a, r_k; norm
  CHECK(parameters.num_elements() == 4 * d * d + 2 * d * (16 + 16 + 16 + 64) + small);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == 2 * 64 * 64);
  CHECK(size.conv == d);
}

TEST_CASE("rwkv7: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, 16, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: "));
  CHECK_THROWS_WITH(Make({{"a_low_rank_dim", -1}}, 16, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/a_low_rank_dim: "));
  CHECK_THROWS_WITH(Make({{"init", "zeros"}}, 16, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/init: "));
}

}  // namespace
}  // namespace mixerbench::models::rwkv7
