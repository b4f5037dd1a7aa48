// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hyena/hyena.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::hyena {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kMaxSeqLen = 64;

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model, InitPolicy policy = InitPolicy::kDefault)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = kMaxSeqLen},
                  policy) {}

  at::Tensor Linear(const std::string& name, const at::Tensor& x) const {
    return x.matmul((*this)[name + ".weight"].t()) + (*this)[name + ".bias"];
  }

  // [T,filters], by the page.
  at::Tensor Filter(std::int64_t length) const {
    at::Tensor x = (*this)["filter.z"].narrow(0, 0, length);
    for (const std::string layer : {"0", "1", "2"}) {
      x = (Linear("filter.layers." + layer, x) * (*this)["filter.freq"]).sin();
    }
    const at::Tensor output = x.matmul((*this)["filter.output.weight"].t());
    const at::Tensor rates =
        at::linspace(3.0701134573253945, 15.350567286626973, output.size(1), at::kDouble);
    const at::Tensor t = at::arange(length, at::kDouble) / static_cast<double>(kMaxSeqLen - 1);
    return output * (-t.unsqueeze(1) * rates).exp();
  }
};

TEST_CASE("hyena: counts") {
  CHECK(Model({}, 64).parameters.num_elements() == 30400);
  CHECK(Model({}, 128).parameters.num_elements() == 84736);
  const Model mad({{"inner_factor", 4}, {"proj_groups", 4}, {"filter_width", 4}}, 128);
  CHECK(mad["in_proj.weight"].size(0) == 384);
  CHECK(mad["conv.weight"].size(0) == 1536);
  CHECK(mad["filter.output.weight"].size(0) == 512);
  const Model heads({{"proj_groups", 4}, {"head_dim", 16}, {"filter_width", 2}}, 128);
  CHECK(heads["in_proj.weight"].size(0) == 96);
  CHECK(heads["filter.bias"].size(0) == 8);
  CHECK(SizeOf(Model({}, 8).mixer->InitialState(1), 10).recurrent == 80);
  CHECK(SizeOf(Model({}, 8).mixer->InitialState(1)).conv == 72);
}

TEST_CASE("hyena: the first features are those of positions") {
  const Model model({}, 4);
  const at::Tensor z = model["filter.z"];
  CHECK(z[kMaxSeqLen - 1][0].item<double>() == 1);
  const double angle = 1e-4 * 2 * std::numbers::pi * 16 / kMaxSeqLen;
  CHECK(std::abs(z[16][1].item<double>() - std::cos(angle)) < 1e-15);
  CHECK(std::abs(z[16][2].item<double>() + std::sin(angle)) < 1e-15);
}

TEST_CASE("hyena: the equations of hyena.md, one token after the other") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kLength = 9;
  for (const std::int64_t head_dim : {1, 2}) {
    const Model model({{"head_dim", head_dim}, {"proj_groups", 2}, {"filter_frequency", 4}}, 4);
    const at::Tensor u = RandomNormal({1, kLength, 4}, 1);
    const at::Tensor half = model.Linear("in_proj", u[0]);
    const at::Tensor padded = at::cat({at::zeros({2, 12}, at::kDouble), at::cat({half, half}, 1)});
    at::Tensor mixed = model["conv.bias"].expand({kLength, 12});
    for (std::int64_t m = 0; m < 3; ++m) {
      mixed = mixed + padded.narrow(0, m, kLength) * model["conv.weight"].select(1, m);
    }
    const auto parts = mixed.view({kLength, 3, -1, head_dim}).unbind(1);  // [T,H,E]
    const at::Tensor& write = parts[head_dim > 1 ? 1 : 0];
    const at::Tensor& read = parts[head_dim > 1 ? 0 : 1];
    const at::Tensor w = parts[2].unsqueeze(-1) * write.unsqueeze(-2);
    const at::Tensor filter = model.Filter(kLength);
    std::vector<at::Tensor> outputs;
    for (std::int64_t t = 0; t < kLength; ++t) {
      at::Tensor s = model["filter.bias"].view({-1, 1, 1}) * w[t];
      for (std::int64_t past = 0; past <= t; ++past) {
        s = s + filter[t - past].view({-1, 1, 1}) * w[past];
      }
      outputs.push_back((read[t].unsqueeze(-1) * s).sum(-2).flatten());
    }
    const at::Tensor expected = model.Linear("out_proj", at::stack(outputs));
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(Forward(*model.mixer, {u}, {.path = path}).y[0], expected) < 1e-12);
    }
  }
}

TEST_CASE("hyena: under zoology's policy the filter starts near zero") {
  const at::NoGradGuard no_grad;
  const Model model({}, 32, InitPolicy::kZoology);
  CHECK(model.Filter(kMaxSeqLen).abs().max().item<double>() < 1e-3);
  CHECK(Model({}, 32).Filter(kMaxSeqLen).abs().max().item<double>() > 1e-2);
}

TEST_CASE("hyena: an input longer than its filters is refused, and impossible options are named") {
  const at::NoGradGuard no_grad;
  const Model model({}, 4);
  CHECK_THROWS_AS(Forward(*model.mixer, {RandomNormal({1, kMaxSeqLen + 1, 4}, 1)}),
                  std::logic_error);
  CHECK_THROWS_WITH(Model({{"proj_groups", 5}}, 8),
                    Catch::Matchers::StartsWith("/mixer/proj_groups: "));
  CHECK_THROWS_WITH(Model({{"head_dim", 3}}, 8), Catch::Matchers::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Model({{"active_experts", 1}}, 8),
                    Catch::Matchers::StartsWith("/mixer/num_experts: 0"));
  CHECK_THROWS_WITH(Model({{"filter_frequency", 0}}, 8),
                    Catch::Matchers::StartsWith("/mixer/filter_frequency: "));
}

}  // namespace
}  // namespace mixerbench::models::hyena
