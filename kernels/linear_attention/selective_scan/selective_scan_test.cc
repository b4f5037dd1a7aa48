// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/selective_scan/selective_scan.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>

#include "kernels/linear_attention/selective_scan/selective_scan_plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kGoldenTolerance = 1e-8;    // ten digits are given, of numbers near 1
constexpr double kGradientTolerance = 1e-6;  // seven digits
constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16
constexpr double kFloat32Tolerance = 1e-5;   // some hundred roundings at 6e-8

using Scan = SelectiveScanResult (*)(const SelectiveScanArgs&);
const std::vector<Scan> kScans = {ReferenceSelectiveScan, ChunkSelectiveScan, UnfusedSelectiveScan};

at::Tensor Line(std::int64_t size) { return at::arange(size, at::kDouble); }

at::Tensor Values(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

// The arguments of the golden values: 4 tokens, 2 channels, 2 states.
SelectiveScanArgs GoldenArgs() {
  const auto t = Line(4).unsqueeze(1);
  const auto c = Line(2).unsqueeze(0);
  return {.u = at::cos(t + c).unsqueeze(0),
          .delta = at::sin(t + 2 * c).unsqueeze(0),
          .A_log = at::log(Values({1, 2, 0.5, 1.5}, {2, 2})),
          .B = at::cos(t - c).view({1, 4, 1, 2}),
          .C = at::sin(t + c + 1).view({1, 4, 1, 2}),
          .D = Values({1, 0.5}, {2}),
          .delta_bias = Values({-1, 0}, {2}),
          .z = at::cos(2 * t + c).unsqueeze(0)};
}

TEST_CASE("selective scan: outputs, state and gradients of four tokens") {
  const auto args = GoldenArgs();
  for (const Scan scan : kScans) {
    const auto derivative = testing::Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          auto changed = args;
          changed.u = x[0];
          changed.delta = x[1];
          changed.A_log = x[2];
          changed.B = x[3];
          const auto result = scan(changed);
          return std::vector<at::Tensor>{result.o, result.final_state};
        },
        {args.u, args.delta, args.A_log, args.B});
    CHECK(RelativeError(derivative.outputs[0],
                        Values({1.0362789544, 0.3989923636, -0.1508018297, -0.0065701626,
                                0.0767680175, -0.0318760956, -1.0614547490, -0.3262007010},
                               {1, 4, 2})) < kGoldenTolerance);
    CHECK(RelativeError(derivative.outputs[1],
                        Values({0.5532880314, 0.1251134300, 0.5462803250, -0.1084299709},
                               {1, 2, 2})) < kGoldenTolerance);
  }
}

TEST_CASE("selective scan: gradients of the sum of the outputs of four tokens") {
  const auto args = GoldenArgs();
  for (const Scan scan : kScans) {
    auto leaves = args;
    for (at::Tensor* x : {&leaves.u, &leaves.delta, &leaves.A_log, &leaves.B}) {
      *x = x->detach().requires_grad_(true);
    }
    scan(leaves).o.sum().backward();
    const auto gradient = [](const at::Tensor& x) { return x.grad(); };
    CHECK(RelativeError(gradient(leaves.u), Values({0.9721701, 0.2564869, -0.3265911, -0.5516321,
                                                    -0.1713010, 0.0418028, 0.9759752, 0.4473548},
                                                   {1, 4, 2})) < kGradientTolerance);
    CHECK(
        RelativeError(gradient(leaves.delta), Values({0.2069990, 0.0264792, -0.0339594, 0.2081327,
                                                      0.0347658, 0.0205222, -0.2105847, -0.1287373},
                                                     {1, 4, 2})) < kGradientTolerance);
    CHECK(RelativeError(gradient(leaves.B).flatten(),
                        Values({0.0970510, 0.3524124, 0.0385792, 0.0658141, 0.2251247, 0.2047186,
                                0.2660425, 0.3370954},
                               {8})) < kGradientTolerance);
    // dA_log = A dA
    CHECK(RelativeError(gradient(leaves.A_log),
                        Values({-1, -2, -0.5, -1.5}, {2, 2}) *
                            Values({-0.1234060, -0.0080347, -0.2454335, 0.0256023}, {2, 2})) <
          kGradientTolerance);
  }
}

SelectiveScanArgs RandomArgs(std::int64_t seq_len, std::int64_t num_groups, at::ScalarType dtype) {
  const std::int64_t batch_size = 2, num_channels = 12, state_size = 5;
  return {.u = RandomNormal({batch_size, seq_len, num_channels}, 1, dtype),
          .delta = RandomNormal({batch_size, seq_len, num_channels}, 2, dtype),
          .A_log = RandomNormal({num_channels, state_size}, 3, dtype),
          .B = RandomNormal({batch_size, seq_len, num_groups, state_size}, 4, dtype),
          .C = RandomNormal({batch_size, seq_len, num_groups, state_size}, 5, dtype),
          .initial_state = RandomNormal({batch_size, num_channels, state_size}, 6, dtype)};
}

