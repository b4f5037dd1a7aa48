// What the conformance table (tests/gpu/conformance.cc) does not try of cores with device code:
// every kernel on short sequences for compute-sanitizer, decays that reset, errors that add up in a
// bias, NaN, hard cases of the inverse, dropout, scored positions, layouts, refusals. Without a GPU
// every case fails. Prints the errors of each case, and what they may be.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>

#include "harness/device/device.h"
#include "kernels/attention/softmax_attention/softmax_attention.h"
#include "kernels/core.h"
#include "kernels/core_testing.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "kernels/runtime/plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Convert;
using testing::CoreCase;
using testing::DrawInputs;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;
using testing::RunWithGradients;

// The cores of this test: those with a matrix state.
constexpr const char* kCores[] = {"simple_gla", "gla", "delta_rule"};

struct Precision {
  const char* name;
  at::ScalarType dtype;
  bool allow_tf32;
};
constexpr Precision kPrecisions[] = {
    {"fp32", at::kFloat, false}, {"tf32", at::kFloat, true}, {"bf16", at::kBFloat16, false}};

// Device code may be twice as far from fp64 as the same core written in ATen operations in the same
// precision (docs/NUMERICS.md), and this far for the rounding of fp32: sums of some thousand terms
// at 6e-8, and cumulative log decays up to 320 in a block at the same.
constexpr double kNaiveFactor = 2;
constexpr double kFp32Rounding = 2e-5;
// Cumulative sums over a reset hold some hundreds, of which fp32 keeps 2^-24: 1e-5 of a decay.
// Gradients of slots go through two recurrences, forward and backward.
constexpr double kResetRounding = 1e-5;
constexpr double kSlotRecurrences = 4;
// A call of one token multiplies one operand that was rounded to bf16, by 2^-8 at most, where the
// naive path has no product.
constexpr double kBf16Operand = 1.0 / 256;
// Operands of tf32 have three digits more than those of bf16.
constexpr double kTf32Share = 1.0 / 8;
// In the scans of GLA the gradient of log decays is a difference of q dq and k dk with dq
// and dk as they are returned (kernels/linear_attention/scan/decay_scan.md): where the two cancel,
// their rounding is left. Seen in bf16: 4e-2. Everywhere else it has only terms that depend on the
// decay.
constexpr double kRoundedDifference = 6e-2;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const CoreEntry& Core(const std::string& name) {
  static const CoreRegistry cores = [] {
    CoreRegistry registry("core");
    RegisterCores(registry);
    return registry;
  }();
  return cores.Find(name, "");
}

at::Device Gpu(const Precision& precision) {
  harness::SetNumerics(precision.allow_tf32);
  return harness::ParseDevice("cuda");
}

NamedTensors On(at::Device device, const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.to(device);
  return result;
}

// q, k and v in the dtype under test; gates and states stay in fp32.
NamedTensors InPrecision(const NamedTensors& inputs, const Precision& precision) {
  NamedTensors result = inputs;
  for (const char* name : {"q", "k", "v"}) result[name] = inputs.at(name).to(precision.dtype);
  if (result.count("beta") > 0) result["beta"] = inputs.at("beta").to(at::kFloat);
  return result;
}

using NamedErrors = std::vector<std::pair<std::string, double>>;

// The errors of all outputs and gradients. The gradient of log decays is a difference of terms as
// large as dq, and as small as the decay itself: its error is measured against both.
NamedErrors Errors(NamedTensors actual, NamedTensors expected) {
  if (expected.count("d log_decay") > 0) {
    const auto d_q = expected.at("d q").flatten();
    for (auto* result : {&actual, &expected}) {
      result->at("d log_decay") =
          at::cat({result->at("d log_decay").flatten().to(at::kDouble), d_q});
    }
  }
  NamedErrors errors;
  for (const auto& [name, value] : expected) {
    errors.emplace_back(name, RelativeError(actual.at(name), value));
  }
  return errors;
}

// Products of ATen operations on the CPU take their operands in bf16.
class Bf16Products {
 public:
  Bf16Products() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Bf16Products() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  Bf16Products(const Bf16Products&) = delete;
  Bf16Products& operator=(const Bf16Products&) = delete;
};

// Errors of the core's ATen path, which CPU tensors take: the naive implementation.
struct NaiveErrors {
  NamedErrors fp32, bf16;

  NaiveErrors(const CoreEntry& core, const NamedTensors& inputs, const NamedTensors& expected) {
    const auto run = [&](const Precision& precision) {
      return Errors(RunWithGradients(core, InPrecision(inputs, precision), {}), expected);
    };
    fp32 = run(kPrecisions[0]);
    const Bf16Products autocast;
    bf16 = run(kPrecisions[2]);
  }
};

// What the device code of a precision may be off by, in the order of the errors.
// `rounded_difference`: in bf16, of the gradient of log decays, where scans form it from others.
// `extra`: of every error.
std::vector<double> Tolerances(const NaiveErrors& naive, const Precision& precision,
                               double rounded_difference, double extra) {
  const bool is_rounded = precision.dtype == at::kBFloat16 || precision.allow_tf32;
  const double share = precision.allow_tf32 ? kTf32Share : 1;
  std::vector<double> tolerances;
  for (const auto& [name, error] : is_rounded ? naive.bf16 : naive.fp32) {
    const bool is_difference = is_rounded && name == "d log_decay";
    tolerances.push_back(kNaiveFactor * share * error + kFp32Rounding + extra +
                         (is_difference ? rounded_difference : 0));
  }
  return tolerances;
}

bool HasResets(const CoreCase& c) {
  return std::any_of(c.log_decays.begin(), c.log_decays.end(),
                     [](double log_decay) { return log_decay < -1e3; });
}

// Whether the fused plan of GLA is to take bf16 tensors.
enum class Plan { kAny, kFused };

