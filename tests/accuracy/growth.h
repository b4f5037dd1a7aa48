// How the operations of a pass grow with the sequence: about constant where tokens are taken
// together, one chunk's worth after the other, or token by token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/accuracy/subject.h"

namespace mixerbench::accuracy {

class Growth {
 public:
  Growth() = default;  // unknown: no operations

  // From two short runs on the CPU of what `make` makes for a length.
  explicit Growth(const std::function<std::unique_ptr<Subject>(std::int64_t seq_len)>& make);

  double Operations(std::int64_t seq_len) const;

  // "1e+05 operations, more than 3e+04: 100 a token".
  std::string Refusal(std::int64_t seq_len, std::int64_t max_operations) const;

 private:
  double constant_ = 0;
  double per_token_ = 0;
};

// What a case costs, in launches: an operation on 2^20 elements takes about twice as long as one on
// few.
inline double Cost(double operations, double num_elements) {
  constexpr double kElementsPerLaunch = 1 << 20;
  return (1 + operations) * (1 + num_elements / kElementsPerLaunch);
}

}  // namespace mixerbench::accuracy
