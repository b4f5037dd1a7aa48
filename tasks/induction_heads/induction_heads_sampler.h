// The sampler of induction heads; see induction_heads.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::induction_heads {

struct InductionHeadsSampler {
  std::uint32_t vocab_size = 0;  // ordinary tokens; the special one has this id
  std::uint32_t input_seq_len = 0;
  std::uint32_t prefix_len = 0;  // positions at which the special token may stand first

  MB_HOST_DEVICE std::int64_t scratch_words() const { return 0; }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels, std::uint32_t*) const {
    constexpr std::uint32_t kPositionStream = 0, kMemoryStream = 1, kFillerStream = 2;
    const auto special = static_cast<std::int32_t>(vocab_size);
    const std::uint32_t last = input_seq_len - 1;
    const std::uint32_t position = Uniform(sample, kPositionStream, 0, prefix_len);
    const auto memory = static_cast<std::int32_t>(Uniform(sample, kMemoryStream, 0, vocab_size));
    ForEachWord(
        lanes, sample, kFillerStream, 0, input_seq_len, [&](std::uint32_t t, std::uint32_t word) {
          const std::uint32_t filler = UniformFromWord(sample, kFillerStream, t, word, vocab_size);
          inputs[t] = t == position || t == last ? special
                      : t == position + 1        ? memory
                                                 : static_cast<std::int32_t>(filler);
        });
    WriteBackgroundLabels(lanes, mode, input_seq_len, inputs, labels);
    lanes.Serial([&] { labels[last] = memory; });
  }
};

}  // namespace mixerbench::tasks::induction_heads
