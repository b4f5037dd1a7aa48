// Times of the cores on a GPU: forward, and forward with backward, each as one CUDA graph.
//
//   core_device_benchmark [CORE...]       all cores with a cost below when none is named
//
// Every time stands beside its floor: the bytes of inputs, outputs and gradients, read or written
// once, at the speed of a copy, or the FLOPs of the chunked form at the speed of a matrix product,
// whichever takes longer. The L2 cache is overwritten before every sample. Heads of other sizes
// than kernels take are padded and cut in tiles; their time per FLOP stands beside that of
// kTunedShape.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/device/device.h"
#include "kernels/core.h"
#include "tests/gpu/ceilings.h"
#include "tests/support/compare.h"

namespace mixerbench::kernels {
namespace {

using testing::Ceilings;

constexpr int kSamples = 30;

struct Shape {
  std::int64_t batch_size, seq_len, num_heads, head_k_dim, head_v_dim;
};
constexpr Shape kTunedShape = {256, 256, 2, 64, 64};
constexpr Shape kShapes[] = {
    kTunedShape,
    {8, 4096, 8, 128, 128},
    {1, 8192, 8, 128, 128},
    {1, 32768, 8, 128, 128},
    {1, 131072, 8, 128, 128},
    {64, 512, 2, 64, 64},
    // 4 heads: d 96, with keys of all channels and of half of them, and d 512 likewise.
    {256, 256, 4, 24, 24},
    {256, 256, 4, 32, 32},
    {256, 256, 4, 12, 24},
    {64, 256, 4, 128, 256},
    {64, 256, 4, 64, 128},
};

// Least work of a token and head with K = `k`, V = `v` and bf16 tensors, as in the page of the
// core.
struct Cost {
  double forward_flops, backward_flops, forward_bytes, backward_bytes;
};
const std::map<std::string, Cost (*)(double k, double v)> kCosts = {
    {"simple_gla",
     [](double k, double v) -> Cost {
       return {.forward_flops = 4 * k * v + 128 * (k + v),
               .backward_flops = 10 * k * v + 320 * (k + v),
               .forward_bytes = 2 * 2 * (k + v) + 4,
               .backward_bytes = 2 * (4 * k + 3 * v) + 8};
     }},
    {"gla",
     [](double k, double v) -> Cost {
       return {.forward_flops = 4 * k * v + 128 * (k + v),
               .backward_flops = 10 * k * v + 320 * (k + v),
               .forward_bytes = 2 * 2 * (k + v) + 4 * k,
               .backward_bytes = 2 * (4 * k + 3 * v) + 8 * k};
     }},
    {"delta_rule",
     [](double k, double v) -> Cost {
       return {.forward_flops = 6 * k * v + 384 * k + 256 * v + 1365,
               .backward_flops = 16 * k * v + 768 * (k + v),
               .forward_bytes = 2 * 2 * (k + v) + 8,
               .backward_bytes = 2 * (4 * k + 3 * v) + 16};
     }},
    {"delta_rule/no_decay",
     [](double k, double v) -> Cost {
       return {.forward_flops = 6 * k * v + 384 * k + 256 * v + 1365,
               .backward_flops = 16 * k * v + 768 * (k + v),
               .forward_bytes = 2 * 2 * (k + v) + 4,
               .backward_bytes = 2 * (4 * k + 3 * v) + 8};
     }},
    {"dplr",  // token by token
     [](double k, double v) -> Cost {
       return {.forward_flops = 9 * k * v,
               .backward_flops = 26 * k * v,
               .forward_bytes = 2 * (4 * k + 2 * v) + 4 * k,
               .backward_bytes = 2 * (8 * k + 3 * v) + 8 * k};
     }},
    {"sila",  // token by token
     [](double k, double v) -> Cost {
       return {.forward_flops = 7 * k * v,
               .backward_flops = 15 * k * v,
               .forward_bytes = 2 * 2 * (k + v) + 8,
               .backward_bytes = 2 * (4 * k + 3 * v) + 16};
     }},
};

// "core/no_decay" is `core` without its decays.
std::string CoreName(const std::string& name) { return name.substr(0, name.find('/')); }

NamedTensors DrawInputs(const CoreEntry& core, const Shape& shape, at::Device device) {
  const std::map<char, std::int64_t> axes = {{'B', shape.batch_size},
                                             {'T', shape.seq_len},
                                             {'H', shape.num_heads},
                                             {'K', shape.head_k_dim},
                                             {'V', shape.head_v_dim}};
  NamedTensors inputs;
  for (const auto& spec : core.inputs) {
    if (spec.kind == InputKind::kState) continue;
    std::vector<std::int64_t> sizes;
    for (const char axis : spec.shape) {
      if (axis != ' ') sizes.push_back(axes.at(axis));
    }
    auto x = at::randn(sizes, at::TensorOptions().device(device));
    switch (spec.kind) {
      case InputKind::kUnitNorm:
        x = (x / x.norm(2, -1, /*keepdim=*/true)).to(at::kBFloat16);
        break;
      case InputKind::kLogDecay:
        x = at::log_sigmoid(x) / 16;  // as GLA initialises its gates
        break;
      case InputKind::kUnit:
        x = x.sigmoid();
        break;
      case InputKind::kDense:
      case InputKind::kState:
        x = x.to(at::kBFloat16);
        break;
    }
    inputs[spec.name] = x;
  }
  return inputs;
}

// One call as a graph on a stream of its own, replayed between device events.
template <typename Work>
std::vector<double> TimeGraph(at::Device device, const Work& work) {
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int i = 0; i < 2; ++i) work();
  stream.synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  work();
  graph.capture_end();
  std::vector<double> milliseconds;
  for (int i = 0; i < kSamples; ++i) {
    harness::FlushCache(device);
    milliseconds.push_back(harness::TimeMilliseconds(device, [&] { graph.replay(); }));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds;
}

// Milliseconds for each FLOP, by pass, of the first shape that was printed.
using TunedTimes = std::map<std::string, double>;

void Print(const char* what, const std::vector<double>& times, double tokens, double bytes,
           double flops, const Ceilings& ceilings, TunedTimes& tuned) {
  const double median = times[times.size() / 2];
  const double bytes_ms = tokens * bytes / ceilings.bytes_per_second * 1e3;
  const double flops_ms = tokens * flops / ceilings.flops_per_second * 1e3;
  const double per_flop = median / (tokens * flops);
  std::printf(
      " | %s %.3f ms (%.3f-%.3f), floor %.3f, %.0f%% of copy, %.0f%% of bf16 product, %.2f of the "
      "tuned shape's time per FLOP",
      what, median, times[times.size() / 5], times[times.size() * 4 / 5],
      std::max(bytes_ms, flops_ms), 100 * bytes_ms / median, 100 * flops_ms / median,
      per_flop / tuned.emplace(what, per_flop).first->second);
}

void Measure(const std::string& name, const CoreEntry& core, const Shape& shape, at::Device device,
             const Ceilings& ceilings, TunedTimes& tuned) {
  auto inputs = DrawInputs(core, shape, device);
  if (name != CoreName(name)) inputs.erase("log_decay");
  const Cost cost =
      kCosts.at(name)(static_cast<double>(shape.head_k_dim), static_cast<double>(shape.head_v_dim));
  const auto tokens = static_cast<double>(shape.batch_size * shape.seq_len * shape.num_heads);
  std::printf("%s B%ld T%ld H%ld K%ld V%ld", name.c_str(), shape.batch_size, shape.seq_len,
              shape.num_heads, shape.head_k_dim, shape.head_v_dim);
  {
    const at::NoGradGuard no_grad;
    const auto times = TimeGraph(device, [&] { core.run(inputs, {}); });
    Print("fwd", times, tokens, cost.forward_bytes, cost.forward_flops, ceilings, tuned);
  }
  std::vector<at::Tensor> leaves;
  for (auto& [input_name, value] : inputs) {
    value.requires_grad_(true);
    leaves.push_back(value);
  }
  const auto d_o = at::randn(inputs.at("v").sizes(), inputs.at("v").options());
  const auto times = TimeGraph(
      device, [&] { torch::autograd::grad({core.run(inputs, {}).at("o")}, leaves, {d_o}); });
  Print("fwd+bwd", times, tokens, cost.forward_bytes + cost.backward_bytes,
        cost.forward_flops + cost.backward_flops, ceilings, tuned);
  std::printf("\n");
  std::fflush(stdout);
}

// The fast path in bf16 against the reference in fp64, so that no time stands without it.
void PrintParity(const std::string& name, const CoreEntry& core, at::Device device) {
  const auto inputs = DrawInputs(core, {1, 300, 2, 128, 128}, device);
  NamedTensors exact;
  for (const auto& [input_name, value] : inputs) exact[input_name] = value.to(at::kDouble);
  const at::NoGradGuard no_grad;
  const auto expected = core.run(exact, {.path = ExecutionPath::kReference});
  for (const auto& [output_name, value] : core.run(inputs, {})) {
    std::printf("%s: %s in bf16 differs from fp64 by %.1e\n", name.c_str(), output_name.c_str(),
                testing::RelativeError(value, expected.at(output_name)));
  }
}

int Main(const std::vector<std::string>& names) {
  const at::Device device = harness::ParseDevice("cuda");
  harness::SetNumerics(/*allow_tf32=*/false);
  const Ceilings ceilings = testing::MeasureCeilings();
  std::printf("copy %.2f TB/s, bf16 product %.0f TFLOP/s\n", ceilings.bytes_per_second / 1e12,
              ceilings.flops_per_second / 1e12);
  CoreRegistry cores("core");
  RegisterCores(cores);
  for (const auto& name : names) {
    const CoreEntry& core = cores.Find(CoreName(name), "");
    PrintParity(name, core, device);
    TunedTimes tuned;
    for (const Shape& shape : kShapes) Measure(name, core, shape, device, ceilings, tuned);
  }
  return 0;
}

}  // namespace
}  // namespace mixerbench::kernels

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) {
    for (const auto& [name, cost] : mixerbench::kernels::kCosts) names.push_back(name);
  }
  return mixerbench::kernels::Main(names);
}