void CheckCase(const std::string& core_name, const CoreCase& c, Plan plan = Plan::kAny) {
  const CoreEntry& core = Core(core_name);
  // Values that bf16 represents: the reference serves every precision.
  CoreCase rounded = c;
  rounded.dtype = at::kBFloat16;
  const auto inputs = DrawInputs(core, rounded, /*seed=*/7);
  // A token after the other, which on a CPU would be most of this test's time.
  const auto in_double = On(Gpu(kPrecisions[0]), Convert(inputs, at::kDouble));
  const auto expected =
      On(at::kCPU, RunWithGradients(core, in_double, {.path = ExecutionPath::kReference}));
  const NaiveErrors naive(core, inputs, expected);
  for (const auto& precision : kPrecisions) {
    const bool is_bf16 = precision.dtype == at::kBFloat16;
    const bool is_rounded = core_name == "gla" && !(is_bf16 && plan == Plan::kFused);
    double difference = 0;
    if (is_rounded) difference = is_bf16 ? kRoundedDifference : kTf32Share * kRoundedDifference;
    if (is_bf16 && c.seq_len == 1) difference = std::max(difference, kBf16Operand);
    const double of_resets = kResetRounding * (core_name == "gsa" ? kSlotRecurrences : 1);
    const auto tolerances = Tolerances(naive, precision, difference, HasResets(c) ? of_resets : 0);
    const auto on_gpu = InPrecision(On(Gpu(precision), inputs), precision);
    const auto actual = On(at::kCPU, RunWithGradients(core, on_gpu, {}));
    std::printf("%s %s B%ld T%ld H%ld K%ld V%ld g%g%s:", core_name.c_str(), precision.name,
                c.batch_size, c.seq_len, c.num_heads, c.head_k_dim, c.head_v_dim, c.log_decays[0],
                c.log_decays.size() > 1 ? ".." : "");
    auto tolerance = tolerances.begin();
    for (const auto& [name, error] : Errors(actual, expected)) {
      std::printf(" %s %.1e (%.1e)", name.c_str(), error, *tolerance);
      CAPTURE(core_name, precision.name, c.seq_len, c.head_k_dim, c.head_v_dim, c.log_decays[0]);
      CAPTURE(name);
      CHECK(error < *tolerance++);
    }
    std::printf("\n");
  }
}

// Of the fast path, that the plans which it records are those of device code.
void CheckRunsOnDevice(const std::string& core_name, const CoreCase& c) {
  const CoreEntry& core = Core(core_name);
  for (const auto& precision : kPrecisions) {
    const auto inputs = InPrecision(On(Gpu(precision), DrawInputs(core, c, /*seed=*/7)), precision);
    const PlanRecorder recorder;
    core.run(inputs, {});
    CAPTURE(core_name, precision.name, c.head_k_dim, c.head_v_dim);
    CHECK(!recorder.records().empty());
    for (const PlanRecord& record : recorder.records()) CHECK(record.reason == "");
  }
}

// For compute-sanitizer (docs/GPU.md), under which it takes seconds: every kernel of every core in
// every precision, scans with finishers and without, sequences scanned whole and in segments, weak
// decays and such as are taken pair by pair.
TEST_CASE("core gpu: short sequences in every plan", "[sanitizer]") {
  for (const char* core : kCores) {
    for (const std::int64_t seq_len : {70, 300}) {
      CheckCase(core, {.batch_size = 1,
                       .seq_len = seq_len,
                       .num_heads = 1,
                       .head_k_dim = 64,
                       .head_v_dim = 128,
                       .log_decays = {-0.01}});
      CheckCase(core, {.batch_size = 1, .seq_len = seq_len, .head_k_dim = 128, .head_v_dim = 64});
    }
  }
  for (const std::int64_t head_v_dim : {64, 128}) {  // the fused plan of the delta rule
    CheckCase("delta_rule",
              {.batch_size = 70, .seq_len = 70, .head_k_dim = 64, .head_v_dim = head_v_dim});
  }
  // That of GLA, with weak and strong decays in one block.
  for (const std::int64_t head_k_dim : {32, 64}) {
    CheckCase("gla", {.batch_size = 35,
                      .seq_len = 70,
                      .num_heads = 2,
                      .head_k_dim = head_k_dim,
                      .head_v_dim = 64,
                      .log_decays = {-0.01, -20}});
  }
}

// Slots that the fused plan of GLA reads (32, 64) and that its scans do, few sequences and many,
// padded keys and slots, weak decays and resets.
TEST_CASE("core gpu: gated slots are two recurrences", "[sanitizer]") {
  for (const std::int64_t num_slots : {5, 32, 64, 100}) {
    for (const std::int64_t batch_size : {1, 40}) {
      for (const std::vector<double>& log_decays : std::vector<std::vector<double>>{
               {-0.01}, {0, -0.01, -1, -20}, {-kInfinity, -0.01, -0.1, -0.001}}) {
        const CoreCase c = {.batch_size = batch_size,
                            .seq_len = batch_size == 1 ? 300 : 70,
                            .num_heads = 2,
                            .head_k_dim = num_slots == 5 ? 30 : 32,
                            .head_v_dim = 64,
                            .num_slots = num_slots,
                            .log_decays = log_decays};
        CheckRunsOnDevice("gsa", c);
        CheckCase("gsa", c);
      }
    }
  }
}

// Sizes that take every plan: few sequences and many, heads for blocks of 16 tokens, for chunks of
// 64, for the fused kernels.
struct PlanSizes {
  const char* core;
  CoreCase c;
  Plan plan = Plan::kAny;
};

std::vector<PlanSizes> EveryPlan(std::int64_t seq_len) {
  std::vector<PlanSizes> plans;
  for (const char* core : kCores) {
    for (const std::int64_t batch_size : {2, 40}) {
      for (const std::int64_t head_dim : {32, 64}) {
        plans.push_back({core,
                         {.batch_size = batch_size,
                          .seq_len = seq_len,
                          .num_heads = 4,
                          .head_k_dim = head_dim,
                          .head_v_dim = head_dim}});
        if (core == std::string("gla") && batch_size == 40) {
          plans.back().plan = Plan::kFused;
        }
      }
    }
  }
  plans.push_back(
      {"gla",  // keys in tiles
       {.batch_size = 20, .seq_len = seq_len, .num_heads = 4, .head_k_dim = 128, .head_v_dim = 64},
       Plan::kFused});
  return plans;
}

