// CPU generator: tokens per second of one thread, for every preset of every task.
//   bazel run //tasks:generate_benchmark -- --benchmark_filter='mqar/.*256x16'
// A mixture is measured at its last test segment, the longest one.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::tasks {
namespace {

void Generate(benchmark::State& state, const TaskEntry& entry, const Value& params) {
  constexpr std::int64_t kBatchSize = 64;
  const auto task = entry.create(params, "");
  const auto size = static_cast<std::size_t>(kBatchSize * task->shape().seq_len);
  std::vector<std::int32_t> inputs(size);
  std::vector<std::int32_t> labels(size);
  BatchRequest request{.key = DeriveKey(task->canon(), 0, 0), .count = kBatchSize};
  for (auto _ : state) {
    GenerateOnCpu(*task, request, inputs, labels);
    benchmark::DoNotOptimize(inputs.data());
    benchmark::DoNotOptimize(labels.data());
    request.first += kBatchSize;
  }
  const double tokens = static_cast<double>(state.iterations()) * static_cast<double>(size);
  state.counters["tokens_per_s"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
}

// Presets that differ in nothing but the number of samples are measured once.
void RegisterBenchmarks(const TaskRegistry& registry) {
  for (const auto& [name, entry] : registry.entries()) {
    std::vector<Value> seen;
    for (const Preset& preset : entry.presets) {
      const Value& params = preset.test.empty() ? preset.params : preset.test.back().params;
      if (std::find(seen.begin(), seen.end(), params) != seen.end()) continue;
      seen.push_back(params);
      benchmark::RegisterBenchmark(preset.name.c_str(), Generate, entry, params);
    }
  }
}

}  // namespace
}  // namespace mixerbench::tasks

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  mixerbench::tasks::TaskRegistry registry("task");
  mixerbench::tasks::RegisterTasks(registry);
  mixerbench::tasks::RegisterBenchmarks(registry);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
