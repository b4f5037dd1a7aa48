// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/parity.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

Quantities Scaled(const Quantities& exact, const std::vector<double>& errors) {
  Quantities quantities = exact;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    quantities[i].second = exact[i].second * (1 + errors[i]);
  }
  return quantities;
}

const Quantities kExact = {{"hidden", at::ones({256, 256}, at::kDouble)},
                           {"d a", at::ones({1 << 20}, at::kDouble)},
                           {"d b", at::full({1}, 3.0, at::kDouble)}};

TEST_CASE("parity: an error within twice the naive one holds, the worst quantity is named") {
  const auto naive = Scaled(kExact, {0.01, 0.02, 0.01});
  const auto good = Compare(Scaled(kExact, {0.012, 0.03, 0.01}), {naive}, kExact, Dtype::kFp32);
  CHECK(good.quantity == "d a");
  CHECK(good.error == Approx(0.03));
  CHECK(good.tolerance == Approx(0.04 + 2e-5).epsilon(0.01));
  CHECK(Holds(good));
  const auto bad = Compare(Scaled(kExact, {0.012, 0.05, 0.01}), {naive}, kExact, Dtype::kFp32);
  CHECK(bad.quantity == "d a");
  CHECK(bad.error == Approx(0.05));
  CHECK_FALSE(Holds(bad));
}

TEST_CASE(
    "parity: the usual naive error is allowed to every quantity, a missing gradient never is") {
  const auto naive = Scaled(kExact, {0.01, 0.01, 0});
  CHECK(Holds(Compare(Scaled(kExact, {0.01, 0.01, 0.3}), {naive}, kExact, Dtype::kFp32)));
  CHECK(Holds(Compare(Scaled(kExact, {0.01, 0.01, 0.019}), {naive}, kExact, Dtype::kFp32)));
  auto missing = Scaled(kExact, {0, 0, 0});
  missing[2].second = at::zeros({1}, at::kDouble);
  const auto parity = Compare(missing, {naive}, kExact, Dtype::kBf16);
  CHECK(parity.quantity == "d b");
  CHECK(parity.error == Approx(1));
  CHECK_FALSE(Holds(parity));
}

TEST_CASE("parity: luck counts the elements that make up the naive error, not all there are") {
  // Both errors in two of 10,000 elements: one is 2.5 times the other by luck alone. In all of them
  // it would be no luck.
  const at::Tensor exact = at::ones({10'000}, at::kDouble);
  const auto off_by = [&](double error, std::int64_t count) {
    at::Tensor value = exact.clone();
    value.narrow(0, 0, count).add_(error / std::sqrt(static_cast<double>(count)));
    return Quantities{{"d w", value}};
  };
  const Quantities truth = {{"d w", exact}};
  CHECK(Holds(Compare(off_by(5.0, 2), {off_by(2.0, 2)}, truth, Dtype::kFp32)));
  CHECK_FALSE(Holds(Compare(off_by(5.0, 10'000), {off_by(2.0, 10'000)}, truth, Dtype::kFp32)));
}

TEST_CASE("parity: an error that one token makes is luck, in its layer's vectors too") {
  // Outer products of as many tokens, larger by `error`.
  const auto off_by = [](double error, std::int64_t tokens) {
    const at::Tensor dy = testing::RandomNormal({tokens, 48}, 1, at::kDouble, at::kCPU);
    const at::Tensor x = testing::RandomNormal({tokens, 64}, 2, at::kDouble, at::kCPU);
    const at::Tensor dx = testing::RandomNormal({tokens, 64}, 3, at::kDouble, at::kCPU);
    const auto scaled = [&](const at::Tensor& e) { return e * (error / e.norm().item<double>()); };
    return Quantities{{"d layers.1.in_proj.weight", 1 + scaled(dy.t().mm(x))},
                      {"d layers.1.norm1.weight", 1 + scaled((x * dx).sum(0))},
                      {"d final_norm.weight", 1 + scaled(at::ones({64}, at::kDouble))}};
  };
  const Quantities truth = {{"d layers.1.in_proj.weight", at::ones({48, 64}, at::kDouble)},
                            {"d layers.1.norm1.weight", at::ones({64}, at::kDouble)},
                            {"d final_norm.weight", at::ones({64}, at::kDouble)}};
  const auto compare = [&](double error, std::int64_t tokens) {
    Quantities timed = off_by(0.01, 48);
    for (std::size_t i = 0; i < 2; ++i) timed[i].second = off_by(error, 48)[i].second;
    return Compare(timed, {off_by(0.01, tokens)}, truth, Dtype::kFp32);
  };
  CHECK(Holds(compare(0.1, 1)));
  const auto of_many = compare(0.1, 48);
  CHECK_FALSE(Holds(of_many));
  CHECK(of_many.quantity == "d layers.1.norm1.weight");
}

TEST_CASE("parity: what is not finite fails") {
  auto broken = Scaled(kExact, {0, 0, 0});
  broken[1].second = at::full({1 << 20}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  CHECK_FALSE(Holds(Compare(broken, {kExact}, kExact, Dtype::kBf16)));
}

TEST_CASE("parity: a gradient that is zero but for rounding is held against gradients in general") {
  auto exact = kExact;
  exact.emplace_back("d zero", at::full({1 << 10}, 1e-18, at::kDouble));
  auto timed = exact;
  timed.back().second = at::full({1 << 10}, 1e-6, at::kDouble);
  CHECK(Holds(Compare(timed, {exact}, exact, Dtype::kBf16)));
  timed.back().second = at::full({1 << 10}, 1e-2, at::kDouble);
  CHECK_FALSE(Holds(Compare(timed, {exact}, exact, Dtype::kBf16)));
}

TEST_CASE("parity: a sample is the whole of a small batch and no more than a reference can do") {
  const auto cpu = ChooseParitySample(8, 64, 1000, at::kCPU);
  CHECK(cpu.num_sequences == 8);
  CHECK(cpu.num_tokens == 64);
  const auto more = ChooseParitySample(256, 64, 1000, at::kCPU);
  CHECK(more.num_sequences == 16);
  const auto gpu = ChooseParitySample(32, 65536, 1000, at::Device(at::kCUDA, 0));
  CHECK(gpu.num_sequences == 1);
  CHECK(gpu.num_tokens == 16384);
  const auto wide = ChooseParitySample(32, 65536, std::int64_t{1} << 40, at::kCPU);
  CHECK(wide.num_sequences == 1);
  CHECK(wide.num_tokens == 1);
}

}  // namespace
}  // namespace mixerbench::harness
