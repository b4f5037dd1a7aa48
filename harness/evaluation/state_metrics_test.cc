// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/state_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

constexpr double kTolerance = 1e-12;

// One sample, one head.
at::Tensor State(const std::vector<double>& values, std::int64_t rows) {
  return at::tensor(values, at::kDouble).view({1, 1, rows, -1});
}

double Only(const at::Tensor& x) {
  REQUIRE(x.sizes() == at::IntArrayRef({1, 1}));
  return x.item<double>();
}

TEST_CASE("state metrics: cosines of rows, by hand") {
  using Catch::Matchers::WithinAbs;
  // Of (1,0), (0,2) and (-3,0): 0, -1 and 0 for the three pairs.
  const at::Tensor state = State({1, 0, 0, 2, -3, 0}, 3);
  CHECK_THAT(Only(RowCosine(state)), WithinAbs(-1.0 / 3, kTolerance));
  CHECK_THAT(Only(AbsoluteRowCosine(state)), WithinAbs(1.0 / 3, kTolerance));
  // (3,4) and (4,3): 24/25, whatever stands in a row without a direction.
  const at::Tensor with_empty = State({3, 4, 0, 1e-13, 8, 6}, 3);
  CHECK_THAT(Only(RowCosine(with_empty)), WithinAbs(0.96, kTolerance));
  CHECK_THAT(Only(AbsoluteRowCosine(with_empty)), WithinAbs(0.96, kTolerance));
  CHECK_FALSE(std::isfinite(Only(RowCosine(State({3, 4, 0, 0}, 2)))));
  CHECK_FALSE(std::isfinite(Only(AbsoluteRowCosine(State({0, 0, 0, 0}, 2)))));
}

TEST_CASE("state metrics: entropy of singular values, by hand") {
  using Catch::Matchers::WithinAbs;
  const double turned = std::sqrt(0.5);  // a rotation changes no singular value
  CHECK_THAT(Only(SingularEntropy(State({1, 1, 2, 2, 3, 3}, 3))), WithinAbs(0, 1e-9));  // rank 1
  CHECK_THAT(Only(SingularEntropy(State({2, 0, 0, 2}, 2))), WithinAbs(1, kTolerance));
  // sigma 1 and sqrt(3): p = 1/4 and 3/4.
  const double expected = (0.25 * std::log(4.0) + 0.75 * std::log(4.0 / 3)) / std::log(2.0);
  const double a = turned, b = turned * std::sqrt(3.0);
  CHECK_THAT(Only(SingularEntropy(State({a, -b, a, b}, 2))), WithinAbs(expected, kTolerance));
  // Two of three directions, of a state that is longer than wide: ln 2 / ln 3.
  CHECK_THAT(Only(SingularEntropy(State({1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 4))),
             WithinAbs(std::log(2.0) / std::log(3.0), kTolerance));
  CHECK(std::isnan(Only(SingularEntropy(State({0, 0, 0, 0}, 2)))));
  CHECK(std::isnan(Only(SingularEntropy(State({1, 2}, 2)))));
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(std::isnan(Only(SingularEntropy(State({1, inf, 0, 1}, 2)))));
}

TEST_CASE("state metrics: the receptive field of a decay, by hand") {
  constexpr std::int64_t kTokens = 200;
  const auto widths = [](const at::Tensor& log_decay) { return ReceptiveField(log_decay); };
  // A tenth of ln 0.001 and a little less: ten tokens, once there are so many.
  const double step = std::log(0.001) / 10.001;
  const at::Tensor constant = widths(at::full({2, kTokens, 3}, step, at::kDouble));
  CHECK(constant.sizes() == at::IntArrayRef({2, 128, 3}));
  CHECK(constant.eq(10).all().item<bool>());
  const at::Tensor early = widths(at::full({1, 12, 1}, step, at::kDouble)).flatten();
  for (std::int64_t t = 0; t < 12; ++t) {
    CHECK(early[t].item<std::int64_t>() == std::min<std::int64_t>(t, 10));
  }
  // Without decay all tokens, the own one not counted; channels by themselves.
  at::Tensor two = at::zeros({1, 5, 1, 2}, at::kDouble);
  const double inf = std::numeric_limits<double>::infinity();
  two[0][3][0][1] = -inf;  // forgets all at token 3
  two[0][4][0][1] = -1;
  const at::Tensor last = widths(two);
  CHECK(last.sizes() == at::IntArrayRef({1, 5, 1, 2}));
  CHECK(last[0].select(-1, 0).flatten().equal(at::tensor({0, 1, 2, 3, 4}, at::kDouble)));
  CHECK(last[0].select(-1, 1).flatten().equal(at::tensor({0, 1, 2, 0, 1}, at::kDouble)));
}

TEST_CASE("state metrics: records of other axes have none") {
  for (const StateMetric& metric : StateMetrics()) {
    CAPTURE(metric.name);
    CHECK_FALSE(metric.compute(at::zeros({2, 3}, at::kDouble)).defined());
    CHECK(metric.compute(at::full({2, 3, 4, 5}, -1, at::kDouble)).size(0) == 2);
  }
}

}  // namespace
}  // namespace mixerbench::harness
