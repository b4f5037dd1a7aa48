// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s4/s4.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "base/error.h"
#include "models/blocks/hippo.h"
#include "models/mixer.h"
#include "models/mixers/s4/dplr_system.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::s4 {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kPrinted = 5e-10;

at::Tensor Complex(const at::Tensor& pairs) { return at::view_as_complex(pairs.contiguous()); }

double LargestDifference(const at::Tensor& a, const std::vector<double>& b) {
  return (a.flatten() - at::tensor(b, at::kDouble)).abs().max().item<double>();
}

// Values of a loop over tokens in Python, written from the equations of s4.md.
TEST_CASE("s4: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 4}}, {.d_model = 2, .max_seq_len = 5});
  testing::FillParameters(made.parameters, {"inv_dt", "A_real", "A_imag", "B", "P", "C", "D",
                                            "output_linear.weight", "output_linear.bias"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 2}, 30)},
      {-0.24800918610740147, -0.22190682656140756, -0.24307991592026126, -0.19249935704539126,
       -0.25945276247419224, -0.19412380572677324, -0.2543757356029706, -0.20575721902844651},
      {0.006836712944212402, 0.004223660496025891, 0.005326558862662975, -0.00942965374528915,
       0.10753965542381799, 0.14438712587414568, 0.04521911005633511, 0.009727092721105599});
}

TEST_CASE("s4: the kernel of HiPPO-LegS of order 4") {
  const NormalPlusLowRank legs = Diagonalize(HippoMeasure::kLegs, 4);
  const DplrSystem system = {
      .rate = at::complex(at::full_like(legs.omega, legs.decay), legs.omega).unsqueeze(0),
      .p = legs.p.unsqueeze(1),
      .input = legs.b.unsqueeze(0),
      .step = at::full({1, 1}, 0.1, at::kDouble)};
  const at::Tensor c = at::ones({1, 4}, at::kDouble);
  const at::Tensor read = at::matmul(c.to(at::kComplexDouble), legs.v);
  const at::Tensor truncated = Truncate(system, read, 8);
  CHECK(LargestDifference(TruncatedKernel(system, truncated, system.input.unsqueeze(0), 8),
                          {0.5470521977, 0.2234393675, 0.0639939291, -0.0045994186, -0.0256215502,
                           -0.0239291607, -0.0132522751, -0.0007367579}) < kPrinted);
  CHECK(LargestDifference(at::real(at::matmul(truncated, legs.v.conj().t())) * 2,
                          {0.7663463318, 0.8960451130, 1.2070765477, 0.9609815577}) < kPrinted);
  CHECK(LargestDifference(at::real(truncated * system.input).sum() * 0.1, {0.3779982712}) <
        kPrinted);
  CHECK(RelativeError(Untruncate(system, truncated, 8), read) < 1e-12);
}

// Two systems of three modes and rank `rank` of leaves [2,3,2], [rank,2,3,2], [2,3,2], [2,1].
DplrSystem SystemOf(const std::vector<at::Tensor>& leaves) {
  const auto parts = leaves[0].unbind(-1);
  return {.rate = at::complex(-parts[0].abs() - 0.1, parts[1] * 3),
          .p = Complex(leaves[1]),
          .input = Complex(leaves[2]),
          .step = leaves[3].abs() * 0.1 + 0.05};
}

std::vector<at::Tensor> DrawLeaves(std::int64_t rank) {
  return {RandomNormal({2, 3, 2}, 1), RandomNormal({rank, 2, 3, 2}, 2), RandomNormal({2, 3, 2}, 3),
          RandomNormal({2, 1}, 4), RandomNormal({2, 3, 2}, 5)};
}

TEST_CASE("s4: the kernel is what the recurrence answers to an impulse, of any rank and length") {
  for (const std::int64_t rank : {1, 2}) {
    for (const std::int64_t length : {1, 2, 7, 8, 33}) {
      CAPTURE(rank, length);
      const auto leaves = DrawLeaves(rank);
      const DplrSystem system = SystemOf(leaves);
      const at::Tensor read = Complex(leaves[4]);
      const LinearStep step(system, at::kComplexDouble);
      at::Tensor state = step(system.input * 0, at::ones({2}, at::kDouble));
      std::vector<at::Tensor> expected;
      for (std::int64_t l = 0; l < length; ++l) {
        expected.push_back(at::real(read * state).sum(-1) * 2);
        state = step(state, {});
      }
      const at::Tensor kernel = TruncatedKernel(system, Truncate(system, read, length),
                                                system.input.unsqueeze(0), length);
      CHECK(RelativeError(kernel[0], at::stack(expected, 1)) < 1e-10);
    }
  }
}

