// The sampler of the phone book; see phonebook_tok.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::phonebook_tok {

// Ids: digits 0..9, separators, first names, last names.
inline constexpr std::uint32_t kNumDigits = 10;  // values of a digit, and digits of a number
inline constexpr std::uint32_t kColon = 10, kNewline = 11;
inline constexpr std::uint32_t kNumNames = 1000;  // of either kind
inline constexpr std::uint32_t kFirstNames = 12, kLastNames = kFirstNames + kNumNames;
inline constexpr std::uint32_t kVocabSize = kLastNames + kNumNames;
inline constexpr std::uint32_t kNameLen = 3;  // first name, last name, colon
inline constexpr std::uint32_t kEntryLen = kNameLen + kNumDigits + 1;

struct PhonebookTokSampler {
  std::uint32_t num_entries = 0;

  // The question and all digits of its answer but the last are inputs.
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return std::int64_t{kEntryLen} * num_entries + kNameLen + kNumDigits - 1;
  }
  // Position at which the first digit of the answer is said.
  MB_HOST_DEVICE std::int64_t first_scored() const { return seq_len() - kNumDigits; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return std::int64_t{num_entries} + PickTogetherScratchWords(kNumNames * kNumNames, num_entries);
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kNameStream = 0, kDigitStream = 1, kQueryStream = 2;
    std::uint32_t* const names = scratch;  // [num_entries]
    lanes.Split([&](const auto& team) {
      PickTogether(team, sample, kNameStream, kNumNames * kNumNames, num_entries, names,
                   names + num_entries);
    });
    ForEachWord(
        lanes, sample, kDigitStream, 0, kNumDigits * num_entries,
        [&](std::uint32_t j, std::uint32_t word) {
          const std::uint32_t entry = j / kNumDigits;
          inputs[std::int64_t{kEntryLen} * entry + kNameLen + j % kNumDigits] =
              static_cast<std::int32_t>(UniformFromWord(sample, kDigitStream, j, word, kNumDigits));
        });
    const std::uint32_t query = Uniform(sample, kQueryStream, 0, num_entries);
    const auto digit = [&](std::uint32_t i) {
      return static_cast<std::int32_t>(
          Uniform(sample, kDigitStream, kNumDigits * query + i, kNumDigits));
    };
    lanes.Sync();
    lanes.ForEach(std::int64_t{num_entries} + 1, [&](std::int64_t entry) {
      std::int32_t* const line = inputs + kEntryLen * entry;
      const bool is_question = entry == num_entries;
      const std::uint32_t name = names[is_question ? query : entry];
      line[0] = static_cast<std::int32_t>(kFirstNames + name / kNumNames);
      line[1] = static_cast<std::int32_t>(kLastNames + name % kNumNames);
      line[2] = kColon;
      if (!is_question) line[kEntryLen - 1] = kNewline;
    });
    lanes.ForEach(kNumDigits - 1, [&](std::int64_t i) {
      inputs[first_scored() + 1 + i] = digit(static_cast<std::uint32_t>(i));
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    lanes.ForEach(kNumDigits, [&](std::int64_t i) {
      labels[first_scored() + i] = digit(static_cast<std::uint32_t>(i));
    });
  }
};

}  // namespace mixerbench::tasks::phonebook_tok