TEST_CASE("core gpu: resets, log decays of -infinity or nearly, in every plan") {
  for (const double reset : {-kInfinity, -1e6}) {
    for (auto& [core, c, plan] : EveryPlan(/*seq_len=*/150)) {
      c.log_decays = {reset, -0.001, -0.01, -0.1, -1, -0.01, -0.001, -0.01};
      CheckCase(core, c, plan);
      for (const auto& precision : kPrecisions) {
        const auto inputs =
            InPrecision(On(Gpu(precision), DrawInputs(Core(core), c, /*seed=*/7)), precision);
        const auto resets = inputs.at("log_decay") == reset;
        const auto gradient = RunWithGradients(Core(core), inputs, {}).at("d log_decay");
        CAPTURE(core, precision.name, c.batch_size, c.head_k_dim, reset);
        CHECK(gradient.masked_select(resets).count_nonzero().item<std::int64_t>() == 0);
      }
    }
  }
}

TEST_CASE("core gpu: heads of any size are padded and cut in tiles") {
  for (const char* core : kCores) {
    for (const std::int64_t head_k_dim : {24, 40, 100, 128}) {
      for (const std::int64_t head_v_dim : {24, 100, 192, 256, 512}) {
        const CoreCase c = {.batch_size = 1,
                            .seq_len = 70,
                            .num_heads = 2,
                            .head_k_dim = head_k_dim,
                            .head_v_dim = head_v_dim};
        CheckRunsOnDevice(core, c);
        CheckCase(core, c);
      }
    }
  }
  for (const char* core : {"simple_gla", "gla"}) {  // keys in tiles
    const CoreCase c = {.batch_size = 1, .seq_len = 70, .head_k_dim = 200, .head_v_dim = 5};
    CheckRunsOnDevice(core, c);
    CheckCase(core, c);
  }
}

TEST_CASE("core gpu: heads of any size by the fused plans") {
  for (const char* core : {"gla", "delta_rule"}) {
    for (const auto& [head_k_dim, head_v_dim] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{12, 24}, {24, 24}, {40, 100}}) {
      CheckCase(
          core,
          {.batch_size = 70, .seq_len = 70, .head_k_dim = head_k_dim, .head_v_dim = head_v_dim},
          core == std::string("gla") ? Plan::kFused : Plan::kAny);
    }
  }
  for (const auto& [head_k_dim, head_v_dim] :  // keys in two tiles
       std::vector<std::pair<std::int64_t, std::int64_t>>{{65, 64}, {128, 128}}) {
    for (const double log_decay : {-0.1, -20.0}) {
      CheckCase("gla",
                {.batch_size = 70,
                 .seq_len = 70,
                 .head_k_dim = head_k_dim,
                 .head_v_dim = head_v_dim,
                 .log_decays = {log_decay}},
                Plan::kFused);
    }
  }
}

TEST_CASE("core gpu: the fused plan of GLA takes keys in tiles for the gradient of log decays") {
  const CoreEntry& core = Core("gla");
  const CoreCase c = {.batch_size = 70, .seq_len = 70, .head_k_dim = 128, .head_v_dim = 128};
  const Precision& bf16 = kPrecisions[2];
  const auto inputs = InPrecision(On(Gpu(bf16), DrawInputs(core, c, /*seed=*/7)), bf16);
  const PlanRecorder recorder;
  RunWithGradients(core, inputs, {});
  REQUIRE(recorder.records().size() == 1);
  const PlanRecord& record = recorder.records().front();
  CHECK(record.forward == "fused, keys in 2 tiles of 64, values in 2 tiles of 64");
  CHECK(record.backward == record.forward);
  CHECK(record.reason == "");
}

// Along y and z a grid has 65,535 blocks (tests/layering/source_rules.sh keeps what grows with the
// batch from there).
TEST_CASE("core gpu: more sequences and heads than a grid has blocks along its second axis") {
  for (const char* core : kCores) {
    for (const std::int64_t head_dim : {16, 32}) {
      CheckCase(core, {.batch_size = 16400,
                       .seq_len = 3,
                       .num_heads = 4,
                       .head_k_dim = head_dim,
                       .head_v_dim = head_dim});
    }
  }
}

// What a bias of the gates gets: errors that are the same in many tokens add up. Of enough heads
// that the two errors are no luck of a few numbers. Gates as GLA's and as Gated DeltaNet's begin,
// and where every plan but the scans of GLA keeps the promise, 16 times as strong.
TEST_CASE("core gpu: the gradient of log decays, summed over tokens and sequences, in bf16") {
  const Precision& bf16 = kPrecisions[2];
  for (const std::int64_t seq_len : {17, 193}) {
    for (auto& [core_name, c, plan] : EveryPlan(seq_len)) {
      for (const double strength : {0.05, 0.8}) {
        const bool is_scan = core_name == std::string("gla") && plan == Plan::kAny;
        if (is_scan && strength > 0.1) continue;
        const CoreEntry& core = Core(core_name);
        c.dtype = at::kBFloat16;
        c.with_optional = false;
        if (c.batch_size < 8) c.num_heads = 16;
        auto inputs = DrawInputs(core, c, /*seed=*/15);
        std::vector<std::int64_t> gate_shape = {c.batch_size, seq_len, c.num_heads};
        if (core_name == std::string("gla")) gate_shape.push_back(c.head_k_dim);
        inputs["log_decay"] = RandomUniform(gate_shape, 16, at::kFloat) * (-2 * strength);
        const auto summed = [&](const NamedTensors& x) {
          const auto gradient = RunWithGradients(core, x, {}).at("d log_decay");
          return gradient.to(at::kCPU, at::kDouble).sum(at::IntArrayRef{0, 1});
        };
        const auto exact = RunWithGradients(core, Convert(inputs, at::kDouble),
                                            {.path = ExecutionPath::kReference})
                               .at("d log_decay")
                               .sum(at::IntArrayRef{0, 1});
        double naive = 0;
        {
          const Bf16Products autocast;
          naive = RelativeError(summed(InPrecision(inputs, bf16)), exact);
        }
        const double error = RelativeError(summed(InPrecision(On(Gpu(bf16), inputs), bf16)), exact);
        std::printf("summed d log_decay: %s B%ld T%ld K%ld g%g: %.1e, naive %.1e\n", core_name,
                    c.batch_size, seq_len, c.head_k_dim, -strength, error, naive);
        CAPTURE(core_name, c.batch_size, seq_len, c.head_k_dim, strength);
        CHECK(error < kNaiveFactor * naive + kFp32Rounding);
      }
    }
  }
}

