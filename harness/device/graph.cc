// SPDX-License-Identifier: Apache-2.0
#include "harness/device/graph.h"

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "harness/device/device.h"

namespace mixerbench::harness {
namespace {

// Shared by those that repeat work while they queue it, on any device; one that runs for the first
// time has it alone, and nobody comes between who asked later: else many that repeat, with never a
// moment without one, would keep it waiting.
class Queue {
 public:
  void lock() {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

Queue& TheQueue() {
  static Queue queue;
  return queue;
}

GraphHolds& TheHolds() {
  static GraphHolds holds;
  return holds;
}

std::shared_ptr<void> HoldDraws(const at::Generator& generator) {
  return generator.defined() ? TheHolds().work(generator) : nullptr;
}

}  // namespace

void HoldInGraphs(GraphHolds holds) { TheHolds() = std::move(holds); }

FirstRun::FirstRun(at::Device device) : device_(device) {
  if (!device_.is_cuda()) return;
  TheQueue().lock();
  WaitForDevice(device_);
}

FirstRun::~FirstRun() {
  if (!device_.is_cuda()) return;
  WaitForDevice(device_);
  TheQueue().unlock();
}

GraphContext::GraphContext(at::Device device, bool use_graphs, std::string reason)
    : device_(device), use_graphs_(use_graphs && device.is_cuda()) {
  if (!use_graphs && device.is_cuda()) eager_reason_ = std::move(reason);
}

GraphContext GraphContext::WithoutGraphs(std::string reason) const {
  GraphContext context(device_, /*use_graphs=*/false, std::move(reason));
  context.check_plans_ = check_plans_;
  return context;
}

std::unique_ptr<CapturedGraph> GraphContext::Capture(at::Generator& generator,
                                                     const std::function<void()>& work) {
  const ProfileRange range("capture");
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<void> held = TheHolds().capture();
  const auto capture = [&] {
    try {
      return internal::CaptureGraph(memory_, generator, TheHolds().begin, [&] {
        const std::shared_ptr<void> draws = HoldDraws(generator);
        work();
      });
    } catch (...) {
      // For libtorch the one of a broken capture captures for good.
      if (generator.defined()) generator = MakeGenerator(device_, 0);
      throw;
    }
  };
  std::unique_ptr<CapturedGraph> graph;
  try {
    if (!memory_) memory_ = internal::MakeGraphMemory(device_);
    try {
      graph = capture();
    } catch (const c10::OutOfMemoryError&) {
      internal::ReleaseCachedMemory();
      graph = capture();
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    use_graphs_ = false;
    eager_reason_ = error.what();
    eager_reason_ = eager_reason_.substr(0, eager_reason_.find('\n'));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  capture_s_ += elapsed.count();
  return graph;
}

void RepeatedWork::RunAsItIs(std::uint64_t seed) {
  if (!generator_.defined()) {
    work_();
    return;
  }
  generator_.set_current_seed(seed);
  {
    const std::shared_ptr<void> draws = HoldDraws(generator_);
    work_();
  }
  if (generator_.current_seed() != seed) {
    throw Error(ExitCode::kUsage, "a call changes the seed of torch's generator of the GPU");
  }
}

void RepeatedWork::RunFirst(std::uint64_t seed) {
  const FirstRun alone(context_->device());
  const kernels::PlanRecorder recorder;
  if (TheHolds().work && context_->device().is_cuda()) {
    generator_ = MakeGenerator(context_->device(), seed);
  }
  RunAsItIs(seed);
  plans_ = recorder.records();
  has_run_ = true;
  if (context_->check_plans_) context_->check_plans_(plans_);
}

std::string RepeatedWork::eager_reason() const {
  if (graph_ || !context_->device().is_cuda()) return {};
  return context_->use_graphs() ? "ran once" : context_->eager_reason();
}

void RepeatedWork::Run(std::uint64_t seed) {
  if (!has_run_) {
    RunFirst(seed);
    return;
  }
  std::shared_lock lock(TheQueue(), std::defer_lock);
  if (context_->device().is_cuda()) lock.lock();
  if (!graph_ && context_->use_graphs()) graph_ = context_->Capture(generator_, work_);
  if (!graph_) {
    RunAsItIs(seed);
    return;
  }
  if (generator_.defined()) generator_.set_current_seed(seed);
  graph_->Replay();
}

}  // namespace mixerbench::harness
