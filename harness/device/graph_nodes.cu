// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime.h>

#include "harness/device/graph_nodes.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxElements = 1024;  // one block

// A thread owns an element. `element_size` is 1, 2 or 4 bytes, whose value is the low end of
// `value`, as in a memset node.
__global__ void FillKernel(void* target, unsigned value, unsigned element_size) {
  switch (element_size) {
    case 1:
      static_cast<std::uint8_t*>(target)[threadIdx.x] = static_cast<std::uint8_t>(value);
      break;
    case 2:
      static_cast<std::uint16_t*>(target)[threadIdx.x] = static_cast<std::uint16_t>(value);
      break;
    default:
      static_cast<std::uint32_t*>(target)[threadIdx.x] = value;
  }
}

// The edges on one side of a node.
struct Edges {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> data;

  // `get` is cudaGraphNodeGetDependencies or cudaGraphNodeGetDependentNodes.
  template <typename Get>
  cudaError_t Load(Get get, cudaGraphNode_t node) {
    std::size_t count = 0;
    const cudaError_t status = get(node, nullptr, nullptr, &count);
    if (status != cudaSuccess || count == 0) return status;
    nodes.resize(count);
    data.resize(count);
    return get(node, nodes.data(), data.data(), &count);
  }
};

cudaError_t Replace(cudaGraph_t graph, cudaGraphNode_t node, const cudaMemsetParams& memset) {
  Edges before;
  Edges after;
  cudaError_t status = before.Load(cudaGraphNodeGetDependencies, node);
  if (status != cudaSuccess) return status;
  status = after.Load(cudaGraphNodeGetDependentNodes, node);
  if (status != cudaSuccess) return status;
  void* target = memset.dst;
  unsigned value = memset.value;
  unsigned element_size = memset.elementSize;
  void* arguments[] = {&target, &value, &element_size};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(FillKernel);
  params.gridDim = dim3(1);
  params.blockDim = dim3(static_cast<unsigned>(memset.width));
  params.kernelParams = arguments;
  cudaGraphNode_t fill = nullptr;
  status = cudaGraphAddKernelNode(&fill, graph, nullptr, 0, &params);
  if (status != cudaSuccess) return status;
  const std::vector<cudaGraphNode_t> from(after.nodes.size(), fill);
  const std::vector<cudaGraphNode_t> to(before.nodes.size(), fill);
  status = cudaGraphAddDependencies(graph, before.nodes.data(), to.data(), before.data.data(),
                                    to.size());
  if (status != cudaSuccess) return status;
  status = cudaGraphAddDependencies(graph, from.data(), after.nodes.data(), after.data.data(),
                                    from.size());
  if (status != cudaSuccess) return status;
  return cudaGraphDestroyNode(node);
}

}  // namespace

int ReplaceSmallMemsets(CUgraph_st* graph, int& num_replaced) {
  num_replaced = 0;
  std::size_t count = 0;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (status == cudaSuccess && count > 0) status = cudaGraphGetNodes(graph, nodes.data(), &count);
  for (std::size_t i = 0; i < count && status == cudaSuccess; ++i) {
    cudaGraphNodeType type{};
    status = cudaGraphNodeGetType(nodes[i], &type);
    if (status != cudaSuccess || type != cudaGraphNodeTypeMemset) continue;
    cudaMemsetParams memset{};
    status = cudaGraphMemsetNodeGetParams(nodes[i], &memset);
    const bool is_small = memset.height == 1 && memset.width > 0 && memset.width <= kMaxElements;
    if (status != cudaSuccess || !is_small) continue;
    status = Replace(graph, nodes[i], memset);
    ++num_replaced;
  }
  return status;
}

}  // namespace mixerbench::harness