// Device code does not look at what it multiplies by zero: docs/NUMERICS.md has this limit.
constexpr std::int64_t kPoisonedChunk = 64;

TEST_CASE("core gpu: what is not finite reaches no earlier chunk and no other sequence") {
  constexpr std::int64_t kPoisoned = 2 * kPoisonedChunk + 5;
  for (const auto& precision : kPrecisions) {
    auto plans = EveryPlan(/*seq_len=*/150);
    for (const std::int64_t batch_size : {2, 40}) {
      plans.push_back({"softmax_attention",
                       {.batch_size = batch_size,
                        .seq_len = 150,
                        .num_heads = 4,
                        .head_k_dim = 64,
                        .head_v_dim = 64}});
    }
    for (auto& [core_name, c, plan] : plans) {
      const CoreEntry& core = Core(core_name);
      c.with_optional = core_name != std::string("softmax_attention");
      const auto inputs =
          InPrecision(On(Gpu(precision), DrawInputs(core, c, /*seed=*/17)), precision);
      const auto expected = core.run(inputs, {}).at("o").cpu();
      for (const char* name : {"q", "k", "v", "log_decay", "beta"}) {
        if (inputs.count(name) == 0) continue;
        auto poisoned = inputs;
        poisoned[name] = inputs.at(name).clone();
        poisoned[name][1].select(0, kPoisoned).fill_(std::numeric_limits<double>::quiet_NaN());
        const auto actual = core.run(poisoned, {}).at("o").cpu();
        CAPTURE(core_name, precision.name, c.batch_size, c.head_k_dim, name);
        CHECK(BitwiseEqual(actual[0], expected[0]));
        CHECK(BitwiseEqual(actual[1].narrow(0, 0, 2 * kPoisonedChunk),
                           expected[1].narrow(0, 0, 2 * kPoisonedChunk)));
        CHECK(actual[1][kPoisoned].isnan().all().item<bool>());
      }
    }
  }
}

// fp32: the triangular inverse multiplies rounding, most where no eigenvalue is below one.
constexpr double kInverseTolerance = 1e-4;

TEST_CASE("core gpu: the delta rule with equal keys and with negative eigenvalues") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  const CoreEntry& core = Core("delta_rule");
  for (const bool equal_keys : {true, false}) {
    for (const double beta : {1.0, 2.0}) {
      auto inputs = On(gpu, DrawInputs(core,
                                       {.seq_len = 150,
                                        .head_k_dim = 32,
                                        .head_v_dim = 32,
                                        .dtype = at::kFloat,
                                        .log_decays = {0}},
                                       /*seed=*/31));
      inputs["beta"] = at::full_like(inputs.at("beta"), beta);
      if (equal_keys) inputs["k"] = at::full_like(inputs.at("k"), std::sqrt(1.0 / 32));
      const auto expected =
          RunWithGradients(core, Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
      for (const auto& [name, error] : Errors(RunWithGradients(core, inputs, {}), expected)) {
        CAPTURE(equal_keys, beta, name);
        CHECK(error < kInverseTolerance);
      }
    }
  }
}

// bf16: with equal keys and beta = 2 states do not decay, and the rounding of Y adds up: 3.5e-2.
constexpr double kRoundedInverseTolerance = 5e-2;

TEST_CASE("core gpu: the fused plan of the delta rule with equal keys and negative eigenvalues") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  const CoreEntry& core = Core("delta_rule");
  for (const bool equal_keys : {true, false}) {
    for (const double beta : {1.0, 2.0}) {
      auto inputs = On(gpu, DrawInputs(core,
                                       {.batch_size = 70,
                                        .seq_len = 150,
                                        .head_k_dim = 64,
                                        .head_v_dim = 64,
                                        .dtype = at::kBFloat16,
                                        .log_decays = {0}},
                                       /*seed=*/31));
      inputs["beta"] = at::full_like(inputs.at("beta"), beta);
      if (equal_keys) inputs["k"] = at::full_like(inputs.at("k"), std::sqrt(1.0 / 64));
      const auto expected =
          core.run(Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
      for (const auto& [name, error] : Errors(core.run(inputs, {}), expected)) {
        CAPTURE(equal_keys, beta, name);
        CHECK(error < kRoundedInverseTolerance);
      }
    }
  }
}

TEST_CASE("core gpu: the fused plan of the delta rule gives the same without its final state") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  const auto inputs = On(gpu, DrawInputs(Core("delta_rule"),
                                         {.batch_size = 70,
                                          .seq_len = 70,
                                          .head_k_dim = 64,
                                          .head_v_dim = 64,
                                          .dtype = at::kBFloat16},
                                         /*seed=*/51));
  const auto run = [&](bool wants_final_state) {
    return testing::Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          const auto result = DeltaRule({.q = x[0],
                                         .k = x[1],
                                         .v = x[2],
                                         .beta = x[3],
                                         .wants_final_state = wants_final_state},
                                        ExecutionPath::kFast);
          CHECK(result.final_state.defined() == wants_final_state);
          return std::vector<at::Tensor>{result.o};
        },
        {inputs.at("q"), inputs.at("k"), inputs.at("v"), inputs.at("beta")});
  };
  const auto expected = run(true);
  const auto actual = run(false);
  CHECK(BitwiseEqual(actual.outputs[0].cpu(), expected.outputs[0].cpu()));
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(BitwiseEqual(actual.gradients[i].cpu(), expected.gradients[i].cpu()));
  }
}

