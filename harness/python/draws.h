// Where the random numbers of modules come from on a GPU. They draw from torch's own generator of
// it, which all threads of the process share and whose seed differs between processes: while a
// module is called, another generator takes its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace mixerbench::harness {

// While what it returns lives, the modules that this thread calls draw from `generator`: a graph
// that is captured meanwhile must know it.
std::shared_ptr<void> DrawFrom(const at::Generator& generator);

// While what it returns lives, nobody's generator is in the place of torch's own ones, nor gets
// there: the graph of a capture that begins registers what is there.
std::shared_ptr<void> HoldTorchsGenerators();

// Around a call: what it draws from torch's own generator of `device` comes from that of this
// thread's DrawFrom or, without one, from one of `seed`. One at a time in the process. Nothing on
// the CPU.
class DrawsOfCall {
 public:
  DrawsOfCall(at::Device device, std::uint64_t seed);
  ~DrawsOfCall();
  DrawsOfCall(const DrawsOfCall&) = delete;
  DrawsOfCall& operator=(const DrawsOfCall&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  at::Generator torchs_;  // undefined on the CPU
  at::Generator earlier_;
};

}  // namespace mixerbench::harness
