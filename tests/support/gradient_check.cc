// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gradient_check.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

namespace mixerbench::testing {
namespace {

// The scalar that is differentiated. float64, so that its own rounding plays no part.
at::Tensor WeightedSum(const std::vector<at::Tensor>& outputs) {
  constexpr std::uint64_t kWeightSeed = 20240607;
  at::Tensor sum;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Require(outputs[i].defined(), "an output is undefined");
    const auto weight = RandomNormal(outputs[i].sizes(), kWeightSeed + i).to(outputs[i].device());
    const auto term = (outputs[i].to(at::kDouble) * weight).sum();
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

double LargestError(const std::vector<at::Tensor>& actual,
                    const std::vector<at::Tensor>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].defined()) largest = std::max(largest, RelativeError(actual[i], expected[i]));
  }
  return largest;
}

}  // namespace

Derivative Differentiate(const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.defined() ? input.detach().requires_grad_(true) : at::Tensor());
  }
  const auto outputs = function(leaves);
  const auto sum = WeightedSum(outputs);
  if (sum.requires_grad()) sum.backward();

  Derivative result;
  for (const auto& output : outputs) result.outputs.push_back(output.detach());
  for (const auto& leaf : leaves) {
    if (!leaf.defined()) {
      result.gradients.emplace_back();
    } else {
      result.gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
    }
  }
  return result;
}

double RelativeError(const Derivative& actual, const Derivative& expected) {
  return std::max(LargestError(actual.outputs, expected.outputs),
                  LargestError(actual.gradients, expected.gradients));
}

double GradientCheckError(const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
  constexpr double kStep = 1e-6;  // truncation kStep^2 and rounding 1e-16/kStep, both near 1e-10
  const auto analytic = Differentiate(function, inputs).gradients;
  const at::NoGradGuard no_grad;
  double worst = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    Require(inputs[i].scalar_type() == at::kDouble, "central differences need float64");
    auto moved = inputs;
    moved[i] = inputs[i].contiguous().clone();
    auto elements = moved[i].view({-1});
    auto numeric = at::zeros_like(elements);
    for (std::int64_t e = 0; e < elements.numel(); ++e) {
      const double value = elements[e].item<double>();
      elements[e].fill_(value + kStep);
      const double above = WeightedSum(function(moved)).item<double>();
      elements[e].fill_(value - kStep);
      const double below = WeightedSum(function(moved)).item<double>();
      elements[e].fill_(value);
      numeric[e].fill_((above - below) / (2 * kStep));
    }
    worst = std::max(worst, RelativeError(analytic[i], numeric.view(inputs[i].sizes())));
  }
  return worst;
}

}  // namespace mixerbench::testing
