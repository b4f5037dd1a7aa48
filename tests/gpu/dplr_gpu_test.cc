// DPLR by device code against the reference in fp64: sizes of heads, lengths, decays, states,
// outputs and every gradient. Without a GPU every case fails.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "harness/device/device.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/dplr/dplr.h"
#include "kernels/runtime/plan.h"
#include "tests/gpu/token_scan_check.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RandomUnitRows;
using testing::RelativeError;
using token_scan_check::CheckAnyLayout;
using token_scan_check::CheckTokenScan;
using token_scan_check::kFloat32Tolerance;
using token_scan_check::Map;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Decay { kNone, kOfHead, kOfChannel, kStrong };

struct Case {
  std::int64_t batch_size = 2;
  std::int64_t seq_len = 65;
  std::int64_t num_heads = 2;
  std::int64_t head_k_dim = 32;
  std::int64_t head_v_dim = 32;
  Decay decay = Decay::kOfChannel;
  bool has_state = true;
  bool is_delta_rule = false;  // with beta, and recalls from the decayed state
  at::ScalarType dtype = at::kFloat;
  at::ScalarType factor_dtype = at::kFloat;  // of a and b
};

at::Tensor DrawLogDecay(const Case& c) {
  if (c.decay == Decay::kNone) return {};
  if (c.decay == Decay::kOfHead) {
    return RandomUniform({c.batch_size, c.seq_len, c.num_heads}, 6) * -2;
  }
  at::Tensor g = RandomUniform({c.batch_size, c.seq_len, c.num_heads, c.head_k_dim}, 6) * -2;
  if (c.decay == Decay::kStrong) {
    g.slice(-1, 0, c.head_k_dim, 2).fill_(-20);
    g.slice(-1, 1, c.head_k_dim, 3).slice(1, 0, c.seq_len, 5).fill_(-kInfinity);
  }
  return g;
}

// q, k, v, a, b, log_decay, initial_state, beta in the dtypes of the case, on the CPU.
std::vector<at::Tensor> DrawInputs(const Case& c) {
  const std::int64_t b = c.batch_size, t = c.seq_len, h = c.num_heads;
  const std::int64_t k = c.head_k_dim, v = c.head_v_dim;
  const at::Tensor log_decay = DrawLogDecay(c);
  return {RandomNormal({b, t, h, k}, 1).to(c.dtype),
          RandomNormal({b, t, h, k}, 2).to(c.dtype),
          RandomNormal({b, t, h, v}, 3).to(c.dtype),
          RandomUnitRows({b, t, h, k}, 4).to(c.factor_dtype),
          RandomUnitRows({b, t, h, k}, 5).to(c.factor_dtype),
          log_decay.defined() ? log_decay.to(at::kFloat) : log_decay,
          c.has_state ? RandomNormal({b, h, k, v}, 7).to(at::kFloat) : at::Tensor(),
          c.is_delta_rule ? RandomUniform({b, t, h}, 8).to(c.factor_dtype) : at::Tensor()};
}

testing::TensorFunction FunctionOf(ExecutionPath path) {
  return [path](const std::vector<at::Tensor>& x) {
    const auto result = Dplr({.recurrence = {.q = x[0],
                                             .k = x[1],
                                             .v = x[2],
                                             .log_decay = x[5],
                                             .beta = x[7],
                                             .initial_state = x[6]},
                              .a = x[3],
                              .b = x[4],
                              .recalls_decayed = x[7].defined()},
                             path);
    return std::vector<at::Tensor>{result.o, result.final_state};
  };
}

std::vector<at::Tensor> OnGpu(const Case& c) {
  const at::Device gpu = harness::ParseDevice("cuda");
  return Map(DrawInputs(c), [&](const at::Tensor& x) { return x.to(gpu); });
}

// o, final state, gradients.
std::vector<at::Tensor> Results(ExecutionPath path, const std::vector<at::Tensor>& inputs) {
  auto d = testing::Differentiate(FunctionOf(path), inputs);
  d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
  return d.outputs;
}

void CheckCase(const Case& c) {
  CAPTURE(c.batch_size, c.seq_len, c.num_heads, c.head_k_dim, c.head_v_dim);
  CAPTURE(static_cast<int>(c.decay), c.has_state, c.is_delta_rule, c.dtype, c.factor_dtype);
  CheckTokenScan("dplr", c.dtype, OnGpu(c), Results);
}

TEST_CASE("dplr gpu: heads of every size") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {5, 16, 24, 32, 64, 96, 128}) {
    for (const std::int64_t head_v_dim : {3, 16, 24, 32, 64, 96, 128, 256}) {
      CheckCase({.head_k_dim = head_k_dim, .head_v_dim = head_v_dim});
    }
  }
}

TEST_CASE("dplr gpu: every length, with every decay, with a state and without") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t seq_len : {1, 4, 5, 8, 9, 17, 64, 65, 193}) {
    for (const Decay decay : {Decay::kNone, Decay::kOfHead, Decay::kOfChannel, Decay::kStrong}) {
      for (const bool has_state : {false, true}) {
        for (const std::int64_t head_dim : {24, 64}) {
          CheckCase({.seq_len = seq_len,
                     .head_k_dim = head_dim,
                     .head_v_dim = head_dim + 8,
                     .decay = decay,
                     .has_state = has_state});
        }
      }
    }
  }
}

