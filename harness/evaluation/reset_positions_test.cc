// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/reset_positions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("write gate reset: positions of tokens, both ends included") {
  const at::Tensor inputs = at::tensor({3, 4, 9, 10, 0, 5}, at::kInt).view({2, 3});
  const at::Tensor expected = at::tensor({0, 1, 1, 0, 0, 1}, at::kInt).view({2, 3});
  CHECK(
      ResetPositions({.first_token = 4, .last_token = 9}, inputs, 0).equal(expected.to(at::kBool)));
}

TEST_CASE("write gate reset: a share of all positions, whatever the batch") {
  const at::Tensor inputs = at::zeros({200, 100}, at::kInt);
  const WriteGateReset reset{.share = 0.04};
  const at::Tensor all = ResetPositions(reset, inputs, 0);
  // 20,000 draws: one standard deviation is 28.
  CHECK(std::abs(all.sum().item<std::int64_t>() - 800) < 140);
  CHECK(all.any(0).sum().item<std::int64_t>() > 90);  // no position is left out
  CHECK(all.any(1).sum().item<std::int64_t>() > 180);
  CHECK(ResetPositions(reset, inputs.narrow(0, 0, 50), 150).equal(all.narrow(0, 150, 50)));
  CHECK(ResetPositions({.share = 1}, inputs, 0).all().item<bool>());
}

}  // namespace
}  // namespace mixerbench::harness