// Two scans of a block pass over each other's chunks. What one of them reads too early shows in one
// run of six, and only where a multiprocessor has several sequences for each scan.
TEST_CASE("core gpu: the fused plan of the delta rule gives the same bits every time") {
  constexpr int kNumRuns = 60;
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const std::int64_t head_v_dim : {64, 128}) {
    const auto inputs = On(gpu, DrawInputs(Core("delta_rule"),
                                           {.batch_size = 256,
                                            .seq_len = 256,
                                            .num_heads = 2,
                                            .head_k_dim = 64,
                                            .head_v_dim = head_v_dim,
                                            .dtype = at::kBFloat16,
                                            .with_optional = false},
                                           /*seed=*/71));
    const auto run = [&] {
      std::vector<at::Tensor> x;
      for (const char* name : {"q", "k", "v", "beta"}) {
        x.push_back(inputs.at(name).detach().set_requires_grad(true));
      }
      const auto o =
          DeltaRule({.q = x[0], .k = x[1], .v = x[2], .beta = x[3]}, ExecutionPath::kFast).o;
      o.backward(inputs.at("v"));
      std::vector<at::Tensor> results = {o.detach()};
      for (const at::Tensor& leaf : x) results.push_back(leaf.grad());
      return results;
    };
    const auto expected = run();
    for (int i = 1; i < kNumRuns; ++i) {
      const auto actual = run();
      for (std::size_t part = 0; part < expected.size(); ++part) {
        CAPTURE(head_v_dim, i, part);
        CHECK(at::equal(actual[part], expected[part]));
      }
    }
  }
}

// bf16 has 8 digits: probabilities and their gradients are rounded once before each product.
constexpr double kAttentionTolerance = 6e-3;

void CheckAttention(std::int64_t head_dim, std::int64_t seq_len) {
  const CoreEntry& core = Core("softmax_attention");
  const auto inputs = On(at::kCUDA, DrawInputs(core,
                                               {.seq_len = seq_len,
                                                .num_heads = 3,
                                                .head_k_dim = head_dim,
                                                .head_v_dim = head_dim,
                                                .dtype = at::kBFloat16,
                                                .with_optional = false},
                                               /*seed=*/41));
  auto expected =
      RunWithGradients(core, Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
  auto actual = RunWithGradients(core, inputs, {});
  const auto again = RunWithGradients(core, inputs, {});
  if (seq_len == 1) {  // the gradients of q and k are zero but for rounding
    for (const char* name : {"d q", "d k"}) {
      expected.erase(name);
      actual.erase(name);
    }
  }
  for (const auto& [name, error] : Errors(actual, expected)) {
    CAPTURE(head_dim, seq_len, name);
    CHECK(error < kAttentionTolerance);
    CHECK(BitwiseEqual(actual.at(name).cpu(), again.at(name).cpu()));
  }
}

// q, k and v [2,T,3,D] on the GPU; the seed of the dropout depends on the path in no way.
testing::Derivative DropoutAttention(const std::vector<at::Tensor>& inputs, double p,
                                     ExecutionPath path) {
  return testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) {
        return std::vector<at::Tensor>{
            SoftmaxAttention({.q = x[0],
                              .k = x[1],
                              .v = x[2],
                              .dropout_p = p,
                              .generator = harness::MakeGenerator(at::kCUDA, 43)},
                             path)};
      },
      inputs);
}

TEST_CASE("core gpu: every path of softmax attention drops the same weights") {
  Gpu(kPrecisions[0]);
  struct Size {
    std::int64_t seq_len, head_dim;
  };
  // Both plans of each head size, odd lengths, and one that is ATen's without dropout.
  for (const auto& [seq_len, head_dim] :
       {Size{17, 16}, Size{256, 16}, Size{64, 32}, Size{200, 32}, Size{300, 32}, Size{65, 64},
        Size{255, 64}, Size{600, 64}, Size{100, 128}, Size{129, 128}}) {
    std::vector<at::Tensor> rounded, exact;
    for (const std::uint64_t seed : {1, 2, 3}) {
      rounded.push_back(RandomNormal({2, seq_len, 3, head_dim}, seed, at::kBFloat16).to(at::kCUDA));
      exact.push_back(rounded.back().to(at::kDouble));
    }
    for (const double p : {0.1, 0.5}) {
      const auto expected = DropoutAttention(exact, p, ExecutionPath::kReference);
      const auto actual = DropoutAttention(rounded, p, ExecutionPath::kFast);
      const auto again = DropoutAttention(rounded, p, ExecutionPath::kFast);
      CAPTURE(seq_len, head_dim, p);
      CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < kAttentionTolerance);
      for (std::size_t i = 0; i < rounded.size(); ++i) {
        CAPTURE(i);
        CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < kAttentionTolerance);
        CHECK(BitwiseEqual(actual.gradients[i].cpu(), again.gradients[i].cpu()));
      }
    }
    // fp32 has no device code: ATen's operations with a mask in memory.
    const std::vector<at::Tensor> single = {exact[0].to(at::kFloat), exact[1].to(at::kFloat),
                                            exact[2].to(at::kFloat)};
    CHECK(RelativeError(DropoutAttention(single, 0.1, ExecutionPath::kFast).outputs[0],
                        DropoutAttention(exact, 0.1, ExecutionPath::kReference).outputs[0]) <
          kFp32Rounding);
  }
}

// `num_queries` tokens of every sequence in order; of odd sequences half as many, and none of the
// last tokens.
struct ChosenTokens {
  ScoredPositions rows;
  at::Tensor entries;  // of rows, those that are no padding
};

