// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/tap_statistics.h"

#include <cmath>
#include <limits>

#include <ATen/ops/tensor.h>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("tap statistics: of all values of all batches") {
  TapStatistics statistics;
  statistics.Add(at::tensor({1.0F, 2.0F, 3.0F, 6.0F}).view({2, 2}), 2);
  statistics.Add(at::tensor({-2.0F, 2.0F}).view({1, 2}), 1);
  const reports::TapRow row = statistics.Row();
  CHECK(row.num_values == 6);
  CHECK(row.num_not_finite == 0);
  CHECK(row.mean == Approx(2));
  CHECK(row.std == Approx(std::sqrt((1 + 0 + 1 + 16 + 16 + 0) / 6.0)));
  CHECK(row.min == -2);
  CHECK(row.max == 6);
}

TEST_CASE("tap statistics: what is not finite is counted and nothing else") {
  TapStatistics statistics;
  statistics.Add(at::tensor({1.0F, -kInfinity, std::nanf(""), 3.0F}).view({2, 2}), 2);
  const reports::TapRow row = statistics.Row();
  CHECK(row.num_values == 4);
  CHECK(row.num_not_finite == 2);
  CHECK(row.mean == Approx(2));
  CHECK(row.min == 1);
  CHECK(row.max == 3);

  TapStatistics nothing;
  nothing.Add(at::tensor({kInfinity, kInfinity}).view({2, 1}), 2);
  CHECK(nothing.Row().num_not_finite == 2);
  CHECK_FALSE(nothing.Row().mean);
  CHECK_FALSE(nothing.Row().min);
}

TEST_CASE("tap statistics: what is the same for all samples counts once") {
  TapStatistics statistics;
  for (int batch = 0; batch < 3; ++batch) statistics.Add(at::tensor({4.0F, 8.0F}), 2);
  CHECK(statistics.Row().num_values == 2);
  CHECK(statistics.Row().mean == Approx(6));
}

TEST_CASE("tap statistics: a small deviation beside a large mean is not lost") {
  TapStatistics statistics;
  statistics.Add(at::tensor({1e6F, 1e6F, 1e6F, 1e6F}).view({2, 2}), 2);
  CHECK(statistics.Row().std == Approx(0).margin(1e-9));
  statistics.Add(at::tensor({1e6F + 1, 1e6F + 1, 1e6F + 1, 1e6F + 1}).view({2, 2}), 2);
  CHECK(statistics.Row().std == Approx(0.5));
}

TEST_CASE("tap statistics: batches are of no influence") {
  const at::Tensor values = at::tensor({0.1F, 0.2F, 0.7F, 1e-8F, 3e7F, -0.3F}).view({3, 2});
  TapStatistics together, apart;
  together.Add(values, 3);
  for (int i = 0; i < 3; ++i) apart.Add(values.narrow(0, i, 1), 1);
  CHECK(*together.Row().mean == *apart.Row().mean);
  CHECK(*together.Row().std == *apart.Row().std);
}

}  // namespace
}  // namespace mixerbench::harness
