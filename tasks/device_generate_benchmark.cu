// Speed of the CUDA generator for every task, beside the floor that writing the samples sets:
//   bazel build --config=cuda //tasks:device_generate_benchmark, then on the GPU machine
//   device_generate_benchmark [words of a setting's name ...]
// Times are medians of device events around single launches; nothing else may run on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "tasks/generate.h"

namespace mixerbench::tasks {
namespace {

// What a copy kernel reaches on an H200, bytes per second.
constexpr double kCopyBandwidth = 4.3e12;
// Written once, a token costs an input and a label.
constexpr double kBytesPerToken = 8;
// Enough samples to fill the GPU many times over, and outputs larger than its caches.
constexpr std::int64_t kLargeBatchTokens = std::int64_t{1} << 24;
// The batch of a training step.
constexpr std::int64_t kSmallBatch = 256;

void Check(int status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " +
                           cudaGetErrorString(static_cast<cudaError_t>(status)));
}

struct DeviceDeleter {
  void operator()(void* memory) const noexcept { cudaFree(memory); }
};
template <typename T>
using DeviceArray = std::unique_ptr<T, DeviceDeleter>;

template <typename T>
DeviceArray<T> Allocate(std::int64_t count) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T)),
        "cudaMalloc");
  return DeviceArray<T>(static_cast<T*>(memory));
}

struct EventDeleter {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, EventDeleter>;

Event MakeEvent() {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

struct Spread {
  double p20, median, p80;  // seconds
};

// Times of `launch`, each between two events of its own, after a warm-up.
template <typename Launch>
Spread Measure(const Launch& launch) {
  constexpr int kWarmUp = 5, kRuns = 31;
  const Event begin = MakeEvent();
  const Event end = MakeEvent();
  std::vector<double> seconds;
  for (int run = -kWarmUp; run < kRuns; ++run) {
    Check(cudaEventRecord(begin.get(), nullptr), "cudaEventRecord");
    launch(static_cast<std::uint64_t>(run + kWarmUp));
    Check(cudaEventRecord(end.get(), nullptr), "cudaEventRecord");
    Check(cudaEventSynchronize(end.get()), "generator");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    if (run >= 0) seconds.push_back(1e-3 * milliseconds);
  }
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return seconds[static_cast<std::size_t>(share * (kRuns - 1))];
  };
  return {at(0.2), at(0.5), at(0.8)};
}

struct Setting {
  std::string name;
  std::string task;
  Value params;
  int threads_per_sample = 0;
};

// The default options of every task, and the settings of published figures.
std::vector<Setting> Settings(const TaskRegistry& tasks) {
  const auto mqar = [](std::int64_t seq_len, std::int64_t num_kv_pairs, const char* noise) {
    return Object{{"input_seq_len", seq_len}, {"num_kv_pairs", num_kv_pairs}, {"noise", noise}};
  };
  std::vector<Setting> settings = {
      {"mqar 64x4 zero", "mqar", mqar(64, 4, "zero")},
      {"mqar 256x16 zero", "mqar", mqar(256, 16, "zero")},
      {"mqar 256x16 random", "mqar", mqar(256, 16, "random")},
      {"mqar 256x16 random_safe", "mqar", mqar(256, 16, "random_safe")},
      {"mqar 1024x256 random", "mqar", mqar(1024, 256, "random")},
      {"selective_copying 256", "selective_copying", Object{{"prefix_len", 256}}},
  };
  for (const int threads : {32, 64, 128, 256}) {
    settings.push_back({"mqar 256x16 random, " + std::to_string(threads) + " thr", "mqar",
                        mqar(256, 16, "random"), threads});
  }
  for (const auto& [name, entry] : tasks.entries()) {
    settings.push_back({name + " default", name, Object{}});
  }
  return settings;
}

void PrintRow(const Setting& setting, const Task& task, const DeviceGenerator& generate) {
  const std::int64_t seq_len = task.shape().seq_len;
  const std::int64_t large_batch = std::max<std::int64_t>(kLargeBatchTokens / seq_len, 1);
  const std::int64_t max_tokens = std::max(large_batch, kSmallBatch) * seq_len;
  const auto inputs = Allocate<std::int32_t>(max_tokens);
  const auto labels = Allocate<std::int32_t>(max_tokens);
  const auto tables = task.tables();
  const auto device_tables = Allocate<std::uint32_t>(std::ssize(tables));
  Check(cudaMemcpy(device_tables.get(), tables.data(), tables.size_bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");

  const auto measure = [&](std::int64_t count) {
    return Measure([&](std::uint64_t run) {
      const BatchRequest request{.key = DeriveKey(task.canon(), 0, 0),
                                 .first = run * static_cast<std::uint64_t>(count),
                                 .count = count,
                                 .threads_per_sample = setting.threads_per_sample};
      Check(generate(task, request, device_tables.get(), inputs.get(), labels.get(), nullptr),
            "generator");
    });
  };
  const Spread large = measure(large_batch);
  const Spread small = measure(kSmallBatch);
  const double num_tokens = static_cast<double>(large_batch * seq_len);
  const double floor = num_tokens * kBytesPerToken / kCopyBandwidth;
  std::printf("%-28s %7lld %8.1f (%.1f-%.1f) %6.0f%%  %8.1f (%.1f-%.1f)\n", setting.name.c_str(),
              static_cast<long long>(seq_len), 1e-9 * num_tokens / large.median,
              1e-9 * num_tokens / large.p80, 1e-9 * num_tokens / large.p20,
              100 * floor / large.median, 1e6 * small.median, 1e6 * small.p20, 1e6 * small.p80);
}

void PrintTable(const std::vector<std::string>& words) {
  TaskRegistry tasks("task");
  RegisterTasks(tasks);
  DeviceGeneratorRegistry generators("device generator");
  RegisterDeviceGenerators(generators);
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s; batches of %lld tokens, and of %lld samples; median (20th-80th percentile)\n",
              properties.name, static_cast<long long>(kLargeBatchTokens),
              static_cast<long long>(kSmallBatch));
  std::printf("%-28s %7s %20s %7s  %20s\n", "setting", "seq_len", "Gtok/s", "floor", "us/batch");
  for (const Setting& setting : Settings(tasks)) {
    const bool is_wanted = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return setting.name.find(word) != std::string::npos;
    });
    if (!is_wanted || !generators.Contains(setting.task)) continue;
    const auto task = tasks.Find(setting.task, "").create(setting.params, "/" + setting.name);
    PrintRow(setting, *task, generators.Find(setting.task, ""));
  }
}

}  // namespace
}  // namespace mixerbench::tasks

int main(int argc, char** argv) {
  try {
    mixerbench::tasks::PrintTable({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_generate_benchmark: %s\n", error.what());
    return 7;
  }
}
