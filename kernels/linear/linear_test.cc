// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/linear.h"

#include <cstdint>
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>

#include "kernels/linear/linear_backward_cuda.h"
#include "kernels/linear/linear_forward_cuda.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::GradientCheckError;
using testing::Longs;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("linear: formula and gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({5, 4}, 2),
                                          RandomNormal({5}, 3)};
  const auto function = [](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {Linear(x[0], x[1], x[2])};
  };
  CHECK(RelativeError(function(inputs)[0], inputs[0].matmul(inputs[1].t()) + inputs[2]) <
        kFloat64Tolerance);
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK(Linear(inputs[0].to(at::kBFloat16), inputs[1].to(at::kFloat), {}).scalar_type() ==
        at::kBFloat16);
}

TEST_CASE("linear: some columns of all rows, others of chosen ones") {
  const ScoredPositions rows{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({7, 4}, 2),
                                          RandomNormal({7}, 3)};
  const auto columns = [](const std::vector<at::Tensor>& x, const ScoredPositions* selection) {
    return LinearColumns(x[0], x[1], x[2], {{2, true}, 1, {4, true}}, selection);
  };
  const at::Tensor whole = Linear(inputs[0], inputs[1], inputs[2]);
  const auto all = columns(inputs, nullptr);
  CHECK(BitwiseEqual(all[0], whole.narrow(-1, 0, 2)));
  CHECK(BitwiseEqual(all[2], whole.narrow(-1, 3, 4)));
  const auto some = columns(inputs, &rows);
  CHECK(BitwiseEqual(some[0], GatherRows(all[0], rows)));
  CHECK(BitwiseEqual(some[1], all[1]));
  CHECK(BitwiseEqual(some[2], GatherRows(all[2], rows)));
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto y = columns(x, &rows);  // without the entry that only fills
    return {y[0].narrow(0, 0, 3), y[1], y[2].narrow(0, 0, 3)};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK_THROWS_WITH(LinearColumns(inputs[0], inputs[1], {}, {2, 4}),
                    Catch::Contains("the blocks have out columns"));
}

TEST_CASE("linear: which sizes get their gradients in one pass, and how they are cut") {
  struct Case {
    LinearBackwardSizes sizes;
    int panels;  // of a warpgroup
    bool has_tail;
  };
  for (const auto& [sizes, panels, has_tail] :
       {Case{{65536, 128, 384, true}, 3, false}, Case{{65536, 128, 400}, 3, true},
        Case{{65536, 128, 272}, 2, true}, Case{{65536, 128, 272, true}, 3, false},
        Case{{65536, 128, 528}, 4, true}, Case{{65536, 256, 128}, 1, false},
        Case{{65536, 256, 152}, 2, false}, Case{{32768, 64, 192, true}, 2, false},
        Case{{4096, 64, 8}, 1, false}}) {
    CAPTURE(sizes.in, sizes.out, sizes.has_bias);
    CHECK(LinearBackwardSupports(sizes));
    CHECK(CutLinearColumns(sizes).panels == panels);
    CHECK(CutLinearColumns(sizes).has_tail == has_tail);
    CHECK(2 * kLinearTile * panels + (has_tail ? 16 : 0) >= sizes.out);
  }
  CHECK_FALSE(LinearBackwardSupports({4095, 128, 384}));         // few rows
  CHECK_FALSE(LinearBackwardSupports({65536, 96, 384}));         // a width between
  CHECK_FALSE(LinearBackwardSupports({65536, 128, 386}));        // rows that are not aligned
  CHECK_FALSE(LinearBackwardSupports({65536, 128, 536}));        // too many sums
  CHECK_FALSE(LinearBackwardSupports({65536, 128, 400, true}));  // with those of the bias
  CHECK(LinearBackwardParts({65536, 128, 400}) == 66);
  CHECK(LinearBackwardParts({65536, 256, 400}) == 33);
  CHECK(LinearBackwardParts({65, 64, 400}) == 2);
  CHECK(LinearBackwardScratch({65536, 128, 400}) == 66 * (128 + 2) * 400);
}

TEST_CASE("linear: of which sizes the weight stays in shared memory, and what lies beside it") {
  constexpr long long kSharedBytes = 227 * 1024;  // of a block
  for (const auto& [sizes, groups, panels, stages] :
       {std::tuple{LinearForwardSizes{65536, 128, 384}, 3, 6, 3},
        std::tuple{LinearForwardSizes{65536, 128, 528}, 2, 9, 2},
        std::tuple{LinearForwardSizes{65536, 128, 136}, 3, 3, 6},
        std::tuple{LinearForwardSizes{32768, 64, 192}, 3, 3, 6}}) {
    CAPTURE(sizes.in, sizes.out);
    CHECK(LinearForwardSupports(sizes));
    const LinearForwardCut cut = CutLinearForward(sizes);
    CHECK(cut.num_groups == groups);
    CHECK(cut.num_panels == panels);
    CHECK(cut.num_stages == stages);
    CHECK(cut.bytes <= kSharedBytes);
  }
  CHECK_FALSE(LinearForwardSupports({4096, 128, 384}));  // few rows
  CHECK(LinearForwardSupports({65536, 128, 128}));
  CHECK_FALSE(LinearForwardSupports({131072, 128, 64}));  // more read than written
  CHECK_FALSE(LinearForwardSupports({65536, 96, 384}));   // a width between
  CHECK_FALSE(LinearForwardSupports({65536, 128, 388}));  // rows that are not aligned
  CHECK_FALSE(LinearForwardSupports({65536, 128, 648}));  // too large a weight
}

TEST_CASE("linear: rows get products of their own when much is left out") {
  CHECK(FormsScoredApart(65536, 4096, 128));
  CHECK_FALSE(FormsScoredApart(65536, 32768, 128));  // not few
  CHECK_FALSE(FormsScoredApart(32768, 2048, 64));    // few bytes
  CHECK_FALSE(FormsScoredApart(65536, 4096, 0));
}

}  // namespace
}  // namespace mixerbench::kernels