ChosenTokens ChooseTokens(std::int64_t batch_size, std::int64_t seq_len, std::int64_t num_queries) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch_size * num_queries), 0);
  std::vector<std::int64_t> entries;
  for (std::int64_t b = 0; b < batch_size; ++b) {
    const std::int64_t count = b % 2 == 0 ? num_queries : (num_queries + 1) / 2;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t entry = b * num_queries + i;
      const std::int64_t token =
          b % 2 == 0 ? (i + 1) * seq_len / count - 1 : i * seq_len / (2 * count);
      rows[static_cast<std::size_t>(entry)] = b * seq_len + token;
      entries.push_back(entry);
    }
  }
  return {{at::tensor(rows, at::kLong).cuda(), {}, num_queries},
          at::tensor(entries, at::kLong).cuda()};
}

// Of o [B,T,H,D] the rows of the chosen tokens.
at::Tensor OfChosen(const at::Tensor& o, const ChosenTokens& chosen) {
  const auto tokens = chosen.rows.positions.index_select(0, chosen.entries);
  return o.flatten(0, 1).index_select(0, tokens);
}

// The same rows, by the device code in which only these tokens ask; args.q has all of them.
at::Tensor AttendChosen(SoftmaxAttentionArgs args, const ChosenTokens& chosen) {
  const auto q = args.q.flatten(0, 1).index_select(0, chosen.rows.positions);
  args.q = q.view({args.q.size(0), -1, args.q.size(2), args.q.size(3)});
  args.scored = &chosen.rows;
  const auto o = ParallelSoftmaxAttention(args);
  CHECK_THAT(o.grad_fn()->name(), Catch::Contains("ScoredPositions"));
  return o.flatten(0, 1).index_select(0, chosen.entries);
}

// `run` of bf16 inputs beside what fp64 expects, and once more in memory that was filled with
// something else, for the same bits. Returns the first.
template <typename ToleranceOfGradient>
testing::Derivative CheckTwice(const testing::TensorFunction& run,
                               const std::vector<at::Tensor>& inputs,
                               const testing::Derivative& expected,
                               const ToleranceOfGradient& tolerance_of_gradient) {
  auto actual = testing::Differentiate(run, inputs);
  const testing::PoisonUninitializedMemory poison;
  const auto again = testing::Differentiate(run, inputs);
  CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < kAttentionTolerance);
  CHECK(BitwiseEqual(actual.outputs[0].cpu(), again.outputs[0].cpu()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < tolerance_of_gradient(i));
    CHECK(BitwiseEqual(actual.gradients[i].cpu(), again.gradients[i].cpu()));
  }
  return actual;
}

void CheckScoredQueries(std::int64_t head_dim, std::int64_t seq_len, std::int64_t num_queries,
                        double dropout_p) {
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kHeads = 3;
  const auto chosen = ChooseTokens(kBatch, seq_len, num_queries);
  const auto args = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return SoftmaxAttentionArgs{.q = q,
                                .k = k,
                                .v = v,
                                .dropout_p = dropout_p,
                                .generator = harness::MakeGenerator(at::kCUDA, 43)};
  };
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> exact;
  for (const std::uint64_t seed : {1, 2, 3}) {
    inputs.push_back(RandomNormal({kBatch, seq_len, kHeads, head_dim}, seed, at::kFloat)
                         .to(at::kCUDA, at::kBFloat16));
    exact.push_back(inputs.back().to(at::kDouble));
  }
  const auto expected = testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) {
        return std::vector<at::Tensor>{
            OfChosen(ReferenceSoftmaxAttention(args(x[0], x[1], x[2])), chosen)};
      },
      exact);
  CAPTURE(head_dim, seq_len, num_queries, dropout_p);
  CheckTwice(
      [&](const std::vector<at::Tensor>& x) {
        return std::vector<at::Tensor>{AttendChosen(args(x[0], x[1], x[2]), chosen)};
      },
      inputs, expected, [](std::size_t) { return kAttentionTolerance; });
}

TEST_CASE("core gpu: softmax attention of scored queries in bf16 is that of all queries in fp64") {
  Gpu(kPrecisions[0]);
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    for (const auto& [seq_len, num_queries] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {17, 3}, {64, 4}, {65, 16}, {130, 17}, {200, 33}, {64, 64}, {1000, 49}, {300, 128}}) {
      if (head_dim == 128 && num_queries > 64) continue;  // no device code
      for (const double dropout_p : {0.0, 0.1}) {
        CheckScoredQueries(head_dim, seq_len, num_queries, dropout_p);
      }
    }
  }
}

// What changes the scores, and the sizes of a case. q has three heads, k and v one.
struct TermsCase {
  std::int64_t head_dim, seq_len;
  std::int64_t window = 0;
  double log_decay = 0;         // the strongest of a token; some are resets
  std::int64_t num_resets = 0;  // of the first tokens, after which sums are large
  bool slopes = false;
  double dropout_p = 0;
  std::int64_t num_queries = 0;  // scored ones of a sequence; 0: all tokens ask
};

// The gradient of a log decay is a sum over all later tokens of differences that bf16 has rounded;
// the sum of it over a sequence is far smaller than what it is summed of. Seen there: 1.03e-2, of
// 300 tokens with heads of 32.
constexpr double kDecayGradientTolerance = 1e-2;
constexpr double kDecayGradientSumTolerance = 2e-2;

// Where a weight is nearly 1, dq and dk are small differences of a delta that is formed of a
// rounded o.
constexpr double kStrongDecay = 10;
constexpr double kStrongDecayTolerance = 4e-2;

double ToleranceOfGradient(const TermsCase& c, std::size_t input) {
  if (input == 3) return kDecayGradientTolerance;
  return input < 2 && c.log_decay > kStrongDecay ? kStrongDecayTolerance : kAttentionTolerance;
}

