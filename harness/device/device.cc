// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device.h"

#include <chrono>
#include <stdexcept>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/ones.h>

#include "base/error.h"

namespace mixerbench::harness {

at::Device ParseDevice(std::string_view name) {
  if (name == "cpu") return at::Device(at::kCPU);
  const int count = internal::CudaDeviceCount();
  if (name == "auto") return count > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  int index = 0;
  if (name.starts_with("cuda:") && name.size() == 6 && name[5] >= '0' && name[5] <= '9') {
    index = name[5] - '0';
  } else if (name != "cuda") {
    throw ConfigError("--device", "unknown device '" + std::string(name) +
                                      "'; use cpu, cuda, cuda:<0-9> or auto");
  }
  if (!BuiltWithCuda()) {
    throw BackendUnavailable("--device " + std::string(name) +
                             ": this program was built without CUDA; build with --config=cuda or "
                             "use --device cpu");
  }
  if (index >= count) {
    throw BackendUnavailable("--device " + std::string(name) + ": found " + std::to_string(count) +
                             " CUDA devices; use --device cpu or another index");
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

int CountGpus() { return internal::CudaDeviceCount(); }

void WarmUp(at::Device device) {
  if (!device.is_cuda()) return;
  const at::Tensor one = at::ones({1, 1}, at::TensorOptions(device));  // makes the context
  at::linalg_solve_triangular(one, one, /*upper=*/false);  // loads the linear algebra library
  Synchronize(device);
}

bool DeviceWorks(at::Device device) {
  return !device.is_cuda() || internal::CudaWorks(device.index());
}

void WaitForDevice(at::Device device) {
  if (device.is_cuda()) internal::CudaWorks(device.index());
}

void SetNumerics(bool allow_tf32) {
  at::set_num_threads(1);
  auto& context = at::globalContext();
  context.setFloat32MatmulPrecision(allow_tf32 ? "high" : "highest");
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  // Warn instead of throwing: an operation without a deterministic form is declared in the report
  // by its mixer, not refused.
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);
}

at::Generator MakeGenerator(at::Device device, std::uint64_t seed) {
  at::Generator generator =
      device.is_cuda()
          ? at::globalContext().getAcceleratorHooksInterface(at::kCUDA).getNewGenerator(
                device.index())
          : at::make_generator<at::CPUGeneratorImpl>();
  generator.set_current_seed(seed);
  return generator;
}

void Synchronize(at::Device device) {
  if (device.is_cuda()) internal::CudaSynchronize(device.index());
}

CUstream_st* CurrentStream(at::Device device) {
  return device.is_cuda() ? internal::CudaStream(device.index()) : nullptr;
}

void CheckCuda(int error, const char* work) {
  if (error == 0) return;
  throw std::runtime_error(std::string(work) + " failed with CUDA error " + std::to_string(error));
}

double TimeMilliseconds(at::Device device, const std::function<void()>& work) {
  if (device.is_cuda()) return internal::CudaTimeMilliseconds(device.index(), work);
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

std::string_view ClockName(at::Device device) {
  return device.is_cuda() ? "cuda_event" : "steady_clock";
}

void FlushCache(at::Device device) {
  if (device.is_cuda()) internal::CudaFlushCache(device.index());
}

Value DescribeGpu(at::Device device) {
  return device.is_cuda() ? internal::CudaDescribe(device.index()) : Value();
}

std::string PciBusId(at::Device device) {
  return device.is_cuda() ? internal::CudaPciBusId(device.index()) : "";
}

}  // namespace mixerbench::harness
