// Which sizes of which mixers and cores are held against fp64: everything in the registries, at few
// sizes that together try every combination of any two factors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "base/value.h"
#include "models/mixer.h"
#include "tests/accuracy/subject.h"

namespace mixerbench::accuracy {

// Levels of the factors.
struct Sizes {
  std::vector<std::int64_t> d_model;
  std::vector<std::int64_t> num_heads;               // of mixers that have such an option
  std::vector<std::int64_t> head_k_dim, head_v_dim;  // of cores
  std::vector<std::int64_t> seq_len;
  // Multiprocessors that heads compete for, which decides what plan runs: see BatchSize.
  std::vector<std::int64_t> num_rivals;
  // Not tested: smaller or larger heads of mixers, more elements of [B,T,D] or [B,T,H,K].
  std::int64_t min_head_dim = 16;
  std::int64_t max_head_dim = 256;
  std::int64_t max_elements = 0;
  // Not tested, but listed: calls whose plain pass takes more operations (passes.h); 0: any.
  std::int64_t max_operations = 0;
};

// 3, or the fewest sequences of `num_heads` heads that are more than `num_rivals` heads.
constexpr std::int64_t BatchSize(std::int64_t num_rivals, std::int64_t num_heads) {
  return num_rivals == 0 ? 3 : num_rivals / num_heads + 1;
}

struct Case {
  std::string unit;  // "mixer gla"
  Object factors;    // what the table shows of it
  std::function<std::unique_ptr<Subject>()> make = nullptr;
  // Why Sizes::max_operations leaves this length out, whatever the other factors; nothing to make.
  std::string left_out = {};
  double operations = 0;  // of a plain pass, by extrapolation; 0 without a bound
};

// Of one mixer. Defaults and every one of MixerEntry::test_configs, with every number of heads that
// they allow. Pairs of all factors; triples of num_heads, d_model and number of sequences.
std::vector<Case> MixerCases(const models::MixerRegistry& mixers, const std::string& name,
                             const Sizes& sizes, at::Device device);

// Of one core. Pairs of all factors; triples of the sizes of heads and the number of sequences.
std::vector<Case> CoreCases(const kernels::CoreRegistry& cores, const std::string& name,
                            const Sizes& sizes, at::Device device);

}  // namespace mixerbench::accuracy
