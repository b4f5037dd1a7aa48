// SPDX-License-Identifier: Apache-2.0
#include "harness/run/exit_order.h"

#include <array>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("exit codes: of two the first of the documented order is told, whichever came last") {
  constexpr std::array kDocumented = {70, 2, 3, 8, 7, 75, 9, 6, 1, 4, 5, 0};  // docs/CLI.md
  for (std::size_t i = 0; i < kDocumented.size(); ++i) {
    for (std::size_t j = i; j < kDocumented.size(); ++j) {
      const auto first = static_cast<ExitCode>(kDocumented[i]);
      const auto other = static_cast<ExitCode>(kDocumented[j]);
      CHECK(First(first, other) == first);
      CHECK(First(other, first) == first);
    }
  }
}

}  // namespace
}  // namespace mixerbench::harness
