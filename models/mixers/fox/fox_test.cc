// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/fox/fox.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::fox {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kSameMaths = 1e-12;

struct Model : testing::MadeMixer {
  explicit Model(Object config, at::ScalarType dtype = at::kDouble)
      : MadeMixer(Register, std::move(config), {.d_model = kModelDim}, InitPolicy::kDefault,
                  dtype) {
    for (const Parameter& parameter : parameters.parameters()) {
      p[parameter.name] = parameter.tensor;
    }
  }

  std::map<std::string, at::Tensor> p;
};

const Object kPro = {
    {"qk_norm", true}, {"kv_shift", true}, {"use_output_norm", true}, {"use_output_gate", true}};

TEST_CASE("fox: the Pro form, token by token as its page has it") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kHeadDim = kModelDim / 2;
  constexpr std::int64_t kSeqLen = 5;
  const Model model(kPro);
  std::uint64_t seed = 3;
  for (const auto& [name, tensor] : model.p) {
    if (name.find("norm") == std::string::npos && name != "forget_bias") continue;
    at::Tensor values = tensor;
    values.copy_(testing::RandomUniform(tensor.sizes(), ++seed) + 0.5);
  }
  const at::Tensor x = RandomNormal({1, kSeqLen, kModelDim}, 1);
  const at::Tensor columns = x[0].matmul(model.p.at("qkv_proj.weight").t());  // [T,.]
  const auto take = [&](std::int64_t first, std::int64_t size) {
    return columns.narrow(1, first, size);
  };
  const auto norm = [](const at::Tensor& head, const at::Tensor& weight) {
    return head / (head.square().mean(-1, true) + 1e-5).sqrt() * weight;
  };
  const auto shifted = [&](const at::Tensor& head, std::int64_t gate) {
    at::Tensor result = head.clone();
    for (std::int64_t t = 0; t < kSeqLen; ++t) {
      const at::Tensor a = at::sigmoid(columns[t][gate]);
      const at::Tensor before = t > 0 ? head[t - 1] : at::zeros_like(head[0]);
      result[t].copy_(a * before + (1 - a) * head[t]);
    }
    return result;
  };
  at::Tensor expected = at::zeros({kSeqLen, kModelDim}, at::kDouble);
  for (std::int64_t h = 0; h < 2; ++h) {
    constexpr std::int64_t kForget = 3 * kModelDim, kShift = kForget + 2, kGate = kShift + 4;
    const auto q = norm(take(h * kHeadDim, kHeadDim), model.p.at("q_norm.weight")[h]);
    const auto k = norm(shifted(take(kModelDim + h * kHeadDim, kHeadDim), kShift + h),
                        model.p.at("k_norm.weight")[h]);
    const auto v = shifted(take(2 * kModelDim + h * kHeadDim, kHeadDim), kShift + 2 + h);
    const auto f = at::sigmoid(take(kForget + h, 1).squeeze(1) + model.p.at("forget_bias")[h]);
    for (std::int64_t i = 0; i < kSeqLen; ++i) {
      at::Tensor sum = at::zeros({kHeadDim}, at::kDouble);
      at::Tensor denominator = at::zeros({}, at::kDouble);
      at::Tensor decay = at::ones_like(denominator);
      for (std::int64_t j = i; j >= 0; --j) {
        const at::Tensor weight = (q[i].dot(k[j]) / std::sqrt(1. * kHeadDim)).exp() * decay;
        sum = sum + weight * v[j];
        denominator = denominator + weight;
        decay = decay * f[j];
      }
      const at::Tensor gate = at::sigmoid(columns[i].narrow(0, kGate + h * kHeadDim, kHeadDim));
      expected[i]
          .narrow(0, h * kHeadDim, kHeadDim)
          .copy_(norm(sum / denominator, model.p.at("o_norm.weight")) * gate);
    }
  }
  expected = expected.matmul(model.p.at("o_proj.weight").t());
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(Forward(*model.mixer, {x}, {.path = path}).y[0], expected) < kSameMaths);
  }
}

TEST_CASE("fox: heads start with the timescales that are asked for") {
  const at::NoGradGuard no_grad;
  for (const char* gate : {"full", "bias_only", "fixed"}) {
    const Model model(
        {{"num_heads", 4}, {"forget_gate", gate}, {"min_timescale", 2}, {"max_timescale", 128}});
    CHECK(model.p.contains("forget_bias") == (std::string(gate) != "fixed"));
    TapRecorder recorder;
    const at::Tensor zero = at::zeros({1, 3, kModelDim}, at::kDouble);
    Forward(*model.mixer, {zero}, {.taps = TapScope(recorder)});
    const at::Tensor expected = at::tensor({-1. / 2, -1. / 8, -1. / 32, -1. / 128}, at::kDouble);
    CHECK(RelativeError(recorder.records.at("log_decay")[0][2], expected) < 1e-6);
  }
  const Model plain(Object{});
  CHECK(plain.p.at("forget_bias").abs().sum().item<double>() == 0);
}

TEST_CASE("fox: parameters and the elements of its state") {
  constexpr std::int64_t kSquare = kModelDim * kModelDim;
  const Model plain({{"num_heads", 4}}, at::kFloat);
  CHECK(plain.parameters.num_elements() == 4 * kSquare + 4 * kModelDim + 4);
  Object config = kPro;
  config["num_heads"] = 4;
  config["num_kv_heads"] = 2;
  const Model pro(config, at::kFloat);
  // q, o and the gate; k and v; forget gate; shift; norms of q, k and o.
  CHECK(pro.parameters.num_elements() ==
        3 * kSquare + kSquare + 4 * kModelDim + 4 + 4 * kModelDim + kModelDim + kModelDim / 2 + 4);
  const StateSize size = SizeOf(pro.mixer->InitialState(1), /*more_tokens=*/10);
  CHECK(size.recurrent == 10 * (2 * 2 * 4 + 4));
  CHECK(size.conv == 2 * 2 * 4);
}

TEST_CASE("fox: impossible timescales are errors that name the option") {
  CHECK_THROWS_WITH(Model({{"min_timescale", 4}, {"max_timescale", 2}}),
                    Catch::Matchers::StartsWith("/mixer/max_timescale: "));
  CHECK_THROWS_WITH(Model({{"min_timescale", -1}, {"max_timescale", 2}}),
                    Catch::Matchers::StartsWith("/mixer/min_timescale: "));
  CHECK_THROWS_WITH(Model({{"max_timescale", 2}}),
                    Catch::Matchers::StartsWith("/mixer/min_timescale: "));
}

}  // namespace
}  // namespace mixerbench::models::fox
