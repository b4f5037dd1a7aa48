// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/moe/moe.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::moe {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 6;
constexpr std::int64_t kExperts = 4;

struct Model : testing::MadeMixer {
  explicit Model(bool drop_unchosen)
      : MadeMixer(Register,
                  {{"num_experts", kExperts}, {"expert_dim", 3}, {"drop_unchosen", drop_unchosen}},
                  {.d_model = kModelDim}, InitPolicy::kDefault) {}
};

TEST_CASE("moe: one token by hand, with and without what is not chosen") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = testing::RandomNormal({1, 1, kModelDim}, 1);
  for (const bool drop_unchosen : {false, true}) {
    CAPTURE(drop_unchosen);
    const Model model(drop_unchosen);
    const at::Tensor up = at::matmul(model["up.weight"], x.flatten());
    const at::Tensor inner = up.narrow(0, 0, 12) * at::gelu(up.narrow(0, 12, 12), "tanh");
    const at::Tensor z = at::matmul(model["down.weight"], inner);
    const at::Tensor scores =
        at::matmul(model["router.weight"], x.flatten()) + model["router.bias"];
    const double second = std::get<0>(scores.sort(0, true))[1].item<double>();
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const double score = scores[e].item<double>();
      const double unchosen = drop_unchosen ? 0 : 1;  // e^0
      weights.push_back(score >= second ? std::exp(score) : unchosen);
      sum += weights.back();
    }
    const at::Tensor y = Forward(*model.mixer, {.x = x}).y.flatten();
    for (std::int64_t i = 0; i < kModelDim; ++i) {
      double expected = 0;
      for (std::int64_t e = 0; e < kExperts; ++e) {
        expected += weights[static_cast<std::size_t>(e)] / sum * z[i * kExperts + e].item<double>();
      }
      CHECK(std::abs(y[i].item<double>() - expected) < 1e-12);
    }
  }
}

TEST_CASE("moe: MAD's layer has its parameters") {
  const testing::MadeMixer made(Register, {}, {.d_model = 128});
  CHECK(made.parameters.num_elements() == 2 * 128 * 128 + 128 * 1024 + 129 * 8);
}

}  // namespace
}  // namespace mixerbench::models::moe
