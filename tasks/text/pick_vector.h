// Pick into a vector of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/sampling.h"

namespace mixerbench::tasks {

inline std::vector<std::uint32_t> PickVector(const SampleStream& sample, std::uint32_t stream,
                                             std::uint32_t n, std::uint32_t k,
                                             std::uint32_t base = 0) {
  std::vector<std::uint32_t> picked(k);
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(PickScratchWords(n, k)));
  Pick(sample, stream, n, k, base, picked.data(), scratch.data());
  return picked;
}

}  // namespace mixerbench::tasks
