// Stands in for graph_cuda.cc in a build without CUDA, where nothing asks for a graph.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "harness/device/graph.h"

namespace mixerbench::harness::internal {

std::shared_ptr<GraphMemory> MakeGraphMemory(at::Device) {
  throw BackendUnavailable("this program was built without CUDA");
}

void ReleaseCachedMemory() {}

std::unique_ptr<CapturedGraph> CaptureGraph(const std::shared_ptr<GraphMemory>&,
                                            const at::Generator&,
                                            const std::function<std::shared_ptr<void>()>&,
                                            const std::function<void()>&) {
  throw BackendUnavailable("this program was built without CUDA");
}

}  // namespace mixerbench::harness::internal