TEST_CASE("s4: states by chunks are those of the recurrence") {
  for (const std::int64_t rank : {1, 2}) {
    const DplrSystem system = SystemOf(DrawLeaves(rank));
    const LinearStep step(system, at::kComplexDouble);
    for (const std::int64_t length : {1, 5, 64, 200}) {
      CAPTURE(rank, length);
      const at::Tensor u = RandomNormal({3, length, 2}, 6);
      const at::Tensor first = Complex(RandomNormal({3, 2, 3, 2}, 7));
      at::Tensor state = first;
      for (const at::Tensor& token : u.unbind(1)) state = step(state, token);
      CHECK(RelativeError(StateAfter(system, u, first), state) < 1e-10);
      const at::Tensor again = step(InputOfState(system, first) * 0, at::ones({2}, at::kDouble));
      CHECK(again.sizes() == first.sizes());
    }
    // The input that stands for a state.
    const at::Tensor s = Complex(RandomNormal({1, 2, 3, 2}, 8));
    DplrSystem driven = system;
    driven.input = InputOfState(system, s)[0];
    const LinearStep driven_step(driven, at::kComplexDouble);
    CHECK(RelativeError(driven_step(s * 0, at::ones({2}, at::kDouble)), step(s, {})) < 1e-10);
  }
}

TEST_CASE("s4: gradients of the kernel agree with central differences") {
  for (const std::int64_t rank : {1, 2}) {
    for (const std::int64_t length : {5, 6}) {
      CAPTURE(rank, length);
      CHECK(testing::GradientCheckError(
                [&](const std::vector<at::Tensor>& leaves) -> std::vector<at::Tensor> {
                  const DplrSystem system = SystemOf(leaves);
                  return {TruncatedKernel(system, Complex(leaves[4]), system.input.unsqueeze(0),
                                          length)};
                },
                DrawLeaves(rank)) < 1e-6);
    }
  }
}

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model, std::int64_t max_seq_len)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = max_seq_len}) {}
};

TEST_CASE("s4: counts") {
  const Model model({{"d_state", 16}, {"n_ssm", 1}}, 64, 32);
  CHECK(model.parameters.num_elements() == 9520);
  const State state = model.mixer->InitialState(1);
  CHECK(SizeOf(state).recurrent == 64 * 16);
  CHECK(Model({{"d_state", 16}, {"n_ssm", 2}, {"measure", "legt"}}, 64, 32)
            .parameters.num_elements() == 4 * 16 * 2 + 16 * 64 + 2 * 64 + 8320);
}

TEST_CASE("s4: inputs longer than the kernel go on from the state") {
  const at::NoGradGuard no_grad;
  const Model model({{"d_state", 8}}, 4, 6);
  const at::Tensor x = RandomNormal({2, 15, 4}, 1);
  CHECK(RelativeError(Forward(*model.mixer, {x}).y,
                      Forward(*model.mixer, {x}, {.path = ExecutionPath::kReference}).y) < 1e-9);
}

// The zero frequency of the Fourier measure starts at rates of 1e-4, whose Cauchy sums are near
// their pole: gradients of rates lose half of their digits in the difference of two terms.
TEST_CASE("s4: with every measure the convolution is the recurrence, gradients included") {
  constexpr double kGradientTolerance = 1e-8;
  constexpr double kNearPole = 1e-5;
  for (const std::string measure : {"legs", "legt", "fourier", "hippo"}) {
    CAPTURE(measure);
    const Model model({{"d_state", 8}, {"measure", measure}, {"n_ssm", 2}}, 4, 40);
    const auto run = [&](ExecutionPath path) {
      const at::Tensor x = RandomNormal({2, 33, 4}, 1).requires_grad_(true);
      const at::Tensor y = Forward(*model.mixer, {x}, {.path = path}).y;
      (y * RandomNormal(y.sizes(), 2)).sum().backward();
      std::vector<at::Tensor> results = {y.detach(), x.grad()};
      for (const Parameter& parameter : model.parameters.parameters()) {
        at::Tensor tensor = parameter.tensor;
        results.push_back(tensor.grad().clone());
        tensor.mutable_grad().reset();
      }
      return results;
    };
    const auto expected = run(ExecutionPath::kReference);
    const auto actual = run(ExecutionPath::kFast);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const bool has_pole = measure == "fourier" || measure == "hippo";
      CHECK(RelativeError(actual[i], expected[i]) < (i < 2      ? 1e-10
                                                     : has_pole ? kNearPole
                                                                : kGradientTolerance));
    }
  }
}

TEST_CASE("s4: impossible options are named") {
  CHECK_THROWS_WITH(Model({{"d_state", 7}}, 8, 8), Catch::Matchers::StartsWith("/mixer/d_state: "));
  CHECK_THROWS_WITH(Model({{"n_ssm", 3}}, 8, 8), Catch::Matchers::StartsWith("/mixer/n_ssm: "));
  CHECK_THROWS_WITH(Model({{"measure", "hippo"}, {"n_ssm", 1}}, 8, 8),
                    Catch::Matchers::StartsWith("/mixer/measure: "));
}

}  // namespace
}  // namespace mixerbench::models::s4
