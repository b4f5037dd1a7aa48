// Speed of the fused functions on a GPU at the shapes of the step-time suite, beside the floor that
// the bytes they must move set. Device time by events behind a queue of other work, so that no
// launch is waited for; the cache holds other data at the start.
//
//   tools/package.sh //tests/gpu:operations_benchmark, then on the GPU machine:
//   ./operations_benchmark
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <benchmark/benchmark.h>

#include "harness/device/device.h"
#include "kernels/attention/softmax_attention/softmax_attention.h"
#include "kernels/convolution/direct_convolution.h"
#include "kernels/convolution/short_convolution.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gates/gates.h"
#include "kernels/gates/head_scale.h"
#include "kernels/layout/rows.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/norm/output_norm.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/rope/rotary.h"
#include "kernels/runtime/plain_aten.h"
#include "models/blocks/long_convolution.h"
#include "tests/gpu/ceilings.h"
#include "tests/support/tensors.h"

namespace mixerbench::kernels {
namespace {

using testing::Ceilings;
using testing::RandomNormal;
using testing::RandomUniform;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kSeqLen = 256;
constexpr std::int64_t kTokens = kBatch * kSeqLen;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kVocab = 8192;

at::Tensor Random(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed) {
  return RandomNormal(sizes, seed, at::kFloat).to(at::kCUDA, dtype).requires_grad_(true);
}

// Forward, or backward alone from gradients like the outputs. `bytes` is what must move.
struct Case {
  std::string name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> run;
  double forward_bytes = 0;
  double backward_bytes = 0;
};

void Measure(benchmark::State& state, const Case& c, bool backward, const Ceilings& ceilings) {
  constexpr int kQueuedFlushes = 10;  // about a millisecond: longer than the host needs
  const at::Device device(at::kCUDA, 0);
  Tensors gradients;
  for (const auto& output : c.run(c.inputs)) {
    gradients.push_back(output.dim() == 0 ? at::full({}, 1.0, output.options())
                                          : output.detach().clone());
  }
  if (backward) {  // the first call of a matrix product chooses its kernel
    const Tensors outputs = c.run(c.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].backward(gradients[i]);
  }
  for (auto _ : state) {
    Tensors outputs;
    if (backward) outputs = c.run(c.inputs);
    for (int i = 0; i < kQueuedFlushes; ++i) harness::FlushCache(device);
    const double milliseconds = harness::TimeMilliseconds(device, [&] {
      if (!backward) {
        c.run(c.inputs);
        return;
      }
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i].backward(gradients[i], /*retain_graph=*/i + 1 < outputs.size());
      }
    });
    for (const auto& input : c.inputs) input.mutable_grad().reset();
    state.SetIterationTime(milliseconds / 1e3);
  }
  const double bytes = backward ? c.backward_bytes : c.forward_bytes;
  state.counters["floor_us"] = bytes / ceilings.bytes_per_second * 1e6;
  state.counters["bytes_per_s"] = benchmark::Counter(
      bytes * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

std::vector<Case> Cases(const Ceilings& ceilings) {
  constexpr double kFloats = 4.0 * kTokens * kWidth;  // bytes of [N,D] in fp32
  constexpr double kHalves = kFloats / 2;
  constexpr std::int64_t kScored = kTokens / 16;
  const auto norm = [](std::uint64_t seed) {
    return Tensors{Random({kWidth}, at::kFloat, seed), Random({kWidth}, at::kFloat, seed + 1)};
  };
  std::vector<Case> cases;

  // Three quarters of the tokens are the filler, as in MQAR.
  const at::Tensor tokens = ((RandomUniform({kBatch, kSeqLen}, 1) * kVocab).to(at::kLong) *
                             RandomUniform({kBatch, kSeqLen}, 2).gt(0.75).to(at::kLong))
                                .to(at::kInt)
                                .cuda();
  const at::Tensor seed = at::full({1}, 5, at::TensorOptions(at::kLong).device(at::kCUDA));
  cases.push_back({"embedding, dropout 0.1, norm",
                   {Random({kVocab, kWidth}, at::kFloat, 3), Random({kWidth}, at::kFloat, 40),
                    Random({kWidth}, at::kFloat, 41)},
                   [=](const Tensors& x) -> Tensors {
                     return {Embedding({.tokens = tokens,
                                        .table = x[0],
                                        .dropout_p = 0.1,
                                        .seed = seed,
                                        .dtype = at::kBFloat16,
                                        .norm = {x[1], x[2], 1e-5}})
                                 .normalised};
                   },
                   2 * kHalves,
                   2 * kHalves + 4.0 * kVocab* kWidth});

  Tensors inputs = {Random({kBatch, kSeqLen, kWidth}, at::kBFloat16, 4)};
  for (const auto& weight : norm(5)) inputs.push_back(weight);
  cases.push_back({"norm of the stream", inputs,
                   [](const Tensors& x) -> Tensors {
                     return {ResidualNorm({.added = x[0], .norm = {x[1], x[2], 1e-5}}).normalised};
                   },
                   2 * kHalves, 3 * kHalves});

  inputs.insert(inputs.begin() + 1, Random({kBatch, kSeqLen, kWidth}, at::kBFloat16, 7));
  for (const auto& weight : norm(8)) inputs.push_back(weight);
  cases.push_back({"add, norm, add, norm", inputs,
                   [](const Tensors& x) -> Tensors {
                     const auto result = ResidualNorm({.residual = x[0],
                                                       .added = x[1],
                                                       .mid = Norm{x[2], x[3], 1e-5},
                                                       .norm = {x[4], x[5], 1e-5}});
                     return {result.normalised};
                   },
                   4 * kHalves, 4 * kHalves});

  const at::Tensor entries = at::arange(kTokens, at::TensorOptions(at::kLong).device(at::kCUDA));
  const ScoredPositions selection{(entries.narrow(0, 0, kScored) * 16).contiguous(),
                                  at::where(entries % 16 == 0, entries.div(16, "floor"), kScored),
                                  /*per_sequence=*/kSeqLen / 16};
  cases.push_back({"scored rows",
                   {Random({kBatch, kSeqLen, kWidth}, at::kBFloat16, 10)},
                   [=](const Tensors& x) -> Tensors { return {GatherRows(x[0], selection)}; },
                   2 * kHalves / 16,
                   kHalves*(1 + 1.0 / 16)});

  const std::int64_t num_queries = selection.per_sequence;
  cases.push_back(
      {"attention of scored rows",
       {Random({kBatch, num_queries, 2, 64}, at::kBFloat16, 30),
        Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 31),
        Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 32)},
       [=](const Tensors& x) -> Tensors {
         return {ParallelSoftmaxAttention({.q = x[0], .k = x[1], .v = x[2], .scored = &selection})};
       },
       kHalves*(2 + 2.0 / 16),
       kHalves*(4 + 4.0 / 16)});