TEST_CASE("selective scan: groups of channels are scans by themselves") {
  const auto args = RandomArgs(/*seq_len=*/21, /*num_groups=*/3, at::kDouble);
  const auto whole = ChunkSelectiveScan(args);
  for (std::int64_t group = 0; group < 3; ++group) {
    auto part = args;
    part.u = args.u.narrow(2, 4 * group, 4);
    part.delta = args.delta.narrow(2, 4 * group, 4);
    part.A_log = args.A_log.narrow(0, 4 * group, 4);
    part.B = args.B.narrow(2, group, 1);
    part.C = args.C.narrow(2, group, 1);
    part.initial_state = args.initial_state.narrow(1, 4 * group, 4);
    const auto alone = ChunkSelectiveScan(part);
    CHECK(RelativeError(whole.o.narrow(2, 4 * group, 4), alone.o) < kFloat64Tolerance);
    CHECK(RelativeError(whole.final_state.narrow(1, 4 * group, 4), alone.final_state) <
          kFloat64Tolerance);
  }
}

TEST_CASE("selective scan: without fusion it is the same, at every length") {
  for (const std::int64_t seq_len : {1, 2, 7, 8, 33}) {
    CAPTURE(seq_len);
    const auto args = RandomArgs(seq_len, /*num_groups=*/2, at::kDouble);
    const auto function = [&](Scan scan) {
      return testing::Differentiate(
          [&](const std::vector<at::Tensor>& x) {
            const auto result = scan({.u = x[0],
                                      .delta = x[1],
                                      .A_log = x[2],
                                      .B = x[3],
                                      .C = x[4],
                                      .initial_state = x[5]});
            return std::vector<at::Tensor>{result.o, result.final_state};
          },
          {args.u, args.delta, args.A_log, args.B, args.C, args.initial_state});
    };
    const auto expected = function(ReferenceSelectiveScan);
    const auto actual = function(UnfusedSelectiveScan);
    CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
  }
}

// Steps as models begin with: a thousand tokens of memory, where exp(step A) is near 1.
TEST_CASE("selective scan: small steps keep a long memory in fp32") {
  auto args = RandomArgs(/*seq_len=*/1500, /*num_groups=*/1, at::kFloat);
  args.delta = args.delta * 0.1 - 6.9;
  const auto actual = ChunkSelectiveScan(args);
  auto exact = args;
  for (at::Tensor* x :
       {&exact.u, &exact.delta, &exact.A_log, &exact.B, &exact.C, &exact.initial_state}) {
    *x = x->to(at::kDouble);
  }
  const auto expected = ReferenceSelectiveScan(exact);
  CHECK(RelativeError(actual.o, expected.o) < kFloat32Tolerance);
  CHECK(RelativeError(actual.final_state, expected.final_state) < kFloat32Tolerance);
}

TEST_CASE("selective scan: a large step resets, and neither overflows nor loses its gradient") {
  auto args = RandomArgs(/*seq_len=*/9, /*num_groups=*/1, at::kDouble);
  args.delta.select(1, 4).fill_(500);
  args.delta = args.delta.detach().requires_grad_(true);
  for (const Scan scan : kScans) {
    args.delta.mutable_grad().reset();
    scan(args).o.sum().backward();
    // The write grows with the step: its gradient is what the states after it are read for.
    CHECK(args.delta.grad().isfinite().all().item<bool>());
    CHECK(args.delta.grad().select(1, 4).count_nonzero().item<std::int64_t>() == 24);
  }
}

TEST_CASE("selective scan: wrong tensors are named") {
  const auto args = RandomArgs(/*seq_len=*/5, /*num_groups=*/2, at::kFloat);
  const auto run = [](const SelectiveScanArgs& x) { SelectiveScan(x, ExecutionPath::kFast); };
  auto wrong = args;
  wrong.delta = args.delta.narrow(2, 0, 3);
  CHECK_THROWS_WITH(run(wrong), Catch::Contains("delta must have shape"));
  wrong = args;
  wrong.C = args.C.to(at::kDouble);
  CHECK_THROWS_WITH(run(wrong), Catch::Contains("must share one floating dtype"));
  wrong = args;
  wrong.A_log = args.A_log.to(at::kBFloat16);
  CHECK_THROWS_WITH(run(wrong), Catch::Contains("A_log must be float32 or float64"));
  wrong = args;
  wrong.B = args.B.repeat({1, 1, 4, 1}).narrow(2, 0, 5);
  CHECK_THROWS_WITH(run(wrong), Catch::Contains("must divide the channels"));
}

TEST_CASE("selective scan: every state has a lane, and CTAs fit what they hold") {
  using selective_scan::ScanLayout;
  for (std::int64_t state_size = 1; state_size <= selective_scan::kMaxStateSize; ++state_size) {
    CAPTURE(state_size);
    const ScanLayout layout{ScanLayout::LanesFor(state_size)};
    CHECK(layout.lanes <= 32);
    CHECK(layout.padded_states() >= state_size);
    CHECK(layout.padded_states() < 2 * state_size + selective_scan::kStatesPerThread);
    CHECK(layout.num_threads() == layout.num_channels() * layout.lanes);
    CHECK(layout.num_threads() % 32 == 0);
    // Of the backward pass; 160 KB is what the smallest devices give that the program knows.
    const int bytes =
        4 * ScanLayout::kChunk *
        (layout.num_threads() * selective_scan::kStatesPerThread +
         (layout.num_warps() + 1) * 2 * layout.padded_states() + 5 * layout.num_channels());
    CHECK(bytes <= 160 * 1024);
  }
  CHECK(ScanLayout{4}.NumChunks(8) == 1);
  CHECK(ScanLayout{4}.NumChunks(9) == 2);
  CHECK(ScanLayout{4}.BlocksPerGroup(64) == 1);
  CHECK(ScanLayout{4}.BlocksPerGroup(65) == 2);
}

}  // namespace
}  // namespace mixerbench::kernels
