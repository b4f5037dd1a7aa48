// The sampler of selective copying; see selective_copying.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::selective_copying {

struct SelectiveCopyingSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t num_tokens = 0;  // data tokens, and markers
  std::uint32_t prefix_len = 0;
  bool is_variable = true;
  bool is_reversed = false;

  MB_HOST_DEVICE std::int64_t seq_len() const { return std::int64_t{prefix_len} + num_tokens; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return 2 * std::int64_t{num_tokens} + PickTogetherScratchWords(prefix_len, num_tokens);
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kPositionStream = 0, kTokenStream = 1;
    std::uint32_t* const drawn = scratch;                 // [num_tokens]
    std::uint32_t* const positions = drawn + num_tokens;  // [num_tokens], ascending
    const auto marker = static_cast<std::int32_t>(vocab_size - 1);

    if (is_variable) {
      lanes.Split([&](const auto& team) {
        PickTogether(team, sample, kPositionStream, prefix_len, num_tokens, drawn,
                     positions + num_tokens);
      });
      lanes.Sync();
      SortDistinct(lanes, drawn, num_tokens, positions);
    }
    lanes.ForEach(seq_len(), [&](std::int64_t t) { inputs[t] = t < prefix_len ? 0 : marker; });
    lanes.Sync();
    const auto token = [&](std::uint32_t m, std::uint32_t word) {
      return static_cast<std::int32_t>(
          1 + UniformFromWord(sample, kTokenStream, m, word, vocab_size - 2));
    };
    ForEachWord(lanes, sample, kTokenStream, 0, num_tokens,
                [&](std::uint32_t m, std::uint32_t word) {
                  inputs[is_variable ? positions[m] : m] = token(m, word);
                });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    ForEachWord(lanes, sample, kTokenStream, 0, num_tokens,
                [&](std::uint32_t m, std::uint32_t word) {
                  const std::uint32_t target = is_reversed ? num_tokens - 1 - m : m;
                  if (mode == LabelMode::kTargetOnly && target + 1 != num_tokens) return;
                  labels[std::int64_t{prefix_len} + target] = token(m, word);
                });
  }
};

}  // namespace mixerbench::tasks::selective_copying
