// The sampler of copying with a lag; see copying_lag.md for the layout and the stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::copying_lag {

struct CopyingLagSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t input_seq_len = 0;
  std::uint32_t lag = 0;

  MB_HOST_DEVICE std::int64_t scratch_words() const { return 0; }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels, std::uint32_t*) const {
    constexpr std::uint32_t kTokenStream = 0;
    ForEachWord(lanes, sample, kTokenStream, 0, input_seq_len,
                [&](std::uint32_t t, std::uint32_t word) {
                  inputs[t] = static_cast<std::int32_t>(
                      1 + UniformFromWord(sample, kTokenStream, t, word, vocab_size - 2));
                });
    lanes.Sync();
    lanes.ForEach(input_seq_len, [&](std::int64_t t) {
      const bool is_label = mode != LabelMode::kTargetOnly || t + 1 == input_seq_len;
      const std::int32_t delayed = t < lag ? 0 : inputs[t - lag];
      labels[t] = is_label ? delayed : kIgnore;
    });
  }
};

}  // namespace mixerbench::tasks::copying_lag
