// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <optional>
#include <utility>

#include <cuda_runtime_api.h>

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>
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

class CudaGraphMemory final : public GraphMemory {
 public:
  ~CudaGraphMemory() override {
    const std::lock_guard lock(CaptureMutex());
    pool_.reset();
  }
  at::cuda::MemPool& pool() { return *pool_; }

 private:
  std::optional<at::cuda::MemPool> pool_{std::in_place};
};

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(std::shared_ptr<GraphMemory> memory, const std::vector<at::Generator>& generators,
            const std::function<void()>& work)
      : memory_(std::move(memory)) {
    const std::lock_guard lock(CaptureMutex());
    auto& pool = static_cast<CudaGraphMemory&>(*memory_).pool();
    for (const at::Generator& generator : generators) graph_.register_generator_state(generator);
    // What other threads do meanwhile is no part of the capture and not forbidden by it.
    graph_.capture_begin(pool.id(), cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      Abandon(pool);
      throw;
    }
    try {
      graph_.capture_end();
    } catch (...) {
      StopAllocatingFrom(pool);
      throw;
    }
  }

  void Replay() override { graph_.replay(); }

 private:
  void Abandon(at::cuda::MemPool& pool) {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      StopAllocatingFrom(pool);  // the end of a broken capture fails before it does this
    }
  }

  static void StopAllocatingFrom(at::cuda::MemPool& pool) {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(pool.device(), pool.id());
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
