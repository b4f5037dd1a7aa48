// Chains of assignments, and how they are read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/sampling.h"

namespace mixerbench::tasks::vt {

// What is drawn for a question and on which streams.
struct ChainDraw {
  std::uint32_t name_stream = 0;
  std::uint32_t value_stream = 0;
  std::uint32_t letters = 5;  // of a name
};

struct Chain {
  std::string value;               // five digits, of the first variable
  std::vector<std::string> names;  // hops + 1

  // "VAR ABCDE = 12345" and "VAR FGHIJ = VAR ABCDE"
  std::vector<std::string> Statements() const;
};

// Chains whose names and values are all different.
std::vector<Chain> DrawChains(const SampleStream& sample, const ChainDraw& draw,
                              std::int64_t num_chains, std::int64_t num_hops);

// The variables that have `value` by the statements of `text`, in their order.
std::vector<std::string> FindVariables(std::string_view text, std::string_view value);

}  // namespace mixerbench::tasks::vt
