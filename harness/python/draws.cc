// SPDX-License-Identifier: Apache-2.0
#include "harness/python/draws.h"

#include <utility>

#include <ATen/Context.h>

namespace mixerbench::harness {
namespace {

std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

at::Generator& OfThread() {
  thread_local at::Generator generator;
  return generator;
}

class DrawsOfWork {
 public:
  explicit DrawsOfWork(at::Generator generator)
      : outer_(std::exchange(OfThread(), std::move(generator))) {}
  ~DrawsOfWork() { OfThread() = std::move(outer_); }
  DrawsOfWork(const DrawsOfWork&) = delete;
  DrawsOfWork& operator=(const DrawsOfWork&) = delete;

 private:
  at::Generator outer_;
};

}  // namespace

std::shared_ptr<void> DrawFrom(const at::Generator& generator) {
  return std::make_shared<DrawsOfWork>(generator);
}

std::shared_ptr<void> HoldTorchsGenerators() {
  return std::make_shared<std::unique_lock<std::mutex>>(Mutex());
}

DrawsOfCall::DrawsOfCall(at::Device device, std::uint64_t seed) {
  if (!device.is_cuda()) return;
  lock_ = std::unique_lock(Mutex());
  torchs_ = at::globalContext().defaultGenerator(device);
  earlier_ = torchs_.graphsafe_get_state();
  at::Generator chosen = OfThread();
  if (!chosen.defined()) {
    chosen = earlier_.clone();
    chosen.set_current_seed(seed);
  }
  torchs_.graphsafe_set_state(chosen);
}

DrawsOfCall::~DrawsOfCall() {
  if (torchs_.defined()) torchs_.graphsafe_set_state(earlier_);
}

}  // namespace mixerbench::harness
