// Speed of every core on one CPU thread in fp32, forward and forward plus backward.
//
//   bazel run //kernels:core_benchmark -- --benchmark_repetitions=5
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>

#include <benchmark/benchmark.h>

#include "base/check.h"
#include "kernels/core.h"
#include "kernels/core_testing.h"
#include "tests/support/tensors.h"

namespace mixerbench::kernels {
namespace {

using testing::CoreCase;

// Required inputs and gates; no initial state, as in training.
NamedTensors DrawInputs(const CoreEntry& core, const CoreCase& sizes) {
  NamedTensors inputs;
  std::uint64_t seed = 1;
  for (const auto& spec : core.inputs) {
    if (spec.kind == InputKind::kState) continue;
    const auto shape = testing::ShapeOf(spec, sizes);
    auto x = testing::RandomNormal(shape, seed++, at::kFloat);
    switch (spec.kind) {
      case InputKind::kUnitNorm:
        x = x / x.norm(2, -1, /*keepdim=*/true);
        break;
      case InputKind::kLogDecay:
        x = at::log_sigmoid(x) / 16;
        break;
      case InputKind::kUnit:
        x = x.sigmoid();
        break;
      case InputKind::kDense:
      case InputKind::kState:
        break;
    }
    inputs[spec.name] = x;
  }
  return inputs;
}

void Measure(benchmark::State& state, const CoreEntry& core, const CoreCase& sizes,
             const CoreOptions& options, bool with_backward) {
  at::set_num_threads(1);
  auto inputs = DrawInputs(core, sizes);
  for (auto& [name, value] : inputs) value.requires_grad_(with_backward);
  const auto weight =
      testing::RandomNormal(core.run(inputs, options).at("o").sizes(), 99, at::kFloat);
  for (auto _ : state) {
    const auto o = core.run(inputs, options).at("o");
    if (with_backward) {
      o.backward(weight);
      for (auto& [name, value] : inputs) value.mutable_grad().reset();
    }
    benchmark::DoNotOptimize(o.const_data_ptr());
  }
  state.counters["tokens_per_s"] =
      benchmark::Counter(static_cast<double>(sizes.batch_size * sizes.seq_len),
                         benchmark::Counter::kIsIterationInvariantRate);
}

// Keeps the registry alive for the benchmarks that refer to it.
const CoreRegistry& Cores() {
  static const CoreRegistry cores = [] {
    CoreRegistry registry("core");
    RegisterCores(registry);
    return registry;
  }();
  return cores;
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& [name, core] : Cores().entries()) {
    for (const auto& [batch_size, seq_len, head_dim] :
         {std::array<std::int64_t, 3>{64, 64, 32}, std::array<std::int64_t, 3>{8, 512, 64}}) {
      const CoreCase sizes{.batch_size = batch_size,
                           .seq_len = seq_len,
                           .head_k_dim = head_dim,
                           .head_v_dim = head_dim,
                           .num_slots = head_dim};
      for (const std::int64_t chunk_size : {16, 32, 64}) {
        for (const bool with_backward : {false, true}) {
          const std::string label =
              name + (with_backward ? "/forward_backward" : "/forward") + "/B" +
              std::to_string(sizes.batch_size) + "_T" + std::to_string(sizes.seq_len) + "_H" +
              std::to_string(sizes.num_heads) + "_D" + std::to_string(head_dim) + "/chunk" +
              std::to_string(chunk_size);
          const CoreEntry* entry = &core;
          benchmark::RegisterBenchmark(label.c_str(), [=](benchmark::State& state) {
            Measure(state, *entry, sizes, {.chunk_size = chunk_size}, with_backward);
          })->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mixerbench::kernels
