// HiPPO, discretisation, mode sums and diagonal systems.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/real.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/diagonal_modes.h"
#include "models/blocks/diagonal_system.h"
#include "models/blocks/hippo.h"
#include "models/blocks/long_convolution.h"
#include "models/blocks/mode_sums.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models {
namespace {

using kernels::ExecutionPath;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kDoubleTolerance = 1e-12;
constexpr double kPrinted = 5e-10;  // golden values have ten decimals
constexpr double kGradientTolerance = 1e-7;
constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

at::Tensor Doubles(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }
at::Tensor Complex(const at::Tensor& pairs) { return at::view_as_complex(pairs.contiguous()); }

double LargestDifference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST_CASE("hippo: frequencies of LegS") {
  CHECK(LargestDifference(Diagonalize(HippoMeasure::kLegs, 4).omega,
                          Doubles({-4.6032930071, -0.5565011151})) < kPrinted);
  const NormalPlusLowRank legs = Diagonalize(HippoMeasure::kLegs, 16);
  CHECK(LargestDifference(legs.omega, Doubles({-80.9661, -25.6292, -13.8343, -8.3621, -5.0900,
                                               -2.8997, -1.3720, -0.3520})) < 5e-5);
  CHECK(std::abs(legs.decay + 0.5) < kDoubleTolerance);
}

TEST_CASE("hippo: the modes and their conjugates are the matrix") {
  for (const HippoMeasure measure :
       {HippoMeasure::kLegs, HippoMeasure::kLegt, HippoMeasure::kFourier}) {
    const HippoSystem system = Hippo(measure, 12);
    const NormalPlusLowRank modes = Diagonalize(measure, 12);
    const at::Tensor rate = at::complex(at::full({6}, modes.decay, at::kDouble), modes.omega);
    const at::Tensor normal =
        at::real(modes.v.matmul(at::diag(rate)).matmul(modes.v.conj().t())) * 2;
    CHECK(RelativeError(normal - system.p.t().matmul(system.p), system.a) < kDoubleTolerance);
    CHECK(RelativeError(at::real(modes.v.matmul(modes.b)) * 2, system.b) < kDoubleTolerance);
    CHECK(RelativeError(at::real(modes.v.matmul(modes.p.t())) * 2, system.p.t()) <
          kDoubleTolerance);
  }
}

TEST_CASE("hippo: the matrices by their formulas") {
  const at::Tensor legs = Hippo(HippoMeasure::kLegs, 3).a;
  CHECK(RelativeError(
            legs, Doubles({-1, 0, 0, -std::sqrt(3.), -2, 0, -std::sqrt(5.), -std::sqrt(15.), -3})
                      .view({3, 3})) < kDoubleTolerance);
  const at::Tensor legt = Hippo(HippoMeasure::kLegt, 2).a;
  CHECK(RelativeError(legt * -2, Doubles({1, -std::sqrt(3.), std::sqrt(3.), 3}).view({2, 2})) <
        kDoubleTolerance);
}

TEST_CASE("diagonal modes: frequencies of S4D") {
  const auto frequencies = [](DiagonalInit init) {
    return at::view_as_real(InitialModes(init, 1, 4).rate)[0].select(-1, 1);
  };
  CHECK(LargestDifference(frequencies(DiagonalInit::kInv),
                          Doubles({17.8253536263, 4.2441318158, 1.5278874537, 0.3637827271})) <
        kPrinted);
  CHECK(LargestDifference(frequencies(DiagonalInit::kQuad),
                          Doubles({0.3183098862, 2.8647889757, 7.9577471546, 15.5971844230})) <
        kPrinted);
  const at::Tensor both = InitialModes(DiagonalInit::kDiag, 2, 4).rate;
  CHECK(both[0].equal(InitialModes(DiagonalInit::kInv, 1, 4).rate[0]));
  CHECK(both[1].equal(InitialModes(DiagonalInit::kLin, 1, 4).rate[0]));
}

// Four modes -1/2 + i pi n with outputs 1/(n+1), inputs 1 and steps of 0.1.
DiagonalSystem FourModes(Discretization discretization) {
  const at::Tensor n = at::arange(4, at::kDouble);
  const at::Tensor output = at::complex(1 / (n + 1), n * 0).unsqueeze(0);
  const at::Tensor rate = InitialModes(DiagonalInit::kLin, 1, 4).rate;
  return Discretize(rate, rate * 0 + 1, output, at::full({1, 1}, 0.1, at::kDouble), discretization);
}

TEST_CASE("diagonal system: the kernel of S4D-Lin") {
  at::Tensor impulse = at::zeros({1, 8, 1}, at::kDouble);
  impulse[0][0][0] = 1;
  for (const auto path : kPaths) {
    const auto response = [&](Discretization discretization) {
      return RunSystem(FourModes(discretization), impulse, {}, false, path).y.flatten();
    };
    CHECK(LargestDifference(response(Discretization::kZoh),
                            Doubles({0.3938804790, 0.3110148220, 0.2089617249, 0.1337543477,
                                     0.1049008216, 0.1092591372, 0.1183380225, 0.1125183735})) <
          kPrinted);
    CHECK(LargestDifference(response(Discretization::kBilinear),
                            Doubles({0.3901686683, 0.3152559616, 0.2183183011, 0.1389994470,
                                     0.0998625045, 0.0973395444, 0.1097733243, 0.1149160587})) <
          kPrinted);
  }
}

at::Tensor DrawRates(std::int64_t systems, std::int64_t modes) {
  const at::Tensor parts = RandomNormal({systems, modes, 2}, 5);
  return at::complex(-parts.select(-1, 0).abs() * 0.1, parts.select(-1, 1) * 2);
}

TEST_CASE("mode sums: over modes and over time as defined, for many lengths and rows") {
  const at::Tensor exponents = DrawRates(3, 4);
  for (const std::int64_t length : {1, 2, 63, 64, 65, 300, 5000}) {
    CAPTURE(length);
    const at::Tensor l = at::arange(length, at::kDouble);
    const at::Tensor powers = ComplexExp(exponents.unsqueeze(-1) * l);  // [H,M,L]
    const at::Tensor weights = Complex(RandomNormal({2, 3, 4, 2}, 6));
    const at::Tensor sum = at::real(at::einsum("rhm,hml->rhl", {weights, powers})) * 2;
    CHECK(RelativeError(ModeSum(weights, exponents, length), sum) < kDoubleTolerance);
    CHECK(RelativeError(ModeSum(weights.to(at::kComplexFloat), exponents, length), sum) < 1e-6);
    const at::Tensor x = RandomNormal({2, 3, length}, 7);
    const at::Tensor moments = at::einsum("rhl,hml->rhm", {x.to(at::kComplexDouble), powers});
    CHECK(RelativeError(at::view_as_real(ModeMoments(x, exponents)), at::view_as_real(moments)) <
          kDoubleTolerance);
  }
}

TEST_CASE("mode sums: gradients agree with central differences") {
  const at::Tensor exponents = at::view_as_real(DrawRates(2, 3));
  const at::Tensor weights = RandomNormal({2, 2, 3, 2}, 6);
  const at::Tensor x = RandomNormal({2, 2, 6}, 7);
  CHECK(testing::GradientCheckError(
            [](const std::vector<at::Tensor>& leaves) -> std::vector<at::Tensor> {
              return {ModeSum(Complex(leaves[0]), Complex(leaves[1]), 6)};
            },
            {weights, exponents}) < kGradientTolerance);
  CHECK(testing::GradientCheckError(
            [](const std::vector<at::Tensor>& leaves) -> std::vector<at::Tensor> {
              return {at::view_as_real(ModeMoments(leaves[0], Complex(leaves[1])))};
            },
            {x, exponents}) < kGradientTolerance);
}

// Of systems of which two channels each share one.
std::vector<at::Tensor> Response(const std::vector<at::Tensor>& leaves,
                                 Discretization discretization, ExecutionPath path,
                                 std::int64_t cut) {
  const auto parts = leaves[0].unbind(-1);
  const at::Tensor rate = at::complex(-parts[0].abs(), parts[1] * 3);
  const DiagonalSystem system = Discretize(rate, Complex(leaves[1]), Complex(leaves[2]),
                                           leaves[3].abs() + 0.1, discretization);
  const std::int64_t length = leaves[4].size(1);
  const SystemResult first =
      RunSystem(system, leaves[4].narrow(1, 0, cut), Complex(leaves[5]), true, path);
  const SystemResult second =
      RunSystem(system, leaves[4].narrow(1, cut, length - cut), first.final_state, true, path);
  return {at::cat({first.y, second.y}, 1), at::view_as_real(second.final_state)};
}

std::vector<at::Tensor> DrawLeaves(std::int64_t length) {
  return {RandomNormal({2, 3, 2}, 1),      RandomNormal({2, 3, 2}, 2),
          RandomNormal({2, 3, 2}, 3),      RandomNormal({2, 1}, 4),
          RandomNormal({2, length, 4}, 5), RandomNormal({2, 4, 3, 2}, 6)};
}

TEST_CASE("diagonal system: convolution and recurrence agree at any cut, gradients included") {
  for (const auto discretization : {Discretization::kZoh, Discretization::kBilinear}) {
    for (const auto& [length, cut] : std::vector<std::pair<int, int>>{{2, 1}, {70, 64}, {131, 5}}) {
      CAPTURE(length, cut);
      const auto run = [&](ExecutionPath path, std::int64_t at) {
        auto d = testing::Differentiate(
            [&](const std::vector<at::Tensor>& leaves) {
              return Response(leaves, discretization, path, at);
            },
            DrawLeaves(length));
        d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
        return d.outputs;
      };
      const auto expected = run(ExecutionPath::kReference, 1);
      const auto actual = run(ExecutionPath::kFast, cut);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(RelativeError(actual[i], expected[i]) < 1e-11);
      }
    }
    CHECK(testing::GradientCheckError(
              [&](const std::vector<at::Tensor>& leaves) {
                return Response(leaves, discretization, ExecutionPath::kFast, 2);
              },
              DrawLeaves(4)) < kGradientTolerance);
  }
}

