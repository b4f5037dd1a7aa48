// Losses of queued steps, several a step, kept on the device and read by the host without waiting
// for the newest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace mixerbench::harness {

// Steps are numbered from 0 over the run. The host posts every `interval` steps at least, so the
// ring holds two intervals: one being written, one being read.
class LossRing {
 public:
  LossRing(at::Device device, std::int64_t interval, std::int64_t num_losses = 1);

  std::int64_t interval() const { return interval_; }
  std::int64_t num_losses() const { return device_slots_.size(1); }
  // Where a step leaves its losses: `num_losses` floats a slot.
  float* slots() const { return device_slots_.data_ptr<float>(); }
  std::uint64_t SlotOf(std::int64_t step) const {
    return static_cast<std::uint64_t>(step % (2 * interval_));
  }

  // Nothing is queued, and the next step is `step`.
  void Restart(std::int64_t step);

  // Queues the way to the host of all steps before `end` that are not posted yet. A multiple of
  // the interval may not lie between them.
  void Post(std::int64_t end);

  struct Losses {
    std::int64_t first = 0;                  // step of values[0]
    std::vector<std::vector<float>> values;  // of each step
  };
  // The oldest posted losses; waits until they are there. Nothing when none are posted, or, for
  // `leave_newest`, when only the last Post is left.
  std::optional<Losses> Take(bool leave_newest);

 private:
  struct Posted {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::optional<c10::Event> arrived;  // nullopt on the CPU
  };

  at::Device device_;
  std::int64_t interval_;
  at::Tensor device_slots_;  // [2 * interval, num_losses] fp32
  at::Tensor host_slots_;    // the same, pinned
  std::int64_t next_ = 0;    // first step that is not posted
  std::deque<Posted> posted_;
};

}  // namespace mixerbench::harness
