// SILA by device code against the reference in fp64: sizes of heads, lengths, gates, states,
// outputs and every gradient. Without a GPU every case fails.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "harness/device/device.h"
#include "kernels/linear_attention/sila/sila.h"
#include "kernels/runtime/plan.h"
#include "tests/gpu/token_scan_check.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RandomUnitRows;
using token_scan_check::CheckAnyLayout;
using token_scan_check::CheckTokenScan;
using token_scan_check::Map;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::int64_t batch_size = 2;
  std::int64_t seq_len = 65;
  std::int64_t num_heads = 2;
  std::int64_t head_k_dim = 32;
  std::int64_t head_v_dim = 32;
  bool has_memory = true;
  bool cross_head = false;
  bool has_state = true;
  bool decayed_erase = false;
  bool forced = false;
  double extreme_logit = 0;  // of half of the tokens; 0: none
  at::ScalarType dtype = at::kFloat;
};

// q, k, v, the logits, the memory weights, initial_state, forced gates in the dtypes of the case,
// on the CPU.
std::vector<at::Tensor> DrawInputs(const Case& c) {
  const std::int64_t b = c.batch_size, t = c.seq_len, h = c.num_heads;
  const std::int64_t k = c.head_k_dim, v = c.head_v_dim;
  const auto logit = [&](std::uint64_t seed) {
    const at::Tensor x = RandomNormal({b, t, h}, seed);
    if (c.extreme_logit == 0) return x.to(at::kFloat);
    return at::where(RandomUniform({b, t, h}, seed + 10) > 0.5, c.extreme_logit, x).to(at::kFloat);
  };
  const auto memory = [&](std::uint64_t seed) {
    if (!c.has_memory) return at::Tensor();
    return (c.cross_head ? RandomNormal({h, h, v}, seed) : RandomNormal({h, v}, seed))
        .to(at::kFloat);
  };
  const at::Tensor gates = RandomUniform({b, t, h}, 9);
  return {RandomNormal({b, t, h, k}, 1).to(c.dtype),
          RandomUnitRows({b, t, h, k}, 2).to(c.dtype),
          RandomNormal({b, t, h, v}, 3).to(c.dtype),
          logit(4),
          logit(5),
          memory(6),
          memory(7),
          c.has_state ? RandomNormal({b, h, k, v}, 8).to(at::kFloat) : at::Tensor(),
          c.forced ? at::where(gates > 0.6, gates, kNan).to(at::kFloat) : at::Tensor()};
}

constexpr std::size_t kForced = 8;

SilaArgs ArgsOf(const Case& c, const std::vector<at::Tensor>& x) {
  return {.q = x[0],
          .k = x[1],
          .v = x[2],
          .write_logit = x[3],
          .forget_logit = x[4],
          .write_memory = x[5],
          .forget_memory = x[6],
          .initial_state = x[7],
          .forced_write_gate = x[kForced],
          .decayed_erase = c.decayed_erase};
}

std::vector<at::Tensor> OnGpu(const Case& c) {
  const at::Device gpu = harness::ParseDevice("cuda");
  return Map(DrawInputs(c), [&](const at::Tensor& x) { return x.to(gpu); });
}

// o, final state, gates if wanted, gradients.
std::vector<at::Tensor> Results(const Case& c, ExecutionPath path,
                                const std::vector<at::Tensor>& inputs, bool wants_gates = false) {
  std::vector<at::Tensor> gates;
  const at::Tensor forced = inputs[kForced];
  auto d = testing::Differentiate(
      [&](const std::vector<at::Tensor>& leaves) {
        auto x = leaves;
        x.push_back(forced);
        SilaArgs args = ArgsOf(c, x);
        args.wants_gates = wants_gates;
        const auto result = Sila(args, path);
        if (wants_gates) gates = {result.write_gate, result.log_decay, result.recalled};
        return std::vector<at::Tensor>{result.o, result.final_state};
      },
      {inputs.begin(), inputs.begin() + kForced});
  d.outputs.insert(d.outputs.end(), gates.begin(), gates.end());
  d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
  return d.outputs;
}

void CheckCase(const Case& c, bool wants_gates = false) {
  CAPTURE(c.batch_size, c.seq_len, c.num_heads, c.head_k_dim, c.head_v_dim, c.has_memory);
  CAPTURE(c.has_state, c.decayed_erase, c.forced, c.extreme_logit, c.dtype, wants_gates);
  CheckTokenScan("sila", c.dtype, OnGpu(c),
                 [&](ExecutionPath path, const std::vector<at::Tensor>& inputs) {
                   return Results(c, path, inputs, wants_gates);
                 });
}

