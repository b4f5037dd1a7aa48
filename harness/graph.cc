// SPDX-License-Identifier: Apache-2.0
#include "harness/graph.h"

#include <chrono>

#include <c10/util/Exception.h>

#include "harness/device.h"

namespace mixerbench::harness {

GraphContext::GraphContext(at::Device device, bool use_graphs)
    : device_(device), use_graphs_(use_graphs && device.is_cuda()) {}

std::unique_ptr<CapturedGraph> GraphContext::Capture(const std::function<void()>& work) {
  const ProfileRange range("capture");
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<CapturedGraph> graph;
  try {
    if (!memory_) memory_ = internal::MakeGraphMemory(device_);
    try {
      graph = internal::CaptureGraph(memory_, work);
    } catch (const c10::OutOfMemoryError&) {
      internal::ReleaseCachedMemory();
      graph = internal::CaptureGraph(memory_, work);
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    use_graphs_ = false;
    failure_ = error.what();
    failure_ = failure_.substr(0, failure_.find('\n'));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  capture_s_ += elapsed.count();
  return graph;
}

void RepeatedWork::Run() {
  if (has_run_ && !graph_ && context_->use_graphs()) graph_ = context_->Capture(work_);
  if (graph_) {
    graph_->Replay();
  } else {
    work_();
  }
  has_run_ = true;
}

}  // namespace mixerbench::harness
