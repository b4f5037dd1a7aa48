// The energy of a GPU, shared out among the cells that run on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>

namespace mixerbench::harness {

// While n cells run, each is charged an nth of what the GPU uses, so that the sum over cells is
// what it used while any ran.
class EnergyShares {
 public:
  // counter: joules so far, of the whole GPU; nothing where they are not known.
  explicit EnergyShares(std::function<std::optional<double>()> counter);
  EnergyShares(const EnergyShares&) = delete;
  EnergyShares& operator=(const EnergyShares&) = delete;

  // One cell, from its making to its end.
  class Share {
   public:
    explicit Share(EnergyShares& all);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Charged so far; nothing once the counter was not to be read.
    std::optional<double> Joules();

   private:
    friend class EnergyShares;
    EnergyShares& all_;
    std::optional<double> joules_ = 0;
  };

 private:
  // Charges those that run with what was used since the last call. Under mutex_.
  void Settle();

  std::function<std::optional<double>()> counter_;
  std::mutex mutex_;
  std::set<Share*> running_;
  std::optional<double> settled_;  // the counter at the last call
};

}  // namespace mixerbench::harness
