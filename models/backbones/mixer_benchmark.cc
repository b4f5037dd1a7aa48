// Time of one training pass (forward and backward, without the head and the optimiser) of a 2-layer
// zoology model with each mixer: d_model 64, batch 64, 64 tokens, float32, one thread.
//
//   bazel run //models/backbones:mixer_benchmark -- --benchmark_repetitions=5
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>

#include <ATen/Parallel.h>

#include <benchmark/benchmark.h>

#include "base/error.h"
#include "models/backbone.h"
#include "tests/support/tensors.h"

namespace mixerbench::models {
namespace {

constexpr std::int64_t kModelDim = 64;
constexpr std::int64_t kBatchSize = 64;
constexpr std::int64_t kSeqLen = 64;
constexpr std::int64_t kVocabSize = 8192;

void ForwardBackward(benchmark::State& state, const std::string& mixer) {
  at::set_num_threads(1);
  MixerRegistry mixers("mixer");
  RegisterMixers(mixers);
  BackboneRegistry backbones("backbone");
  RegisterBackbones(backbones);
  const BackboneEntry& entry = backbones.Find("zoology", "");
  const Value config = Object{{"d_model", kModelDim}, {"sequence_mixer", Object{{"name", mixer}}}};
  ParameterSet parameters(1, entry.init_policy(config), entry.num_layers(config), at::kCPU,
                          at::kFloat);
  const std::unique_ptr<Backbone> backbone = entry.create(
      config, "", {.vocab_size = kVocabSize, .max_seq_len = kSeqLen, .mixers = &mixers},
      parameters);

  const at::Tensor tokens =
      testing::RandomUniform({kBatchSize, kSeqLen}, 1).mul(kVocabSize).to(at::kLong);
  const at::Tensor gradient =
      testing::RandomNormal({kBatchSize, kSeqLen, kModelDim}, 2, at::kFloat);
  for (auto _ : state) {
    backbone->Forward(tokens, {}).hidden.backward(gradient);
    for (const Parameter& parameter : parameters.parameters()) {
      at::Tensor tensor = parameter.tensor;
      tensor.mutable_grad().reset();
    }
  }
  state.counters["tokens_per_s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * kBatchSize * kSeqLen), benchmark::Counter::kIsRate);
}

// A mixer that needs an option has no default to time.
bool HasDefaults(const MixerEntry& mixer, const MixerRegistry& mixers) {
  try {
    mixer.resolve(Object{}, "", mixers);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

const bool kRegistered = [] {
  MixerRegistry mixers("mixer");
  RegisterMixers(mixers);
  for (const auto& [mixer, entry] : mixers.entries()) {
    if (!HasDefaults(entry, mixers)) continue;
    benchmark::RegisterBenchmark(mixer.c_str(), ForwardBackward, mixer)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace mixerbench::models
