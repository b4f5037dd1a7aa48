// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "harness/graph.h"

namespace mixerbench::harness::internal {
namespace {

struct CudaGraphMemory final : GraphMemory {
  at::cuda::MemPool pool;
};

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(std::shared_ptr<GraphMemory> memory, const std::vector<at::Generator>& generators,
            const std::function<void()>& work)
      : memory_(std::move(memory)) {
    auto& pool = static_cast<CudaGraphMemory&>(*memory_).pool;
    // Blocks that the first run left in the ordinary cache cannot be given back during a capture.
    c10::cuda::CUDACachingAllocator::emptyCache();
    for (const at::Generator& generator : generators) graph_.register_generator_state(generator);
    graph_.capture_begin(pool.id());
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

std::unique_ptr<CapturedGraph> CaptureGraph(const std::shared_ptr<GraphMemory>& memory,
                                            const std::vector<at::Generator>& generators,
                                            const std::function<void()>& work) {
  return std::make_unique<CudaGraph>(memory, generators, work);
}

}  // namespace mixerbench::harness::internal
