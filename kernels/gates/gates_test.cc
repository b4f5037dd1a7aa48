// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gates/gates.h"

#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::GradientCheckError;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("gates: formulas and gradients") {
  const at::Tensor z = RandomNormal({2, 3, 4}, 1) * 2;
  CHECK(RelativeError(LogSigmoidDecay(z, 16), z.sigmoid().log() / 16) < kFloat64Tolerance);
  CHECK(LogSigmoidDecay(z, 1, -0.5).min().item<double>() == -0.5);
  const at::Tensor A_log = RandomNormal({2}, 2);
  const at::Tensor dt_bias = RandomNormal({2}, 3);
  const auto gates =
      ComputeDeltaGates({.z = z, .beta_scale = 2, .A_log = A_log, .dt_bias = dt_bias});
  CHECK(RelativeError(gates.beta, 2 * z.narrow(-1, 0, 2).sigmoid()) < kFloat64Tolerance);
  CHECK(
      RelativeError(gates.log_decay, -A_log.exp() * (z.narrow(-1, 2, 2) + dt_bias).exp().log1p()) <
      kFloat64Tolerance);
  CHECK_FALSE(ComputeDeltaGates({.z = z}).log_decay.defined());
  CHECK(ComputeDeltaGates({.z = z.to(at::kBFloat16)}).beta.scalar_type() == at::kFloat);
  CHECK(RelativeError(Swiglu(z), z.narrow(-1, 0, 2) * z.narrow(-1, 0, 2).sigmoid() *
                                     z.narrow(-1, 2, 2)) < kFloat64Tolerance);
  const auto decay = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {LogSigmoidDecay(in[0], 4)};
  };
  const auto both = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    const auto result = ComputeDeltaGates({.z = in[0], .A_log = in[1], .dt_bias = in[2]});
    return {result.beta, result.log_decay};
  };
  const auto swiglu = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {Swiglu(in[0])};
  };
  CHECK(GradientCheckError(decay, {z}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(both, {z, A_log, dt_bias}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(swiglu, {z}) < kGradientCheckTolerance);
}

}  // namespace
}  // namespace mixerbench::kernels
