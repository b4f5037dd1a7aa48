// SPDX-License-Identifier: Apache-2.0
#include "harness/device/energy_shares.h"

#include <utility>

namespace mixerbench::harness {

EnergyShares::EnergyShares(std::function<std::optional<double>()> counter)
    : counter_(std::move(counter)) {}

void EnergyShares::Settle() {
  const std::optional<double> now = counter_();
  for (Share* share : running_) {
    if (!now || !settled_) {
      share->joules_.reset();
    } else if (share->joules_) {
      *share->joules_ += (*now - *settled_) / static_cast<double>(running_.size());
    }
  }
  settled_ = now;
}

EnergyShares::Share::Share(EnergyShares& all) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  all_.Settle();
  if (!all_.settled_) joules_.reset();
  all_.running_.insert(this);
}

EnergyShares::Share::~Share() {
  const std::lock_guard lock(all_.mutex_);
  all_.Settle();
  all_.running_.erase(this);
}

std::optional<double> EnergyShares::Share::Joules() {
  const std::lock_guard lock(all_.mutex_);
  all_.Settle();
  return joules_;
}

}  // namespace mixerbench::harness
