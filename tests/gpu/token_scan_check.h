// What the tests of cores that run by a token scan have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"
#include "kernels/runtime/plan.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels::token_scan_check {

// Sums of some hundred terms at 6e-8, carried on from token to token.
inline constexpr double kFloat32Tolerance = 2e-5;
// With tensors in bf16 the gradient of o, from which all others come, and what leaves are rounded
// by 2^-9 each.
inline constexpr double kBf16Tolerance = 4e-3;

// change(x) of every tensor; undefined ones stay.
template <typename Change>
std::vector<at::Tensor> Map(const std::vector<at::Tensor>& inputs, const Change& change) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& x : inputs) result.push_back(x.defined() ? change(x) : x);
  return result;
}

// Holds results(path, inputs) of `inputs` on the GPU, whose activations have `dtype`, against the
// reference in fp64, and against the same once more in poisoned memory.
template <typename Results>
void CheckTokenScan(const std::string& core, at::ScalarType dtype,
                    const std::vector<at::Tensor>& inputs, const Results& results) {
  const auto expected = results(ExecutionPath::kReference,
                                Map(inputs, [](const at::Tensor& x) { return x.to(at::kDouble); }));
  const PlanRecorder recorder;
  const auto actual = results(ExecutionPath::kFast, inputs);
  REQUIRE(recorder.records().size() == 1);
  CHECK((recorder.records()[0] == PlanRecord{"", core, "token_scan", "token_scan", ""}));
  const testing::PoisonUninitializedMemory poison;
  const auto again = results(ExecutionPath::kFast, inputs);
  REQUIRE(actual.size() == expected.size());
  const double tolerance = dtype == at::kBFloat16 ? kBf16Tolerance : kFloat32Tolerance;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    CAPTURE(i);
    CHECK(testing::RelativeError(actual[i], expected[i]) < tolerance);
    CHECK(testing::BitwiseEqual(actual[i], again[i]));
  }
}

// results(path, inputs) do not depend on strides in any bit.
template <typename Results>
void CheckAnyLayout(const std::vector<at::Tensor>& inputs, const Results& results) {
  const auto expected = results(ExecutionPath::kFast, inputs);
  const auto actual = results(ExecutionPath::kFast, Map(inputs, testing::StridedCopy));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(testing::BitwiseEqual(actual[i].contiguous(), expected[i].contiguous()));
  }
}

}  // namespace mixerbench::kernels::token_scan_check