  // A gate that is open at a half, a window of a quarter of the tokens.
  const at::Tensor log_decay = RandomUniform({kBatch, kSeqLen, 2}, 36, at::kFloat).mul(-1.4).cuda();
  struct Terms {
    std::string name;
    std::int64_t window = 0;
    at::Tensor log_decay = {};
  };
  for (const Terms& terms :
       {Terms{.name = ""}, Terms{.name = ", log decay", .log_decay = log_decay},
        Terms{.name = ", window of 64", .window = 64}}) {
    cases.push_back({"attention of all rows" + terms.name,
                     {Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 37),
                      Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 38),
                      Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 39)},
                     [=](const Tensors& x) -> Tensors {
                       return {ParallelSoftmaxAttention({.q = x[0],
                                                         .k = x[1],
                                                         .v = x[2],
                                                         .window = terms.window,
                                                         .log_decay = terms.log_decay})};
                     },
                     4 * kHalves,
                     8 * kHalves});
  }

  // Scans, as the pages of their cores count bytes: bf16 x and u, fp32 h, 256 channels.
  constexpr std::int64_t kChannels = 256;
  constexpr double kPairs = 1.0 * kTokens * kChannels;
  cases.push_back(
      {"selective scan, 16 states, gate",
       {Random({kBatch, kSeqLen, kChannels}, at::kBFloat16, 50),
        Random({kBatch, kSeqLen, kChannels}, at::kBFloat16, 51),
        Random({kChannels, 16}, at::kFloat, 52),
        Random({kBatch, kSeqLen, 1, 16}, at::kBFloat16, 53),
        Random({kBatch, kSeqLen, 1, 16}, at::kBFloat16, 54),
        Random({kBatch, kSeqLen, kChannels}, at::kBFloat16, 55)},
       [](const Tensors& x) -> Tensors {
         return {SelectiveScan(
                     {.u = x[0], .delta = x[1], .A_log = x[2], .B = x[3], .C = x[4], .z = x[5]},
                     ExecutionPath::kFast)
                     .o};
       },
       8 * kPairs,
       14 * kPairs});
  cases.push_back({"linear recurrence, fp32",
                   {Random({kBatch, kSeqLen, kChannels}, at::kFloat, 56),
                    RandomUniform({kChannels}, 57, at::kFloat).mul(-1).cuda().requires_grad_(true)},
                   [](const Tensors& x) -> Tensors {
                     return {
                         LinearRecurrence({.x = x[0], .log_decay = x[1]}, ExecutionPath::kFast).h};
                   },
                   8 * kPairs,
                   12 * kPairs});

  const at::Tensor targets = (RandomUniform({kScored}, 11) * kVocab).to(at::kLong).cuda();
  constexpr double kLogits = 2.0 * kScored * kVocab;
  cases.push_back(
      {"cross-entropy",
       {Random({kScored, kVocab}, at::kBFloat16, 12)},
       [=](const Tensors& x) -> Tensors { return {SoftmaxCrossEntropy(x[0], targets).loss}; },
       2 * kLogits,
       0});

  // Its floor is no traffic but four products, of which the forward pass forms two, at the rate of
  // a large product: given here as the bytes that a copy moves in that time.
  const double product_as_bytes =
      2.0 * kScored * kVocab * kWidth / ceilings.flops_per_second * ceilings.bytes_per_second;
  cases.push_back(
      {"linear cross-entropy",
       {Random({kScored, kWidth}, at::kBFloat16, 33), Random({kVocab, kWidth}, at::kFloat, 34)},
       [=](const Tensors& x) -> Tensors {
         return {LinearCrossEntropy(x[0], x[1], at::Tensor(), targets)};
       },
       2 * product_as_bytes,
       2 * product_as_bytes});

  cases.push_back({"rotary, queries and keys",
                   {Random({kBatch, kSeqLen, 4, 64}, at::kBFloat16, 35)},
                   [](const Tensors& x) -> Tensors { return {RotateHalf(x[0], 0, 64)}; },
                   4 * kHalves,
                   4 * kHalves});

  for (const auto& [out, has_bias] :
       {std::pair{std::int64_t{384}, true}, std::pair{std::int64_t{256}, true},
        std::pair{std::int64_t{128}, true}, std::pair{std::int64_t{128}, false},
        std::pair{std::int64_t{272}, false}, std::pair{std::int64_t{386}, false},
        std::pair{std::int64_t{400}, false}, std::pair{std::int64_t{516}, false}}) {
    const double width = static_cast<double>(out);
    inputs = {Random({kBatch, kSeqLen, kWidth}, at::kBFloat16, 13),
              Random({out, kWidth}, at::kFloat, 14)};
    if (has_bias) inputs.push_back(Random({out}, at::kFloat, 15));
    cases.push_back({"linear 128 to " + std::to_string(out) + (has_bias ? ", bias" : ""), inputs,
                     [](const Tensors& x) -> Tensors {
                       return {Linear(x[0], x[1], x.size() > 2 ? x[2] : at::Tensor())};
                     },
                     kHalves*(1 + width / kWidth), kHalves*(2 + width / kWidth)});
  }

  cases.push_back(
      {"short convolution, silu, norm",
       {Random({kBatch, kSeqLen, 384}, at::kBFloat16, 16), Random({384, 4}, at::kFloat, 17)},
       [](const Tensors& x) -> Tensors {
         return {ShortConvolution(
             {.x = x[0], .weight = x[1], .silu = true, .norm_channels = 256, .norm_dim = 64})};
       },
       6 * kHalves,
       9 * kHalves});

  cases.push_back(
      {"output norm, silu gate",
       {Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 18),
        Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 19), Random({64}, at::kFloat, 20)},
       [](const Tensors& x) -> Tensors {
         return {OutputNorm(
             {.x = x[0], .gate = x[1], .weight = x[2], .activation = GateActivation::kSilu})};
       },
       3 * kHalves,
       5 * kHalves});

  // As many tokens in sequences of other lengths; the shift of H3 reaches 64 tokens back.
  struct Convolution {
    std::int64_t num_inputs, num_taps, num_outputs;
  };
  for (const Convolution& c : {Convolution{kSeqLen, kSeqLen, kSeqLen}, Convolution{319, 64, 256},
                               Convolution{512, 512, 512}, Convolution{1024, 1024, 1024}}) {
    const std::int64_t batch_size = kTokens / c.num_outputs;
    const double read = kFloats * static_cast<double>(c.num_inputs * batch_size) / kTokens;
    cases.push_back({"direct convolution, " + std::to_string(c.num_taps) + " taps, " +
                         std::to_string(c.num_inputs) + " tokens",
                     {Random({batch_size, c.num_inputs, kWidth}, at::kFloat, 61),
                      Random({c.num_taps, kWidth}, at::kFloat, 62)},
                     [=](const Tensors& x) -> Tensors {
                       return {DirectConvolution(x[0], x[1], c.num_outputs)};
                     },
                     kFloats + read,
                     2 * kFloats + 2 * read});
    Case transforms = cases.back();  // what is taken where there are more taps
    transforms.name = "by transforms: " + transforms.name;
    transforms.run = [=](const Tensors& x) -> Tensors {
      const PlainAten plain;
      return {models::LongConvolution(x[0], x[1], c.num_outputs, ExecutionPath::kFast)};
    };
    cases.push_back(std::move(transforms));
  }

  cases.push_back({"log sigmoid decay",
                   {Random({kBatch, kSeqLen, 64}, at::kBFloat16, 21)},
                   [](const Tensors& x) -> Tensors { return {LogSigmoidDecay(x[0], 16)}; },
                   kHalves / 2 + kFloats / 2,
                   kHalves + kFloats / 2});

  cases.push_back({"delta gates",
                   {Random({kBatch, kSeqLen, 4}, at::kBFloat16, 22), Random({2}, at::kFloat, 23),
                    Random({2}, at::kFloat, 24)},
                   [](const Tensors& x) -> Tensors {
                     const auto gates =
                         ComputeDeltaGates({.z = x[0], .A_log = x[1], .dt_bias = x[2]});
                     return {gates.beta + gates.log_decay};
                   },
                   24.0 * kTokens,
                   32.0 * kTokens});

  cases.push_back({"heads of 64 times a number of each row",
                   {Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 63),
                    Random({kBatch, kSeqLen, 2}, at::kFloat, 64)},
                   [](const Tensors& x) -> Tensors { return {ScaleHeads(x[0], x[1])}; },
                   2 * kHalves,
                   3 * kHalves});

  cases.push_back(
      {"heads of 64 times a number of each head, added to others",
       {Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 65), Random({2}, at::kFloat, 66),
        Random({kBatch, kSeqLen, 2, 64}, at::kBFloat16, 67)},
       [](const Tensors& x) -> Tensors { return {ScaleHeads(x[0], x[1], x[2])}; },
       3 * kHalves,
       3 * kHalves});

  cases.push_back({"swiglu, width 352",
                   {Random({kBatch, kSeqLen, 704}, at::kBFloat16, 25)},
                   [](const Tensors& x) -> Tensors { return {Swiglu(x[0])}; },
                   kHalves * 3 * 352 / kWidth,
                   kHalves * 5 * 352 / kWidth});

  // The parameters of a two-layer model: the embedding and a few small ones.
  Tensors parameters = {RandomNormal({kVocab, kWidth}, 26, at::kFloat).cuda()};
  for (std::uint64_t i = 0; i < 20; ++i) {
    parameters.push_back(RandomNormal({64, kWidth}, 27 + i, at::kFloat).cuda());
  }
  std::vector<AdamWTensor> updated;
  double num_parameters = 0;
  for (const at::Tensor& parameter : parameters) {
    updated.push_back({parameter, at::zeros_like(parameter) + 1, at::zeros_like(parameter),
                       at::zeros_like(parameter), 0.1});
    num_parameters += static_cast<double>(parameter.numel());
  }
  const at::Tensor rate = at::full({}, 1e-3, parameters.front().options());
  const at::Tensor step = at::full({}, 10.0, parameters.front().options());
  cases.push_back({"adamw",
                   {},
                   [=](const Tensors&) -> Tensors {
                     AdamWStep(updated, rate, step, {});
                     return {};
                   },
                   28 * num_parameters,
                   0});
  return cases;
}

}  // namespace
}  // namespace mixerbench::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  mixerbench::harness::SetNumerics(/*allow_tf32=*/false);
  const mixerbench::testing::Ceilings ceilings = mixerbench::testing::MeasureCeilings();
  benchmark::AddCustomContext("copy, TB/s", std::to_string(ceilings.bytes_per_second / 1e12));
  benchmark::AddCustomContext("bf16 product, TFLOP/s",
                              std::to_string(ceilings.flops_per_second / 1e12));
  for (const mixerbench::kernels::Case& c : mixerbench::kernels::Cases(ceilings)) {
    for (const bool backward : {false, true}) {
      if (backward && c.backward_bytes == 0) continue;
      benchmark::RegisterBenchmark((c.name + (backward ? ": backward" : ": forward")).c_str(),
                                   [c, backward, ceilings](benchmark::State& state) {
                                     mixerbench::kernels::Measure(state, c, backward, ceilings);
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(20);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
