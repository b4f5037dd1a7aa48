// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/linear_attention/linear_attention.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::linear_attention {

void Register(MixerRegistry& registry);

namespace {

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = d_model},
                            ParameterScope(parameters));
}

TEST_CASE("linear attention: Based reproduces the golden vector of Taylor attention") {
  // q_t = (cos t, sin t), k_t = (cos(t+1), sin(t+1)), v_t = 1, 2, 3, read off x = [q, k, v] by a
  // projection that selects.
  const at::NoGradGuard no_grad;
  constexpr std::int64_t d = 5;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", 1},
                           {"head_k_dim", 2},
                           {"expand_v", 0.2},
                           {"feature_map", "taylor"},
                           {"scale", 1},
                           {"use_normalizer", true},
                           {"normalizer_eps", 1e-12},
                           {"use_output_norm", false}},
                          d, parameters);
  parameters.parameters()[0].tensor.copy_(at::eye(d));
  at::Tensor last = at::zeros({d, 1});
  last[4][0] = 1;
  parameters.parameters()[1].tensor.copy_(last);
  at::Tensor x = at::zeros({1, 3, d}, at::TensorOptions(at::kDouble));
  for (std::int64_t t = 0; t < 3; ++t) {
    const auto angle = static_cast<double>(t);
    x[0][t].copy_(at::tensor(
        {std::cos(angle), std::sin(angle), std::cos(angle + 1), std::sin(angle + 1), angle + 1},
        x.options()));
  }
  const at::Tensor expected = at::tensor({1.0, 1.4264283216, 2.0}, x.options());
  constexpr double kPrintedDigits = 1e-10;
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*mixer, {x}, {.path = path}).y[0].select(1, 4), expected) <
          kPrintedDigits);
  }
}

// phi(x) for x [T,K] by the table of linear_attention.md; `p` are the map's parameters.
at::Tensor Features(const std::string& map, const at::Tensor& x,
                    const std::map<std::string, at::Tensor>& p) {
  const double dim = static_cast<double>(x.size(1));
  const auto affine = [&] { return x.matmul(p.at("weight").t()) + p.at("bias"); };
  if (map == "identity") return x;
  if (map == "elu1") return at::where(x > 0, x + 1, x.exp());
  if (map == "relu") return x.clamp_min(0);
  if (map == "silu") return x * at::sigmoid(x);
  if (map == "t2r") return affine().clamp_min(0);
  if (map == "elementwise_product") {
    const auto halves = affine().chunk(2, -1);
    return halves[0] * halves[1];
  }
  if (map == "hedgehog") {
    const at::Tensor z = 2 * affine();
    const at::Tensor e = at::cat({z.exp(), (-z).exp()}, -1);
    return e / e.sum(-1, true);
  }
  std::vector<at::Tensor> parts;
  if (map == "dpfp") {
    const at::Tensor r = at::cat({x, -x}, -1).clamp_min(0);
    for (std::int64_t j = 1; j <= 4; ++j) parts.push_back(r * r.roll(j, -1));
  } else {  // taylor, with the full outer product of zoology
    parts = {at::ones_like(x.narrow(1, 0, 1)), x / std::pow(dim, 0.25),
             (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(1) / std::sqrt(2 * dim)};
  }
  return at::cat(parts, -1);
}

// The sum over all earlier tokens, without a state: the normaliser too.
TEST_CASE("linear attention: every feature map and normaliser by the definition") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t d = 8, kHeads = 2, kHeadDim = 4, kTokens = 9;
  const at::Tensor x = testing::RandomNormal({1, kTokens, d}, 1);
  for (const char* map : {"identity", "elu1", "relu", "silu", "elementwise_product", "t2r",
                          "hedgehog", "dpfp", "taylor"}) {
    const bool is_positive = map != std::string("identity") && map != std::string("silu") &&
                             map != std::string("elementwise_product");
    for (const bool normalise : {false, true}) {
      if (normalise && !is_positive) continue;
      // The sum of Taylor features, unlike their product, depends on how often each is there.
      const bool norm_features = normalise && map != std::string("taylor");
      CAPTURE(map, normalise);
      ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
      const auto mixer = Make({{"num_heads", kHeads},
                               {"feature_map", map},
                               {"norm_q", norm_features},
                               {"norm_k", norm_features},
                               {"use_normalizer", normalise},
                               {"normalizer_eps", 1e-3},
                               {"scale", 0.5},
                               {"use_output_norm", false}},
                              d, parameters);
      std::map<std::string, at::Tensor> all, of_q, of_k;
      for (const Parameter& parameter : parameters.parameters()) {
        const auto of = [&](const std::string& prefix, auto& target) {
          if (!parameter.name.starts_with(prefix)) return;
          target[parameter.name.substr(prefix.size())] = parameter.tensor;
        };
        of("", all);
        of("feature_map_q.", of_q);
        of("feature_map_k.", of_k);
      }
      const auto qkv =
          x[0].matmul(all.at("in_proj.weight").t()).view({kTokens, 3, kHeads, kHeadDim});
      at::Tensor expected = at::zeros({kTokens, d}, at::kDouble);
      for (std::int64_t h = 0; h < kHeads; ++h) {
        at::Tensor q = Features(map, qkv.select(1, 0).select(1, h), of_q);
        at::Tensor k = Features(map, qkv.select(1, 1).select(1, h), of_k);
        if (norm_features) {
          q = q / (q.sum(-1, true) + 1e-4);
          k = k / (k.sum(-1, true) + 1e-4);
        }
        const at::Tensor weights = q.matmul(k.t()).tril() * 0.5;
        at::Tensor o = weights.matmul(qkv.select(1, 2).select(1, h));
        if (normalise) o = o / (weights.sum(-1, true) + 1e-3);
        expected.narrow(1, h * kHeadDim, kHeadDim).copy_(o);
      }
      expected = expected.matmul(all.at("o_proj.weight").t());
      for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
        CHECK(testing::RelativeError(Forward(*mixer, {x}, {.path = path}).y[0], expected) < 1e-11);
      }
    }
  }
}

TEST_CASE("linear attention: parameters and state of Based are the published ones") {
  const auto based = [](std::int64_t d_model, std::int64_t feature_dim) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
    const auto mixer = Make({{"num_heads", 1},
                             {"head_k_dim", feature_dim},
                             {"feature_map", "taylor"},
                             {"scale", 1},
                             {"use_normalizer", true},
                             {"normalizer_eps", 1e-12},
                             {"use_output_norm", false}},
                            d_model, parameters);
    CHECK(parameters.num_elements() == 2 * d_model * feature_dim + 2 * d_model * d_model);
    return SizeOf(mixer->InitialState(1)).recurrent;
  };
  CHECK(based(64, 8) == 2'925);
  CHECK(based(64, 16) == 9'945);
  CHECK(based(128, 16) == 19'737);
  CHECK(based(128, 24) == 41'925);
}

TEST_CASE("linear attention: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: 3 does not divide d_model 16"));
  CHECK_THROWS_WITH(Make({{"expand_v", 0.3}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/expand_v: "));
  CHECK_THROWS_WITH(Make({{"feature_map", "taylr"}}, 16, parameters),
                    Catch::Matchers::Contains("did you mean 'taylor'"));
}

}  // namespace
}  // namespace mixerbench::models::linear_attention
