// In which order the sentences of a haystack follow one another in a context.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "tasks/sampling.h"
#include "tasks/text/haystack.h"

namespace mixerbench::tasks {

enum class HaystackMode {
  kFixed,             // as in the text, the same for every sample
  kFixedPerm,         // one random order for all samples, keyed by the haystack seed
  kFixedOffset,       // as in the text from one random start for all samples
  kShuffleSentence,   // a new random order for every sample
  kShuffleParagraph,  // paragraphs in a new random order for every sample
  kSampleOffset,      // as in the text from a random start of each sample
};

// The stream of the order's draws.
inline constexpr std::uint32_t kHaystackStream = 21;

// The order of one sample. After the last sentence the sequence repeats.
class SentenceOrder {
 public:
  // `haystack` must outlive the order. expected_size: how many sentences will be asked for,
  // roughly.
  SentenceOrder(const Haystack& haystack, HaystackMode mode, std::uint64_t haystack_seed,
                const SampleStream& sample, std::int64_t expected_size);

  // The sentence at `position`.
  std::uint32_t operator[](std::int64_t position);

 private:
  std::uint32_t PermutedSentence(std::uint32_t position);
  std::uint32_t ShuffledParagraphs(std::uint32_t position);
  void Grow(std::uint32_t size);

  const Haystack& haystack_;
  HaystackMode mode_;
  SampleStream stream_;
  std::uint32_t offset_ = 0;
  std::uint32_t num_items_ = 0;           // sentences or paragraphs that are permuted
  std::vector<std::uint32_t> permuted_;   // the head of the permutation
  std::vector<std::uint32_t> sentences_;  // of the permuted paragraphs so far
  std::uint32_t next_paragraph_ = 0;
};

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::HaystackMode> {
  using Mode = tasks::HaystackMode;
  static constexpr std::pair<Mode, std::string_view> kNames[] = {
      {Mode::kShuffleSentence, "shuffle_sentence"},
      {Mode::kShuffleParagraph, "shuffle_paragraph"},
      {Mode::kSampleOffset, "sample_offset"},
      {Mode::kFixed, "fixed"},
      {Mode::kFixedPerm, "fixed_perm"},
      {Mode::kFixedOffset, "fixed_offset"}};
};
