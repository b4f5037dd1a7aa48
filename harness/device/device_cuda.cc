// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "base/error.h"
#include "harness/device/device.h"

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

CudaEvent MakeEvent(unsigned flags = cudaEventDefault) {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate");
  return CudaEvent(event);
}

std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// cuDNN counts otherwise: 91900 is 9.19.0.
std::string CudnnVersion(long number) {
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

// Streams that nobody uses, by device. libtorch hands its few streams out in turn, to several
// threads at once when there are more threads, or when some keep theirs for long; then one would
// capture what another queues. Streams are never destroyed: the allocator keeps the memory that
// was used on one for whoever has it next.
class FreeStreams {
 public:
  c10::cuda::CUDAStream Take(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    auto& free = free_[device];
    if (free.empty()) {
      const c10::cuda::CUDAGuard guard(device);
      cudaStream_t stream = nullptr;
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      return c10::cuda::getStreamFromExternal(stream, device);
    }
    const c10::cuda::CUDAStream stream = free.back();
    free.pop_back();
    return stream;
  }

  void GiveBack(const c10::cuda::CUDAStream& stream) {
    const std::lock_guard lock(mutex_);
    free_[stream.device_index()].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<c10::cuda::CUDAStream>> free_;
};

FreeStreams& Streams() {
  static FreeStreams streams;
  return streams;
}

}  // namespace

bool BuiltWithCuda() { return true; }

Value CudaVersions() {
  int driver = 0;
  int runtime = 0;
  Check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  Check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  Object versions{{"driver", Version(driver)}, {"runtime", Version(runtime)}};
  if (at::Context::hasCuDNN()) {
    versions["cudnn"] = CudnnVersion(at::Context::versionRuntimeCuDNN());
  }
  return versions;
}

struct StreamScope::Guard {
  explicit Guard(const c10::cuda::CUDAStream& own) : stream(own), current(own) {}
  ~Guard() { Streams().GiveBack(stream); }

  c10::cuda::CUDAStream stream;
  c10::cuda::CUDAStreamGuard current;
};

StreamScope::StreamScope(at::Device device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>(Streams().Take(device.index()));
}
StreamScope::~StreamScope() = default;

struct LaunchWindow::Marks {
  std::deque<CudaEvent> passed_or_waiting;  // oldest first
};

LaunchWindow::LaunchWindow(at::Device device) {
  if (!device.is_cuda()) return;
  marks_ = std::make_unique<Marks>();
  for (std::size_t i = 0; i < kDepth; ++i) {
    marks_->passed_or_waiting.push_back(MakeEvent(cudaEventDisableTiming | cudaEventBlockingSync));
  }
}
LaunchWindow::~LaunchWindow() = default;

void LaunchWindow::Advance() {
  if (!marks_) return;
  auto& events = marks_->passed_or_waiting;
  CudaEvent oldest = std::move(events.front());
  events.pop_front();
  Check(cudaEventSynchronize(oldest.get()), "cudaEventSynchronize");  // at once when never recorded
  Check(cudaEventRecord(oldest.get(), c10::cuda::getCurrentCUDAStream().stream()),
        "cudaEventRecord");
  events.push_back(std::move(oldest));
}

ProfileRange::ProfileRange(const char* name) {
  torch::profiler::impl::cudaStubs()->rangePush(name);
}
ProfileRange::~ProfileRange() { torch::profiler::impl::cudaStubs()->rangePop(); }

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

DeviceMemory CudaMemory(int index) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // nothing is counted before
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  const auto& all = stats.allocated_bytes[0];  // sums the large and small pools
  return {.held_bytes = all.current, .peak_bytes = all.peak};
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

std::string CudaPciBusId(int index) {
  std::array<char, 32> text{};
  Check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), index),
        "cudaDeviceGetPCIBusId");
  return text.data();
}

}  // namespace internal
}  // namespace mixerbench::harness
