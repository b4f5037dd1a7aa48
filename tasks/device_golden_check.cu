// Compares the CUDA generator with tests/golden/tasks.sha256, and launches of every number of
// threads with one another; exit code 0 when everything agrees.
//   bazel build --config=cuda //tasks:device_golden_check, then on the GPU machine
//   device_golden_check tests/golden/tasks.sha256
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "tasks/generate.h"
#include "tasks/golden.h"

namespace mixerbench::tasks {
namespace {

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

// A copy of `host` on the device; never empty, so that it has an address.
template <typename T>
DeviceArray<T> Upload(std::span<const T> host) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, host.size_bytes() + sizeof(T)), "cudaMalloc");
  DeviceArray<T> device(static_cast<T*>(memory));
  Check(cudaMemcpy(device.get(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  return device;
}

template <typename T>
void Download(const T* device, std::span<T> host) {
  Check(cudaMemcpy(host.data(), device, host.size_bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
}

// One batch from the device generator.
class Generation {
 public:
  Generation(const Task& task, const DeviceGenerator& generator, std::size_t num_tokens)
      : task_(task), generator_(generator), tables_(Upload(task.tables())) {
    const std::vector<std::int32_t> poison(num_tokens, -7);
    inputs_ = Upload(std::span<const std::int32_t>(poison));
    labels_ = Upload(std::span<const std::int32_t>(poison));
  }

  void Run(const BatchRequest& request, std::span<std::int32_t> inputs,
           std::span<std::int32_t> labels) const {
    Check(generator_(task_, request, tables_.get(), inputs_.get(), labels_.get(), nullptr),
          "generator");
    Check(cudaDeviceSynchronize(), "generator");
    Download(inputs_.get(), inputs);
    Download(labels_.get(), labels);
  }

 private:
  const Task& task_;
  const DeviceGenerator& generator_;
  DeviceArray<std::uint32_t> tables_;
  DeviceArray<std::int32_t> inputs_;
  DeviceArray<std::int32_t> labels_;
};

bool IsGolden(const char* path) {
  std::ifstream file(path);
  if (!file.is_open()) throw std::runtime_error(std::string("cannot read ") + path);
  std::stringstream golden;
  golden << file.rdbuf();

  TaskRegistry tasks("task");
  RegisterTasks(tasks);
  DeviceGeneratorRegistry generators("device generator");
  RegisterDeviceGenerators(generators);
  int num_different = 0;
  const std::string hashes =
      GoldenHashes(tasks, [&](std::string_view name, const Task& task, const BatchRequest& request,
                              std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        const Generation generation(task, generators.Find(name, ""), inputs.size());
        generation.Run(request, inputs, labels);
        std::vector<std::int32_t> other_inputs(inputs.size());
        std::vector<std::int32_t> other_labels(labels.size());
        for (int threads = 32; threads <= 256; threads += 32) {
          BatchRequest other = request;
          other.threads_per_sample = threads;
          generation.Run(other, other_inputs, other_labels);
          if (std::equal(inputs.begin(), inputs.end(), other_inputs.begin()) &&
              std::equal(labels.begin(), labels.end(), other_labels.begin())) {
            continue;
          }
          std::printf("%s differs with %d threads a sample\n", task.canon().c_str(), threads);
          ++num_different;
        }
      });
  std::istringstream actual_lines(hashes);
  std::string actual;
  for (std::string expected; std::getline(golden, expected);) {
    std::getline(actual_lines, actual);
    if (actual == expected) continue;
    std::printf("expected %s\ngot      %s\n", expected.c_str(), actual.c_str());
    ++num_different;
  }
  const bool is_longer = static_cast<bool>(std::getline(actual_lines, actual));
  std::printf("%d differences%s\n", num_different,
              is_longer ? "; data sets that are not in the file" : "");
  return num_different == 0 && !is_longer;
}

}  // namespace
}  // namespace mixerbench::tasks

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: device_golden_check tests/golden/tasks.sha256\n");
    return 2;
  }
  try {
    return mixerbench::tasks::IsGolden(argv[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_golden_check: %s\n", error.what());
    return 7;
  }
}