TEST_CASE("diagonal system: rates near zero have a limit") {
  const at::Tensor zero =
      at::complex(at::zeros({1, 2}, at::kDouble), Doubles({0, 1e-6}).view({1, 2}));
  const DiagonalSystem system = Discretize(
      zero, zero * 0 + 1, zero * 0 + 1, at::full({1, 1}, 0.5, at::kDouble), Discretization::kZoh);
  CHECK(RelativeError(at::real(system.input), at::full({1, 2}, 0.5, at::kDouble)) < 1e-6);
}

TEST_CASE("long convolution: filters of any length, only the last outputs, and every gradient") {
  for (const std::int64_t filter_length : {1, 4, 7, 9}) {
    for (const std::int64_t num_outputs : {1, 3, 7}) {
      CAPTURE(filter_length, num_outputs);
      const std::vector<at::Tensor> leaves = {RandomNormal({2, 7, 3}, 1),
                                              RandomNormal({filter_length, 3}, 2)};
      const auto function = [&](ExecutionPath path) {
        return [=](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
          return {LongConvolution(x[0], x[1], num_outputs, path)};
        };
      };
      const auto expected = testing::Differentiate(function(ExecutionPath::kReference), leaves);
      const auto actual = testing::Differentiate(function(ExecutionPath::kFast), leaves);
      CHECK(RelativeError(actual, expected) < kDoubleTolerance);
    }
  }
}

TEST_CASE("long convolution: lengths of transforms") {
  CHECK(FftLength(1) == 2);
  CHECK(FftLength(7) == 8);
  CHECK(FftLength(11) == 12);
  CHECK(FftLength(511) == 512);
  CHECK(FftLength(513) == 540);
}

}  // namespace
}  // namespace mixerbench::models
