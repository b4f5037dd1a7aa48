// SPDX-License-Identifier: Apache-2.0
#include "harness/device/energy_shares.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("energy: while several run, each is charged its part") {
  std::optional<double> counter = 1000;
  EnergyShares shares([&] { return counter; });
  counter = 1100;  // nobody runs
  EnergyShares::Share first(shares);
  counter = 1110;
  CHECK(first.Joules() == 10);
  {
    EnergyShares::Share second(shares);
    counter = 1130;
    CHECK(second.Joules() == 10);
    CHECK(first.Joules() == 20);
    counter = 1150;
  }
  counter = 1157;
  CHECK(first.Joules() == 37);
}

TEST_CASE("energy: a gap in the counter leaves nothing to tell, but to those who begin later") {
  std::optional<double> counter;
  EnergyShares shares([&] { return counter; });
  EnergyShares::Share early(shares);
  CHECK_FALSE(early.Joules());
  counter = 5;
  CHECK_FALSE(early.Joules());
  EnergyShares::Share late(shares);
  counter = 9;
  CHECK(late.Joules() == 2);
  CHECK_FALSE(early.Joules());
  counter.reset();
  CHECK_FALSE(late.Joules());
  counter = 20;
  CHECK_FALSE(late.Joules());
}

}  // namespace
}  // namespace mixerbench::harness
