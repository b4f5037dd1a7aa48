// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/base_conv/base_conv.h"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::base_conv {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kFftTolerance = 1e-12;

std::unique_ptr<Mixer> Make(Object config, std::int64_t layer_index, ParameterSet& parameters) {
  return testing::MakeMixer(
      Register, std::move(config),
      {.d_model = kModelDim, .layer_index = layer_index, .num_layers = 4, .max_seq_len = 32},
      ParameterScope(parameters));
}

TEST_CASE("base conv: kernel sizes go round by layer") {
  const Object config = {{"kernel_sizes", Array{3, -1, 5}}};
  for (const std::int64_t layer : {0, 1, 2, 3}) {
    ParameterSet layer_parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    const auto mixer = Make(config, layer, layer_parameters);
    const std::int64_t width[] = {3, 0, 5, 3};
    CHECK(SizeOf(mixer->InitialState(1)).conv == width[layer] * kModelDim);
    CHECK(mixer->traits().max_seq_len == (layer == 1 ? 32 : 0));
  }
}

TEST_CASE("base conv: without its filter the layer is a gate and a residual") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"kernel_sizes", Array{-1}}}, 0, parameters);
  at::Tensor weight;
  at::Tensor bias;
  for (const Parameter& parameter : parameters.parameters()) {
    at::Tensor tensor = parameter.tensor;
    if (parameter.name == "proj.weight") weight = tensor;
    if (parameter.name == "proj.bias") bias = tensor;
    if (parameter.name.starts_with("conv.output")) tensor.zero_();
  }
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
  CHECK(RelativeError(Forward(*mixer, {x}).y, x * (x.matmul(weight.t()) + bias) + x) <
        kFftTolerance);
}

TEST_CASE("base conv: an input longer than the filter is refused") {
  const at::NoGradGuard no_grad;
  for (const char* filter : {"implicit", "explicit"}) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    const auto mixer = Make({{"kernel_sizes", Array{-1}}, {"long_filter", filter}}, 0, parameters);
    CHECK_NOTHROW(Forward(*mixer, {RandomNormal({1, 32, kModelDim}, 1)}));
    CHECK_THROWS_AS(Forward(*mixer, {RandomNormal({1, 33, kModelDim}, 1)}), std::logic_error);
  }
}

TEST_CASE("base conv: the expanded layer with an explicit filter, as its page has it") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"kernel_sizes", Array{-1}}, {"long_filter", "explicit"}, {"expand", 4}},
                          0, parameters);
  std::map<std::string, at::Tensor> p;
  for (const Parameter& parameter : parameters.parameters()) p[parameter.name] = parameter.tensor;
  const at::Tensor x = RandomNormal({1, 7, kModelDim}, 1);
  const auto halves = (x[0].matmul(p.at("in_proj.weight").t()) + p.at("in_proj.bias")).chunk(2, -1);
  at::Tensor y = halves[0].clone();
  for (std::int64_t t = 0; t < 7; ++t) {
    for (std::int64_t s = 0; s <= t; ++s)
      y[t].add_(p.at("conv.filter").select(1, t - s) * halves[0][s]);
  }
  y = (y * y.sigmoid() * halves[1]).matmul(p.at("out_proj.weight").t()) + p.at("out_proj.bias");
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(Forward(*mixer, {x}, {.path = path}).y[0], y) < kFftTolerance);
  }
}

TEST_CASE("base conv: the parameters of each form") {
  const auto count = [](Object config) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
    Make(std::move(config), 0, parameters);
    return parameters.num_elements();
  };
  constexpr std::int64_t d = kModelDim, kSquare = d * d;
  CHECK(count({{"kernel_sizes", Array{3}}}) == kSquare + 5 * d);
  CHECK(count({{"kernel_sizes", Array{-1}}}) == kSquare + 18 * d + 64);
  CHECK(count({{"kernel_sizes", Array{-1}}, {"long_filter", "explicit"}}) == kSquare + d + 32 * d);
  CHECK(count({{"kernel_sizes", Array{3}}, {"expand", 4}}) ==
        6 * kSquare + 4 * d + d + (3 + 1) * 2 * d);
}

TEST_CASE("base conv: impossible kernels are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"kernel_sizes", Array{}}}, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/kernel_sizes: "));
  CHECK_THROWS_WITH(Make({{"kernel_sizes", Array{3, 0}}}, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/kernel_sizes/1: "));
}

}  // namespace
}  // namespace mixerbench::models::base_conv
