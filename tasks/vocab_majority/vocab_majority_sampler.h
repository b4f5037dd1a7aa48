// The sampler of vocabulary majority; see vocab_majority.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::vocab_majority {

inline constexpr std::int32_t kEnd = 0;

struct VocabMajoritySampler {
  std::uint32_t vocab_size = 0;  // tokens 1..vocab_size-1
  std::uint32_t input_seq_len = 0;

  MB_HOST_DEVICE std::uint32_t num_tokens() const { return input_seq_len - 1; }
  MB_HOST_DEVICE std::uint32_t max_num_distinct() const {
    return num_tokens() < vocab_size - 1 ? num_tokens() : vocab_size - 1;
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return 1 + WordMap::ScratchWords(max_num_distinct());
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kTokenStream = 0;
    std::uint32_t* const answer = scratch;
    ForEachWord(lanes, sample, kTokenStream, 0, num_tokens(),
                [&](std::uint32_t t, std::uint32_t word) {
                  inputs[t] = static_cast<std::int32_t>(
                      1 + UniformFromWord(sample, kTokenStream, t, word, vocab_size - 1));
                });
    lanes.Sync();
    lanes.Serial([&] {
      *answer = MakeUnique(inputs, scratch + 1);
      inputs[num_tokens()] = kEnd;
    });
    WriteBackgroundLabels(lanes, mode, input_seq_len, inputs, labels);
    lanes.Serial([&] { labels[num_tokens()] = static_cast<std::int32_t>(*answer); });
  }

 private:
  // The most frequent token, the smallest one of several. Of those, the first other to appear gives
  // its first occurrence to the winner, which then is the only most frequent one.
  MB_HOST_DEVICE std::uint32_t MakeUnique(std::int32_t* tokens, std::uint32_t* map_memory) const {
    WordMap counts(map_memory, max_num_distinct());
    const auto count_of = [&](std::uint32_t t) -> std::uint32_t& {
      return counts.FindOrInsert(static_cast<std::uint32_t>(tokens[t]), 0);
    };
    for (std::uint32_t t = 0; t < num_tokens(); ++t) ++count_of(t);
    std::int32_t winner = 0;
    std::uint32_t highest = 0;
    for (std::uint32_t t = 0; t < num_tokens(); ++t) {
      const std::uint32_t count = count_of(t);
      if (count > highest || (count == highest && tokens[t] < winner)) {
        winner = tokens[t];
        highest = count;
      }
    }
    for (std::uint32_t t = 0; t < num_tokens(); ++t) {
      if (tokens[t] == winner || count_of(t) != highest) continue;
      tokens[t] = winner;
      break;
    }
    return static_cast<std::uint32_t>(winner);
  }
};

}  // namespace mixerbench::tasks::vocab_majority