TEST_CASE("sila gpu: heads of every size") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {5, 16, 24, 32, 64, 96, 128}) {
    for (const std::int64_t head_v_dim : {3, 16, 24, 32, 64, 96, 128}) {
      CheckCase({.head_k_dim = head_k_dim, .head_v_dim = head_v_dim});
    }
  }
}

TEST_CASE("sila gpu: every length and option, with a state and without") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t seq_len : {1, 4, 5, 8, 9, 17, 64, 65, 193}) {
    for (const bool decayed_erase : {false, true}) {
      for (const bool option : {false, true}) {
        for (const std::int64_t head_dim : {24, 64}) {
          CheckCase({.seq_len = seq_len,
                     .head_k_dim = head_dim,
                     .head_v_dim = head_dim + 8,
                     .has_state = option,
                     .decayed_erase = decayed_erase,
                     .forced = option != decayed_erase},
                    /*wants_gates=*/option);
        }
      }
    }
  }
}

TEST_CASE("sila gpu: gates of the token alone") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const bool decayed_erase : {false, true}) {
    CheckCase({.has_memory = false, .decayed_erase = decayed_erase}, /*wants_gates=*/true);
  }
}

TEST_CASE("sila gpu: logits so large that gates are at their ends") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const double logit : {-20., -1000., 1000.}) {
    for (const bool decayed_erase : {false, true}) {
      CheckCase({.decayed_erase = decayed_erase, .extreme_logit = logit});
    }
  }
}

TEST_CASE("sila gpu: tensors in bf16") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const auto& [head_k_dim, head_v_dim] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {32, 32}, {64, 128}, {128, 64}, {33, 31}}) {
    CheckCase({.head_k_dim = head_k_dim, .head_v_dim = head_v_dim, .dtype = at::kBFloat16});
  }
}

TEST_CASE("sila gpu: more heads than run at once") {
  harness::SetNumerics(/*allow_tf32=*/false);
  CheckCase({.batch_size = 400, .seq_len = 33, .num_heads = 8});
}

// For compute-sanitizer (docs/GPU.md).
TEST_CASE("sila gpu: short sequences", "[sanitizer]") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {24, 33, 64, 128}) {
    CheckCase({.seq_len = 13, .head_k_dim = head_k_dim, .head_v_dim = 70});
  }
}

TEST_CASE("sila gpu: any layout of the inputs") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const Case c{.forced = true};
  CheckAnyLayout(OnGpu(c), [&](ExecutionPath path, const std::vector<at::Tensor>& inputs) {
    return Results(c, path, inputs);
  });
}

TEST_CASE("sila gpu: what is not finite reaches no earlier token and every later one") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const Case c{.seq_len = 70, .has_memory = false};
  const auto inputs = OnGpu(c);
  const at::Tensor clean = Sila(ArgsOf(c, inputs), ExecutionPath::kFast).o;
  for (const std::size_t input : {0, 1, 2, 3, 4}) {
    CAPTURE(input);
    auto poisoned = inputs;
    poisoned[input] = inputs[input].clone();
    poisoned[input][1].select(0, 41).fill_(kNan);
    const at::Tensor o = Sila(ArgsOf(c, poisoned), ExecutionPath::kFast).o;
    CHECK(o[0].equal(clean[0]));
    CHECK(o[1].narrow(0, 0, 41).equal(clean[1].narrow(0, 0, 41)));
    CHECK(o[1].select(0, 41).isnan().all().item<bool>());
    if (input != 0) CHECK(o[1].narrow(0, 42, 28).isnan().all().item<bool>());
  }
}

TEST_CASE("sila gpu: what token_scan does not take runs by ATen, with the reason") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const auto reason = [&](const Case& c) {
    const PlanRecorder recorder;
    Sila(ArgsOf(c, OnGpu(c)), ExecutionPath::kFast);
    REQUIRE(recorder.records().size() == 1);
    CHECK(recorder.records()[0].forward == "aten_chunk");
    return recorder.records()[0].reason;
  };
  CHECK_THAT(reason({.head_k_dim = 130}), Catch::Contains("head_k_dim 130"));
  CHECK_THAT(reason({.head_v_dim = 130}), Catch::Contains("head_v_dim 130"));
  CHECK_THAT(reason({.cross_head = true}), Catch::Contains("other heads"));
  CHECK_THAT(reason({.dtype = at::kDouble}), Catch::Contains("no device code for Double"));
}

}  // namespace
}  // namespace mixerbench::kernels
