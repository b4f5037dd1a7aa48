// CPU generator: tokens per second of one thread, for each task.
//   bazel run -c opt //tasks:generate_benchmark
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::tasks {
namespace {

void Generate(benchmark::State& state, const std::string& task_name, const Object& params) {
  constexpr std::int64_t kBatchSize = 64;
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const auto task = registry.Find(task_name, "").create(params, "");
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

Object Mqar(std::int64_t seq_len, std::int64_t num_kv_pairs, const std::string& noise) {
  return {{"input_seq_len", seq_len}, {"num_kv_pairs", num_kv_pairs}, {"noise", noise}};
}

BENCHMARK_CAPTURE(Generate, mqar_256x16_zero, "mqar", Mqar(256, 16, "zero"));
BENCHMARK_CAPTURE(Generate, mqar_256x16_random, "mqar", Mqar(256, 16, "random"));
BENCHMARK_CAPTURE(Generate, mqar_256x16_random_safe, "mqar", Mqar(256, 16, "random_safe"));
BENCHMARK_CAPTURE(Generate, mqar_256x64_random, "mqar", Mqar(256, 64, "random"));
BENCHMARK_CAPTURE(Generate, mqar_1024x256_random, "mqar", Mqar(1024, 256, "random"));
BENCHMARK_CAPTURE(Generate, selective_copying_4112, "selective_copying", Object{});
BENCHMARK_CAPTURE(Generate, selective_copying_256, "selective_copying",
                  Object{{"prefix_len", 256}});
BENCHMARK_CAPTURE(Generate, mad_icr_128, "mad_icr", Object{});
BENCHMARK_CAPTURE(Generate, mad_icr_128_noisy, "mad_icr",
                  Object{{"vocab_size", 32}, {"noise_vocab_size", 16}, {"frac_noise", 0.2}});

}  // namespace
}  // namespace mixerbench::tasks
