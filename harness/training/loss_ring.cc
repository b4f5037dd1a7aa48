// SPDX-License-Identifier: Apache-2.0
#include "harness/training/loss_ring.h"

#include <utility>

#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/check.h"

namespace mixerbench::harness {

LossRing::LossRing(at::Device device, std::int64_t interval, std::int64_t num_losses)
    : device_(device),
      interval_(interval),
      device_slots_(at::zeros({2 * interval, num_losses},
                              at::TensorOptions().dtype(at::kFloat).device(device))),
      host_slots_(at::zeros({2 * interval, num_losses}, at::TensorOptions().dtype(at::kFloat))) {
  if (device.is_cuda()) host_slots_ = host_slots_.pin_memory();
}

void LossRing::Restart(std::int64_t step) {
  posted_.clear();
  next_ = step;
}

void LossRing::Post(std::int64_t end) {
  if (end == next_) return;
  Require(end > next_ && (end - 1) / interval_ == next_ / interval_,
          "losses are posted once an interval at least");
  const auto slot = static_cast<std::int64_t>(SlotOf(next_));
  const std::int64_t count = end - next_;
  host_slots_.narrow(0, slot, count)
      .copy_(device_slots_.narrow(0, slot, count), /*non_blocking=*/true);
  Posted posted{next_, end, std::nullopt};
  if (device_.is_cuda()) {
    posted.arrived.emplace(device_.type());
    posted.arrived->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  posted_.push_back(std::move(posted));
  next_ = end;
}

std::optional<LossRing::Losses> LossRing::Take(bool leave_newest) {
  if (posted_.size() < (leave_newest ? 2 : 1)) return std::nullopt;
  const Posted posted = std::move(posted_.front());
  posted_.pop_front();
  if (posted.arrived) posted.arrived->synchronize();
  const float* slots = host_slots_.const_data_ptr<float>();
  Losses losses{posted.first, {}};
  for (std::int64_t step = posted.first; step < posted.end; ++step) {
    const float* slot = slots + static_cast<std::int64_t>(SlotOf(step)) * num_losses();
    losses.values.emplace_back(slot, slot + num_losses());
  }
  return losses;
}

}  // namespace mixerbench::harness
