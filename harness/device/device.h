// What differs between the CPU and a CUDA device, besides tensors. Linked with device_cuda.cc or
// device_stub.cc: no #ifdef decides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include "base/value.h"

struct CUstream_st;

namespace mixerbench::harness {

// "cpu", "cuda", "cuda:1" or "auto" (cuda where there is one). Throws ConfigError for other words
// and BackendUnavailable when there is no such device.
at::Device ParseDevice(std::string_view name);

// CUDA devices in this machine; 0 without CUDA.
int CountGpus();

// False when an earlier failure has left the process without a working context on the device:
// only a new process helps.
bool DeviceWorks(at::Device device);

// Waits for all work of all threads; of an error that came with it, every later call tells.
void WaitForDevice(at::Device device);

// Starts what libtorch starts lazily and without a lock, so that threads may follow.
void WarmUp(at::Device device);

// Process-wide numerics, set once per process before the first operation: one CPU thread,
// deterministic algorithms where they exist, tf32 only when asked for.
void SetNumerics(bool allow_tf32);

// A generator of its own on the device; its seed is set before every use.
at::Generator MakeGenerator(at::Device device, std::uint64_t seed);

// Waits for all queued work.
void Synchronize(at::Device device);

// The calling thread's work on a CUDA device goes to a stream that nobody else uses while this
// lives, so that threads overlap. Nothing on the CPU.
class StreamScope {
 public:
  explicit StreamScope(at::Device device);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;  // nullptr on the CPU
};

// Keeps a thread from running far ahead of a CUDA device. The driver's queues are finite: a thread
// that fills them makes the calls of every other thread wait for its own backlog. Nothing on the
// CPU.
class LaunchWindow {
 public:
  explicit LaunchWindow(at::Device device);
  ~LaunchWindow();
  LaunchWindow(const LaunchWindow&) = delete;
  LaunchWindow& operator=(const LaunchWindow&) = delete;

  // Call after queueing a piece of work on the current stream, a graph say. Waits, asleep, until
  // the piece kDepth before it is done.
  void Advance();

  // Pieces under way at most: enough to keep the device busy while a thread wakes up; kernels of as
  // many training steps fit into a queue of the driver, which holds about a thousand.
  static constexpr std::size_t kDepth = 8;

 private:
  struct Marks;
  std::unique_ptr<Marks> marks_;  // nullptr on the CPU
};

// A named range of the calling thread for profilers (NVTX), while it lives. Costs nanoseconds when
// none is attached, so ranges are always there. Nothing without CUDA.
class ProfileRange {
 public:
  explicit ProfileRange(const char* name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
};

template <typename Work>
auto InRange(const char* name, const Work& work) {
  const ProfileRange range(name);
  return work();
}

// The stream that the framework uses; nullptr on the CPU.
CUstream_st* CurrentStream(at::Device device);

// Throws std::runtime_error that names the work, for a CUDA error code other than 0.
void CheckCuda(int error, const char* work);

// Milliseconds that `work` takes: device events on CUDA, the steady clock on the CPU.
double TimeMilliseconds(at::Device device, const std::function<void()>& work);
std::string_view ClockName(at::Device device);

// Fills the last-level cache with other data between samples on CUDA; nothing on the CPU.
void FlushCache(at::Device device);

// {"name": ..., "compute_capability": ..., "memory_bytes": ...}, or null on the CPU.
Value DescribeGpu(at::Device device);
// Where a CUDA device is, "0000:17:00.0": its name outside CUDA; "" for the CPU. Makes no context.
std::string PciBusId(at::Device device);
// The CUDA that the driver offers, the runtime, and cuDNN where there is one; null without CUDA.
Value CudaVersions();

bool BuiltWithCuda();

namespace internal {  // defined in device_cuda.cc or device_stub.cc
// Bytes of tensors, as the framework's allocator counts them.
struct DeviceMemory {
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;  // since the last reset
};
int CudaDeviceCount();
void CudaSynchronize(int index);
bool CudaWorks(int index);
CUstream_st* CudaStream(int index);
void CudaResetPeakMemory(int index);
DeviceMemory CudaMemory(int index);
double CudaTimeMilliseconds(int index, const std::function<void()>& work);
void CudaFlushCache(int index);
Value CudaDescribe(int index);
std::string CudaPciBusId(int index);
}  // namespace internal

}  // namespace mixerbench::harness