void CheckTerms(const TermsCase& c) {
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kHeads = 3;
  const auto chosen = ChooseTokens(kBatch, c.seq_len, std::max<std::int64_t>(c.num_queries, 1));
  auto log_decay = RandomUniform({kBatch, c.seq_len, kHeads}, 4, at::kFloat) * -c.log_decay;
  for (const std::int64_t token : {5, 64}) {
    if (token < c.seq_len) log_decay.select(1, token).fill_(-kInfinity);
  }
  log_decay.narrow(1, 0, c.num_resets).fill_(-kInfinity);
  std::vector<at::Tensor> inputs = {
      RandomNormal({kBatch, c.seq_len, kHeads, c.head_dim}, 1, at::kBFloat16).to(at::kCUDA),
      RandomNormal({kBatch, c.seq_len, 1, c.head_dim}, 2, at::kBFloat16).to(at::kCUDA),
      RandomNormal({kBatch, c.seq_len, 1, c.head_dim}, 3, at::kBFloat16).to(at::kCUDA)};
  if (c.log_decay > 0) inputs.push_back(log_decay.to(at::kCUDA));
  std::vector<at::Tensor> exact;
  for (const auto& x : inputs) exact.push_back(x.to(at::kDouble));
  const auto args = [&](const std::vector<at::Tensor>& x) {
    const auto dtype = x[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return SoftmaxAttentionArgs{
        .q = x[0],
        .k = x[1],
        .v = x[2],
        .dropout_p = c.dropout_p,
        .generator = harness::MakeGenerator(at::kCUDA, 43),
        .window = c.window,
        .log_decay = x.size() > 3 ? x[3] : at::Tensor(),
        .slopes = c.slopes ? RandomUniform({kHeads}, 6, dtype).to(at::kCUDA) : at::Tensor()};
  };
  const auto of_chosen = [&](const at::Tensor& o) {
    return std::vector<at::Tensor>{c.num_queries == 0 ? o : OfChosen(o, chosen)};
  };
  const auto expected = testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) {
        return of_chosen(ReferenceSoftmaxAttention(args(x)));
      },
      exact);
  const auto run = [&](const std::vector<at::Tensor>& x) {
    if (c.num_queries > 0) return std::vector<at::Tensor>{AttendChosen(args(x), chosen)};
    const auto o = ParallelSoftmaxAttention(args(x));
    CHECK_THAT(o.grad_fn()->name(), Catch::Contains("AttentionFunction"));
    return std::vector<at::Tensor>{o};
  };
  CAPTURE(c.head_dim, c.seq_len, c.window, c.log_decay, c.slopes, c.dropout_p, c.num_queries);
  const auto actual =
      CheckTwice(run, inputs, expected, [&](std::size_t i) { return ToleranceOfGradient(c, i); });
  if (inputs.size() > 3) {  // as a gate's bias sums it, over which errors of one sign would add up
    CHECK(RelativeError(actual.gradients[3].sum(1), expected.gradients[3].sum(1)) <
          kDecayGradientSumTolerance);
  }
}

TEST_CASE("core gpu: softmax attention with decays, slopes and windows is that of the reference") {
  Gpu(kPrecisions[0]);
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    for (const std::int64_t seq_len : {17, 64, 65, 130, 300, 600}) {
      // Decays of a gate that opens at a half, of one that is nearly shut, and a few tokens' worth.
      for (const double log_decay : {0.05, 1.4, 30.0}) {
        CheckTerms({.head_dim = head_dim, .seq_len = seq_len, .log_decay = log_decay});
      }
      for (const std::int64_t window : {2, 63, 64, 65, 200}) {
        CheckTerms({.head_dim = head_dim, .seq_len = seq_len, .window = window});
      }
      CheckTerms({.head_dim = head_dim, .seq_len = seq_len, .slopes = true});
      CheckTerms({.head_dim = head_dim,
                  .seq_len = seq_len,
                  .window = 40,
                  .log_decay = 0.7,
                  .slopes = true,
                  .dropout_p = 0.1});
    }
    CheckTerms({.head_dim = head_dim, .seq_len = 300, .log_decay = 0.05, .num_resets = 64});
    for (const auto& [seq_len, num_queries] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {64, 4}, {65, 16}, {130, 17}, {200, 33}, {1000, 49}, {300, 128}}) {
      if (head_dim == 128 && num_queries > 64) continue;  // no device code
      const TermsCase scored = {
          .head_dim = head_dim, .seq_len = seq_len, .num_queries = num_queries};
      for (const double log_decay : {0.05, 1.4, 30.0}) {
        TermsCase decays = scored;
        decays.log_decay = log_decay;
        CheckTerms(decays);
      }
      TermsCase window = scored;
      window.window = 40;
      CheckTerms(window);
      TermsCase all = scored;
      all.window = 40;
      all.log_decay = 0.7;
      all.slopes = true;
      all.dropout_p = 0.1;
      CheckTerms(all);
    }
  }
}

TEST_CASE("core gpu: softmax attention in every plan, of few tokens", "[sanitizer]") {
  Gpu(kPrecisions[0]);
  for (const std::int64_t seq_len : {17, 65, 130, 260}) CheckAttention(64, seq_len);
  CheckAttention(32, 65);
  CheckAttention(128, 65);
  for (const double dropout_p : {0.0, 0.1}) CheckScoredQueries(64, 70, 17, dropout_p);
  for (const std::int64_t num_queries : {0, 17}) {
    CheckTerms({.head_dim = 64,
                .seq_len = 130,
                .window = 70,
                .log_decay = 0.7,
                .dropout_p = 0.1,
                .num_queries = num_queries});
  }
}

TEST_CASE("core gpu: slices of one projection are read in place, other layouts are copied") {
  for (const char* core_name : kCores) {
    const at::Device gpu = Gpu(kPrecisions[0]);
    const CoreEntry& core = Core(core_name);
    auto inputs =
        On(gpu, DrawInputs(core,
                           {.seq_len = 99, .head_k_dim = 32, .head_v_dim = 32, .dtype = at::kFloat},
                           /*seed=*/17));
    const auto expected = core.run(inputs, {}).at("o");
    const auto packed = at::cat({inputs.at("q"), inputs.at("k"), inputs.at("v")}, -1);
    auto sliced = inputs;
    sliced["q"] = packed.narrow(-1, 0, 32);
    sliced["k"] = packed.narrow(-1, 32, 32);
    sliced["v"] = packed.narrow(-1, 64, 32);
    CHECK(BitwiseEqual(core.run(sliced, {}).at("o").cpu(), expected.cpu()));
    for (auto& [name, value] : sliced) value = testing::StridedCopy(value);
    CHECK(BitwiseEqual(core.run(sliced, {}).at("o").cpu(), expected.cpu()));
  }
}