TEST_CASE("dplr gpu: the delta rule with every decay, in heads of every size") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const Decay decay : {Decay::kNone, Decay::kOfHead, Decay::kOfChannel, Decay::kStrong}) {
    for (const std::int64_t head_k_dim : {24, 33, 64, 128}) {
      for (const std::int64_t head_v_dim : {31, 32, 128}) {
        CheckCase({.seq_len = 37,
                   .head_k_dim = head_k_dim,
                   .head_v_dim = head_v_dim,
                   .decay = decay,
                   .is_delta_rule = true});
      }
    }
  }
}

TEST_CASE("dplr gpu: tensors in bf16 with factors in bf16 and in fp32") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const at::ScalarType factor_dtype : {at::kBFloat16, at::kFloat}) {
    for (const auto& [head_k_dim, head_v_dim] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {32, 32}, {64, 128}, {128, 64}, {33, 31}}) {
      CheckCase({.head_k_dim = head_k_dim,
                 .head_v_dim = head_v_dim,
                 .is_delta_rule = factor_dtype == at::kBFloat16,
                 .dtype = at::kBFloat16,
                 .factor_dtype = factor_dtype});
    }
  }
}

TEST_CASE("dplr gpu: more heads than run at once") {
  harness::SetNumerics(/*allow_tf32=*/false);
  CheckCase({.batch_size = 400, .seq_len = 33, .num_heads = 8});
}

// For compute-sanitizer (docs/GPU.md).
TEST_CASE("dplr gpu: short sequences", "[sanitizer]") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {24, 33, 64, 128}) {
    CheckCase({.seq_len = 13,
               .head_k_dim = head_k_dim,
               .head_v_dim = 70,
               .is_delta_rule = head_k_dim != 64});
  }
}

TEST_CASE("dplr gpu: tensors that are not contiguous give the same bits") {
  harness::SetNumerics(/*allow_tf32=*/false);
  CheckAnyLayout(OnGpu({.is_delta_rule = true}), Results);
}

TEST_CASE("dplr gpu: the delta rule of columns of one projection, keys in three places") {
  harness::SetNumerics(/*allow_tf32=*/false);
  constexpr std::int64_t kHeads = 2, kDim = 32, kWidth = kHeads * kDim;
  const at::Device gpu = harness::ParseDevice("cuda");
  const std::vector<at::Tensor> inputs = {
      RandomNormal({2, 41, 3 * kWidth}, 1).to(gpu, at::kFloat) / std::sqrt(kDim),
      RandomUniform({2, 41, kHeads, kDim}, 2).to(gpu, at::kFloat) * -1,
      RandomUniform({2, 41, kHeads}, 3).to(gpu, at::kFloat)};
  const auto function = [&](ExecutionPath path) {
    return [&, path](const std::vector<at::Tensor>& x) {
      std::vector<at::Tensor> heads;
      for (const at::Tensor& columns : SplitColumns(x[0], {kWidth, kWidth, kWidth}, path)) {
        heads.push_back(columns.unflatten(-1, {kHeads, kDim}));
      }
      const auto args = DeltaRuleAsDplr(
          {.q = heads[0], .k = heads[1], .v = heads[2], .log_decay = x[1], .beta = x[2]});
      return std::vector<at::Tensor>{Dplr(args, path).o};
    };
  };
  const auto expected =
      testing::Differentiate(function(ExecutionPath::kReference),
                             Map(inputs, [](const at::Tensor& x) { return x.to(at::kDouble); }));
  const auto actual = testing::Differentiate(function(ExecutionPath::kFast), inputs);
  CHECK(RelativeError(actual, expected) < kFloat32Tolerance);
}

TEST_CASE("dplr gpu: a reset has no gradient, and what is not finite reaches no earlier token") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const auto inputs = OnGpu({.seq_len = 70, .decay = Decay::kStrong, .is_delta_rule = true});
  const auto clean = Results(ExecutionPath::kFast, inputs);
  const at::Tensor resets = inputs[5] == -kInfinity;
  CHECK(clean[7].masked_select(resets).count_nonzero().item<std::int64_t>() == 0);
  for (const std::size_t input : {0, 1, 2, 3, 4, 5, 7}) {
    CAPTURE(input);
    auto poisoned = inputs;
    poisoned[input] = inputs[input].clone();
    poisoned[input][1].select(0, 41).fill_(std::numeric_limits<double>::quiet_NaN());
    const at::Tensor o = FunctionOf(ExecutionPath::kFast)(poisoned)[0];
    CHECK(o[0].equal(clean[0][0]));
    CHECK(o[1].narrow(0, 0, 41).equal(clean[0][1].narrow(0, 0, 41)));
    CHECK(o[1].select(0, 41).isnan().all().item<bool>());
  }
}

TEST_CASE("dplr gpu: keys of more than 128 channels and fp64 run by ATen, with the reason") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const auto reason = [&](const Case& c) {
    const PlanRecorder recorder;
    FunctionOf(ExecutionPath::kFast)(OnGpu(c));
    REQUIRE(recorder.records().size() == 1);
    CHECK(recorder.records()[0].forward == "aten_chunk");
    return recorder.records()[0].reason;
  };
  CHECK_THAT(reason({.head_k_dim = 130}), Catch::Contains("head_k_dim 130"));
  CHECK_THAT(reason({.dtype = at::kDouble}), Catch::Contains("no device code for Double"));
}

}  // namespace
}  // namespace mixerbench::kernels
