// Samples per minute of NIAH on one core, and what loading costs.
//   bazel run -c opt //tasks:niah_benchmark
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "tasks/niah/niah.h"
#include "tasks/text/text_task.h"

namespace mixerbench::tasks::niah {
namespace {

std::unique_ptr<Task> Make(std::shared_ptr<TextLibrary> library, const char* type_haystack,
                           const char* types, std::int64_t length) {
  return MakeNiah(NiahFields().Parse(Object{{"type_haystack", type_haystack},
                                            {"type_needle_k", types},
                                            {"type_needle_v", types},
                                            {"input_seq_len", length}},
                                     ""),
                  std::move(library), "");
}

void SetRates(benchmark::State& state, std::int64_t length) {
  const auto count = static_cast<double>(state.iterations());
  state.counters["samples/min"] = benchmark::Counter(60 * count, benchmark::Counter::kIsRate);
  state.counters["tokens/s"] =
      benchmark::Counter(count * static_cast<double>(length), benchmark::Counter::kIsRate);
}

void Tokens(benchmark::State& state, const char* type_haystack, const char* types) {
  const std::int64_t length = state.range(0);
  const auto task = Make(std::make_shared<TextLibrary>(), type_haystack, types, length);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(length)), labels(inputs.size());
  SampleStream stream{DeriveKey(task->canon(), 0, 0), 0};
  task->Generate(stream, LabelMode::kScored, inputs, labels, {});  // loads the haystack
  for (auto _ : state) {
    ++stream.index;
    task->Generate(stream, LabelMode::kScored, inputs, labels, {});
    benchmark::DoNotOptimize(inputs.data());
  }
  SetRates(state, length);
}

void Prompts(benchmark::State& state, const char* type_haystack, const char* types) {
  const std::int64_t length = state.range(0);
  const auto task = Make(std::make_shared<TextLibrary>(), type_haystack, types, length);
  SampleStream stream{DeriveKey(task->canon(), 0, 0), 0};
  benchmark::DoNotOptimize(task->text()->MakePrompt(stream).prompt.size());
  for (auto _ : state) {
    ++stream.index;
    benchmark::DoNotOptimize(task->text()->MakePrompt(stream).prompt.size());
  }
  SetRates(state, length);
}

void LoadAndMakeFirst(benchmark::State& state) {
  for (auto _ : state) {
    const auto task = Make(std::make_shared<TextLibrary>(), "kjv", "words", 1024);
    benchmark::DoNotOptimize(
        task->text()->MakePrompt({DeriveKey(task->canon(), 0, 0), 0}).prompt.size());
  }
}

BENCHMARK_CAPTURE(Tokens, kjv, "kjv", "words")->Arg(1024)->Arg(4096)->Arg(131072);
BENCHMARK_CAPTURE(Tokens, noise, "noise", "words")->Arg(131072);
BENCHMARK_CAPTURE(Tokens, needle_words, "needle", "words")->Arg(131072);
BENCHMARK_CAPTURE(Tokens, needle_uuids, "needle", "uuids")->Arg(131072);
BENCHMARK_CAPTURE(Prompts, kjv, "kjv", "words")->Arg(131072);
BENCHMARK_CAPTURE(Prompts, needle_uuids, "needle", "uuids")->Arg(131072);
BENCHMARK(LoadAndMakeFirst)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mixerbench::tasks::niah
