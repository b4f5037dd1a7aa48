// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "harness/graph.h"

namespace mixerbench::harness::internal {
namespace {

// Cells are threads of one process. While one of them captures, no other may capture or ask the
// allocator to give memory back.
std::mutex& CaptureMutex() {
  static std::mutex mutex;
  return mutex;
}

// The pool itself lives as long as a graph that was captured into it.
struct CudaGraphMemory final : GraphMemory {
  const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
};

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(std::shared_ptr<GraphMemory> memory, const std::vector<at::Generator>& generators,
            const std::function<void()>& work)
      : memory_(std::move(memory)) {
    const std::lock_guard lock(CaptureMutex());
    const auto pool = static_cast<const CudaGraphMemory&>(*memory_).pool;
    const auto device = c10::cuda::current_device();
    for (const at::Generator& generator : generators) graph_.register_generator_state(generator);
    // What other threads do meanwhile is no part of the capture and not forbidden by it.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      Abandon(device, pool);
      throw;
    }
    try {
      graph_.capture_end();
    } catch (...) {
      StopAllocatingFrom(device, pool);
      throw;
    }
  }

  void Replay() override { graph_.replay(); }

 private:
  void Abandon(c10::DeviceIndex device, const at::cuda::MempoolId_t& pool) {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      StopAllocatingFrom(device, pool);  // the end of a broken capture fails before it does this
    }
  }

  static void StopAllocatingFrom(c10::DeviceIndex device, const at::cuda::MempoolId_t& pool) {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
    cudaGetLastError();  // the failed capture was reported; the next call starts clean
  }

  std::shared_ptr<GraphMemory> memory_;  // outlives the graph
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::shared_ptr<GraphMemory> MakeGraphMemory(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  return std::make_shared<CudaGraphMemory>();
}

void ReleaseCachedMemory() {
  const std::lock_guard lock(CaptureMutex());
  c10::cuda::CUDACachingAllocator::emptyCache();
}

std::unique_ptr<CapturedGraph> CaptureGraph(const std::shared_ptr<GraphMemory>& memory,
                                            const std::vector<at::Generator>& generators,
                                            const std::function<void()>& work) {
  return std::make_unique<CudaGraph>(memory, generators, work);
}

}  // namespace mixerbench::harness::internal
