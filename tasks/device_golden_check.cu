// Compares the CUDA generator with tests/golden/tasks.sha256; exit code 0 when every line agrees.
//   bazel build --config=cuda //tasks:device_golden_check, then on the GPU machine
//   device_golden_check tests/golden/tasks.sha256
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

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

// A copy of `host` on the device; never empty, so that it has an address.
template <typename T>
std::unique_ptr<T, DeviceDeleter> Upload(std::span<const T> host) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, host.size_bytes() + sizeof(T)), "cudaMalloc");
  std::unique_ptr<T, DeviceDeleter> device(static_cast<T*>(memory));
  Check(cudaMemcpy(device.get(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  return device;
}

template <typename T>
void Download(const T* device, std::span<T> host) {
  Check(cudaMemcpy(host.data(), device, host.size_bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
}

bool IsGolden(const char* path) {
  std::ifstream file(path);
  if (!file.is_open()) throw std::runtime_error(std::string("cannot read ") + path);
  std::stringstream golden;
  golden << file.rdbuf();

  TaskRegistry tasks("task");
  RegisterTasks(tasks);
  DeviceGeneratorRegistry generators("device generator");
  RegisterDeviceGenerators(generators);
  const std::string hashes =
      GoldenHashes(tasks, [&](std::string_view name, const Task& task, const BatchRequest& request,
                              std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        const auto tables = Upload(task.tables());
        const auto device_inputs = Upload(std::span<const std::int32_t>(inputs));
        const auto device_labels = Upload(std::span<const std::int32_t>(labels));
        Check(generators.Find(name, "")(task, request, tables.get(), device_inputs.get(),
                                        device_labels.get(), nullptr),
              "generator");
        Check(cudaDeviceSynchronize(), "generator");
        Download(device_inputs.get(), inputs);
        Download(device_labels.get(), labels);
      });
  std::istringstream actual_lines(hashes);
  int num_different = 0;
  std::string actual;
  for (std::string expected; std::getline(golden, expected);) {
    std::getline(actual_lines, actual);
    if (actual == expected) continue;
    std::printf("expected %s\ngot      %s\n", expected.c_str(), actual.c_str());
    ++num_different;
  }
  const bool is_longer = static_cast<bool>(std::getline(actual_lines, actual));
  std::printf("%d data sets differ%s\n", num_different,
              is_longer ? "; some are not in the file" : "");
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
