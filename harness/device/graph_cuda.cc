// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/graph_nodes.h"

namespace mixerbench::harness::internal {
namespace {

// Cells are threads of one process. While one of them captures, no other may capture or ask the
// allocator to give memory back.
std::mutex& CaptureMutex() {
  static std::mutex mutex;
  return mutex;
}

// A pool lives as long as a graph that was captured into it, and its handle means nothing after
// that: graphs which come when all others are gone need a new one.
class CudaGraphMemory final : public GraphMemory {
 public:
  // While this lives, later graphs share the pool.
  class Use {
   public:
    explicit Use(CudaGraphMemory& memory) : memory_(memory) {
      if (memory_.num_uses_++ == 0) memory_.pool_ = at::cuda::graph_pool_handle();
    }
    ~Use() { --memory_.num_uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const at::cuda::MempoolId_t& pool() const { return memory_.pool_; }

   private:
    CudaGraphMemory& memory_;
  };

 private:
  at::cuda::MempoolId_t pool_ = {0, 0};
  int num_uses_ = 0;
};

// libtorch lists the graphs that exist, without a lock.
struct DeleteGraph {
  void operator()(at::cuda::CUDAGraph* graph) const {
    const std::lock_guard lock(CaptureMutex());
    delete graph;
  }
};

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(std::shared_ptr<GraphMemory> memory, const at::Generator& generator,
            const std::function<std::shared_ptr<void>()>& hold, const std::function<void()>& work)
      : memory_(std::move(memory)), use_(static_cast<CudaGraphMemory&>(*memory_)) {
    const std::lock_guard lock(CaptureMutex());
    const auto pool = use_.pool();
    const at::Device device(at::kCUDA, c10::cuda::current_device());
    // What is already wrong is told here: libtorch cannot tell of it below.
    cudaStreamCaptureStatus status{};
    CheckCuda(cudaStreamIsCapturing(CurrentStream(device), &status), "beginning a graph");
    {
      const std::shared_ptr<void> held = hold();
      if (generator.defined()) graph_->register_generator_state(generator);
      // What other threads do meanwhile is no part of the capture and not forbidden by it.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    }
    try {
      work();
    } catch (...) {
      Abandon(device, pool, hold);
      throw;
    }
    try {
      graph_->capture_end();
    } catch (...) {
      CleanUp(device, pool, hold);
      throw;
    }
    int num_replaced = 0;
    CheckCuda(ReplaceSmallMemsets(graph_->raw_cuda_graph(), num_replaced), "editing a graph");
    graph_->instantiate();
  }

  void Replay() override { graph_->replay(); }

 private:
  void Abandon(at::Device device, const at::cuda::MempoolId_t& pool,
               const std::function<std::shared_ptr<void>()>& hold) {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {
      CleanUp(device, pool, hold);
    }
  }

  // What the end of a broken capture does not do, since it fails before.
  static void CleanUp(at::Device device, const at::cuda::MempoolId_t& pool,
                      const std::function<std::shared_ptr<void>()>& hold) {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device.index(), pool);
    try {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
    } catch (const c10::Error&) {  // it was ended
    }
    cudaGetLastError();  // the failed capture was reported; the next call starts clean
    // Torch's own generator captures for good: another state, which does not, takes its place.
    const std::shared_ptr<void> held = hold();
    at::Generator torchs = at::globalContext().defaultGenerator(device);
    torchs.graphsafe_set_state(torchs.clone());
  }

  // Both outlive the graph.
  std::shared_ptr<GraphMemory> memory_;
  CudaGraphMemory::Use use_;
  // Kept so that it can be edited.
  std::unique_ptr<at::cuda::CUDAGraph, DeleteGraph> graph_{
      new at::cuda::CUDAGraph(/*keep_graph=*/true)};
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
                                            const at::Generator& generator,
                                            const std::function<std::shared_ptr<void>()>& hold,
                                            const std::function<void()>& work) {
  return std::make_unique<CudaGraph>(memory, generator, hold, work);
}

}  // namespace mixerbench::harness::internal
