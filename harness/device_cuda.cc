// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "base/error.h"
#include "harness/device.h"

namespace mixerbench::harness {
namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

struct EventDeleter {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

CudaEvent MakeEvent() {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent(event);
}

std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

bool BuiltWithCuda() { return true; }

Value CudaVersions() {
  int driver = 0;
  int runtime = 0;
  Check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  Check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return Object{{"driver", Version(driver)}, {"runtime", Version(runtime)}};
}

struct StreamScope::Guard {
  c10::cuda::CUDAStreamGuard guard;
};

StreamScope::StreamScope(at::Device device) {
  if (!device.is_cuda()) return;
  guard_.reset(new Guard{c10::cuda::CUDAStreamGuard(
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()))});
}
StreamScope::~StreamScope() = default;

namespace internal {

int CudaDeviceCount() { return c10::cuda::device_count(); }

void CudaSynchronize(int index) {
  c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).synchronize();
}

bool CudaWorks(int index) {
  return cudaSetDevice(index) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}

CUstream_st* CudaStream(int index) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).stream();
}

void CudaResetPeakMemory(int index) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

std::int64_t CudaPeakMemoryBytes(int index) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  return stats.allocated_bytes[0].peak;  // entry 0 sums the large and small pools
}

double CudaTimeMilliseconds(int index, const std::function<void()>& work) {
  const auto stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index));
  const CudaEvent start = MakeEvent();
  const CudaEvent stop = MakeEvent();
  Check(cudaEventRecord(start.get(), stream.stream()), "cudaEventRecord");
  work();
  Check(cudaEventRecord(stop.get(), stream.stream()), "cudaEventRecord");
  Check(cudaEventSynchronize(stop.get()), "cudaEventSynchronize");
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "cudaEventElapsedTime");
  return milliseconds;
}

void CudaFlushCache(int index) {
  // Twice the L2 of any current device, so that the next sample starts from device memory.
  constexpr std::int64_t kFlushBytes = std::int64_t{128} << 20;
  at::empty({kFlushBytes}, at::TensorOptions().dtype(at::kByte).device(
                               at::kCUDA, static_cast<c10::DeviceIndex>(index)))
      .zero_();
}

Value CudaDescribe(int index) {
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return Object{{"name", std::string(properties.name)},
                {"compute_capability",
                 std::to_string(properties.major) + "." + std::to_string(properties.minor)},
                {"multiprocessors", properties.multiProcessorCount},
                {"memory_bytes", static_cast<std::int64_t>(properties.totalGlobalMem)}};
}

}  // namespace internal
}  // namespace mixerbench::harness
