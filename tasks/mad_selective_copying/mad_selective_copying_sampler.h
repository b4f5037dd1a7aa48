// The sampler of MAD selective copying; see mad_selective_copying.md for layout and streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::mad_selective_copying {

struct MadSelectiveCopyingSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  std::uint32_t num_tokens = 0;  // data tokens, and answers
  bool is_selective = true;

  // Data tokens 0..num_data_tokens-1, then the blank, then the copy token.
  MB_HOST_DEVICE std::uint32_t num_data_tokens() const { return vocab_size - 2; }
  // Blanks before the copy token.
  MB_HOST_DEVICE std::uint32_t num_blanks() const { return seq_len - 2 * num_tokens - 1; }
  MB_HOST_DEVICE std::uint32_t first_answer() const { return seq_len - num_tokens; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return std::int64_t{num_tokens} + num_blanks();
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kDataStream = 0;
    std::uint32_t* const positions = scratch;            // [num_tokens], of the data tokens
    std::uint32_t* const gaps = positions + num_tokens;  // [num_blanks]
    const auto blank = static_cast<std::int32_t>(vocab_size - 2);
    const auto copy = static_cast<std::int32_t>(vocab_size - 1);

    lanes.ForEach(seq_len,
                  [&](std::int64_t t) { inputs[t] = t + 1 == first_answer() ? copy : blank; });
    if (is_selective) PlaceBetweenBlanks(lanes, sample, gaps, positions);
    lanes.Sync();
    const auto token = [&](std::uint32_t m, std::uint32_t word) {
      return static_cast<std::int32_t>(
          UniformFromWord(sample, kDataStream, m, word, num_data_tokens()));
    };
    ForEachWord(lanes, sample, kDataStream, 0, num_tokens,
                [&](std::uint32_t m, std::uint32_t word) {
                  inputs[is_selective ? positions[m] : m] = token(m, word);
                });
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    ForEachWord(lanes, sample, kDataStream, 0, num_tokens,
                [&](std::uint32_t m, std::uint32_t word) {
                  if (mode == LabelMode::kTargetOnly && m + 1 != num_tokens) return;
                  labels[first_answer() + m] = token(m, word);
                });
  }

 private:
  // Writes the position of every data token: each blank stands in one of the gaps before data token
  // 0, 1, ..., so data token m is preceded by m data tokens and the blanks of gaps 0..m.
  template <typename Lanes>
  MB_HOST_DEVICE void PlaceBetweenBlanks(const Lanes& lanes, const SampleStream& sample,
                                         std::uint32_t* gaps, std::uint32_t* positions) const {
    constexpr std::uint32_t kGapStream = 1;
    if constexpr (Lanes::kIsParallel) {
      ForEachWord(lanes, sample, kGapStream, 0, num_blanks(),
                  [&](std::uint32_t b, std::uint32_t word) {
                    gaps[b] = UniformFromWord(sample, kGapStream, b, word, num_tokens);
                  });
      lanes.Sync();
      lanes.ForEach(num_tokens, [&](std::int64_t m) {
        const auto gap = static_cast<std::uint32_t>(m);
        positions[m] = gap;
        for (std::uint32_t b = 0; b < num_blanks(); ++b) positions[m] += gaps[b] <= gap;
      });
    } else {
      for (std::uint32_t m = 0; m < num_tokens; ++m) positions[m] = 0;
      ForEachWord(lanes, sample, kGapStream, 0, num_blanks(),
                  [&](std::uint32_t b, std::uint32_t word) {
                    ++positions[UniformFromWord(sample, kGapStream, b, word, num_tokens)];
                  });
      for (std::uint32_t m = 1; m < num_tokens; ++m) positions[m] += positions[m - 1] + 1;
    }
  }
};

}  // namespace mixerbench::tasks::mad_selective_copying
