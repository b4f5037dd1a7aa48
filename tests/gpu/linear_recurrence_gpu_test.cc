// The linear recurrence by device code against the reference in fp64: real and complex, one decay
// or one a token, outputs and every gradient. Without a GPU every case fails.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "harness/device/device.h"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"
#include "kernels/runtime/plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

// The decay in fp32 to the 32nd power at most, and sums of what it leaves of earlier tokens.
constexpr double kTolerance = 2e-5;

struct Kind {
  bool complex_x;
  bool complex_decay;
  bool constant;
  bool double_decay;
};

const std::vector<Kind> kKinds = {
    {false, false, false, false}, {false, false, true, true},  {true, true, false, false},
    {true, true, true, true},     {false, true, true, true},   {true, false, false, false},
    {true, true, false, true},    {false, false, false, true},
};

at::Tensor Pairs(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; }

// Real leaves in fp64 on the CPU: x, log decay, initial state; complex ones in pairs.
std::vector<at::Tensor> DrawLeaves(const Kind& kind, std::int64_t seq_len, std::int64_t channels) {
  constexpr std::int64_t kBatch = 3;
  const auto sizes = [](std::vector<std::int64_t> shape, bool is_complex) {
    if (is_complex) shape.push_back(2);
    return shape;
  };
  const auto decay = kind.constant ? std::vector<std::int64_t>{channels}
                                   : std::vector<std::int64_t>{kBatch, seq_len, channels};
  return {RandomNormal(sizes({kBatch, seq_len, channels}, kind.complex_x), 1),
          RandomNormal(sizes(decay, kind.complex_decay), 2),
          RandomNormal(sizes({kBatch, channels}, kind.complex_x || kind.complex_decay), 3)};
}

testing::TensorFunction FunctionOf(const Kind& kind, ExecutionPath path) {
  return [kind, path](const std::vector<at::Tensor>& leaves) -> std::vector<at::Tensor> {
    const auto number = [](const at::Tensor& x, bool is_complex) {
      return is_complex ? at::view_as_complex(x.contiguous()) : x;
    };
    LinearRecurrenceArgs args;
    args.x = number(leaves[0], kind.complex_x);
    const at::Tensor log = kind.double_decay ? leaves[1].to(at::kDouble) : leaves[1];
    if (kind.complex_decay) {
      const auto parts = log.unbind(-1);
      args.log_decay = at::complex(-parts[0].abs() * 0.05, parts[1]);
    } else {
      args.log_decay = -log.abs() * 0.05;
    }
    args.initial_state = number(leaves[2], kind.complex_x || kind.complex_decay);
    const auto [h, final_state] = LinearRecurrence(args, path);
    return {Pairs(h), Pairs(final_state)};
  };
}

TEST_CASE("linear recurrence: device code equals the reference, gradients included") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const at::Device gpu = harness::ParseDevice("cuda");
  for (const Kind& kind : kKinds) {
    for (const std::int64_t seq_len : {1, 31, 32, 33, 500, 4128}) {
      for (const std::int64_t channels : {1, 16, 130}) {
        CAPTURE(kind.complex_x, kind.complex_decay, kind.constant, kind.double_decay, seq_len,
                channels);
        const auto leaves = DrawLeaves(kind, seq_len, channels);
        const auto run = [&](ExecutionPath path, at::Device device, at::ScalarType dtype) {
          std::vector<at::Tensor> typed;
          for (const at::Tensor& leaf : leaves) {
            typed.push_back(leaf.to(at::kFloat).to(device, dtype));  // the same numbers
          }
          auto d = testing::Differentiate(FunctionOf(kind, path), typed);
          d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
          return d.outputs;
        };
        // The definition on the CPU takes minutes for long inputs; the scan is tested against it.
        const auto expected = run(seq_len > 500 ? ExecutionPath::kFast : ExecutionPath::kReference,
                                  at::kCPU, at::kDouble);
        const auto actual = run(ExecutionPath::kFast, gpu, at::kFloat);
        const auto again = run(ExecutionPath::kFast, gpu, at::kFloat);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          CHECK(RelativeError(actual[i].cpu(), expected[i]) < kTolerance);
          CHECK(testing::BitwiseEqual(actual[i], again[i]));
        }
      }
    }
  }
}

TEST_CASE(
    "linear recurrence: device code forgets what minus infinity ends, and passes no NaN back") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const at::Device gpu = harness::ParseDevice("cuda");
  at::Tensor x = RandomNormal({1, 70, 4}, 1).to(gpu, at::kFloat);
  at::Tensor log_decay = (-RandomNormal({1, 70, 4}, 2).abs()).to(gpu, at::kFloat);
  log_decay.select(1, 40).fill_(-std::numeric_limits<double>::infinity());
  const auto run = [&] {
    return LinearRecurrence({.x = x, .log_decay = log_decay}, ExecutionPath::kFast).h;
  };
  const at::Tensor clean = run();
  CHECK(clean.select(1, 40).equal(x.select(1, 40)));
  x.select(1, 50).fill_(std::numeric_limits<double>::quiet_NaN());
  CHECK(run().narrow(1, 0, 50).equal(clean.narrow(1, 0, 50)));
}

}  // namespace
}  // namespace mixerbench::kernels
