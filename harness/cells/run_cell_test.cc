// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/run_cell.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("cell: what attempts spent is added up") {
  reports::CellResult result;
  AddSpent(2, 100, result);
  CHECK(result.wall_s == 2);
  CHECK(result.energy_j == 100);
  AddSpent(3, 50.5, result);
  CHECK(result.wall_s == 5);
  CHECK(result.energy_j == 150.5);
}

TEST_CASE("cell: energy is known when that of every attempt is") {
  reports::CellResult first_unknown;
  AddSpent(2, std::nullopt, first_unknown);
  AddSpent(3, 50, first_unknown);
  CHECK(first_unknown.wall_s == 5);
  CHECK_FALSE(first_unknown.energy_j);
  reports::CellResult last_unknown;
  AddSpent(2, 100, last_unknown);
  AddSpent(3, std::nullopt, last_unknown);
  CHECK_FALSE(last_unknown.energy_j);
}

}  // namespace
}  // namespace mixerbench::harness