// Outputs and gradients when q, k, v and what the output's gradient is are the same for all of an
// axis; copied for each before, or not.
NamedTensors RunShared(const CoreEntry& core, const NamedTensors& inputs, std::int64_t axis,
                       bool copies) {
  const auto spread = [&](const at::Tensor& x, const at::Tensor& like) {
    const at::Tensor shared = x.expand(like.sizes());
    return copies ? shared.contiguous() : shared;
  };
  NamedTensors leaves, given;
  for (const auto& [name, value] : inputs) {
    const bool is_shared = name == "q" || name == "k" || name == "v";
    leaves[name] =
        (is_shared ? value.narrow(axis, 0, 1) : value).detach().clone().requires_grad_(true);
    given[name] = is_shared ? spread(leaves[name], value) : leaves[name];
  }
  const at::Tensor o = core.run(given, {}).at("o");
  const at::Tensor weight = RandomNormal(o.sizes(), 37).to(o.device(), o.scalar_type());
  o.backward(spread(weight.narrow(axis, 0, 1), o));
  NamedTensors results = {{"o", o.detach()}};
  for (const auto& [name, leaf] : leaves) {
    if (leaf.grad().defined()) results["d " + name] = leaf.grad();
  }
  return results;
}

TEST_CASE("core gpu: what heads or sequences share gives the bits of copies, in every plan") {
  for (const char* core_name : kCores) {
    for (const Precision& precision : kPrecisions) {
      // Of the fused plans; of scans by warpgroups; of other scans, in segments.
      for (const CoreCase& c :
           {CoreCase{.batch_size = 70, .seq_len = 70, .head_k_dim = 64, .head_v_dim = 64},
            CoreCase{.seq_len = 150, .num_heads = 4, .head_k_dim = 128, .head_v_dim = 64},
            CoreCase{.seq_len = 600, .num_heads = 3, .head_k_dim = 32, .head_v_dim = 16}}) {
        const CoreEntry& core = Core(core_name);
        const auto inputs =
            InPrecision(On(Gpu(precision), DrawInputs(core, c, /*seed=*/31)), precision);
        for (const std::int64_t axis : {0, 2}) {
          const NamedTensors expected = RunShared(core, inputs, axis, /*copies=*/true);
          const NamedTensors actual = RunShared(core, inputs, axis, /*copies=*/false);
          REQUIRE(actual.size() == expected.size());
          for (const auto& [name, value] : expected) {
            CAPTURE(core_name, precision.name, c.seq_len, axis, name);
            CHECK(BitwiseEqual(actual.at(name).cpu(), value.cpu()));
          }
        }
      }
    }
  }
}

TEST_CASE("core gpu: gradients of some inputs alone are those of all") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    const CoreEntry& core = Core(core_name);
    const auto inputs =
        On(gpu, DrawInputs(core,
                           {.seq_len = 80, .head_k_dim = 32, .head_v_dim = 16, .dtype = at::kFloat},
                           /*seed=*/19));
    const auto weight = at::randn({2, 80, 2, 16}, inputs.at("v").options());
    const auto gradients = [&](const std::vector<std::string>& wanted) {
      NamedTensors leaves;
      for (const auto& [name, value] : inputs) leaves[name] = value.detach().clone();
      for (const auto& name : wanted) leaves.at(name).requires_grad_(true);
      core.run(leaves, {}).at("o").backward(weight);
      NamedTensors result;
      for (const auto& name : wanted) result[name] = leaves.at(name).grad();
      return result;
    };
    const auto all = gradients({"q", "k", "v", "log_decay", "initial_state"});
    for (const auto& [name, expected] : all) {
      CAPTURE(core_name, name);
      CHECK(BitwiseEqual(gradients({name}).at(name).cpu(), expected.cpu()));
    }
  }
}

TEST_CASE("core gpu: device code serves the sizes it has, the general path the others") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    const auto node_of = [&](std::int64_t head_k_dim, at::ScalarType dtype) {
      auto inputs =
          On(gpu,
             DrawInputs(Core(core_name),
                        {.seq_len = 20, .head_k_dim = head_k_dim, .head_v_dim = 16, .dtype = dtype},
                        /*seed=*/23));
      for (auto& [name, value] : inputs) value.requires_grad_(true);
      return Core(core_name).run(inputs, {}).at("final_state").grad_fn()->name();
    };
    CHECK_THAT(node_of(32, at::kFloat), Catch::Contains("CppNode"));
    CHECK_THAT(node_of(32, at::kBFloat16), Catch::Contains("CppNode"));
    CHECK_THAT(node_of(32, at::kDouble), !Catch::Contains("CppNode"));
    CHECK_THAT(node_of(30, at::kFloat), !Catch::Contains("CppNode"));
    CHECK_THAT(node_of(132, at::kFloat), !Catch::Contains("CppNode"));
  }
}

TEST_CASE("core gpu: a second derivative is refused") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    auto inputs =
        On(gpu, DrawInputs(Core(core_name),
                           {.seq_len = 20, .head_k_dim = 16, .head_v_dim = 16, .dtype = at::kFloat},
                           /*seed=*/29));
    for (auto& [name, value] : inputs) value.requires_grad_(true);
    const auto sum = Core(core_name).run(inputs, {}).at("o").sum();
    CHECK_THROWS_WITH(sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true),
                      Catch::Contains("no second derivatives"));
  }
}

}  // namespace
}  // namespace mixerbench::kernels
