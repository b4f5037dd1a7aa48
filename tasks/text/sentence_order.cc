// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/sentence_order.h"

#include <algorithm>

namespace mixerbench::tasks {
namespace {

bool IsPerRun(HaystackMode mode) {
  return mode == HaystackMode::kFixedPerm || mode == HaystackMode::kFixedOffset;
}

}  // namespace

SentenceOrder::SentenceOrder(const Haystack& haystack, HaystackMode mode,
                             std::uint64_t haystack_seed, const SampleStream& sample,
                             std::int64_t expected_size)
    : haystack_(haystack), mode_(mode), stream_(sample) {
  if (IsPerRun(mode)) stream_ = {DeriveKey("haystack;" + haystack.name(), haystack_seed, 0), 0};
  switch (mode) {
    case HaystackMode::kFixed:
      break;
    case HaystackMode::kFixedOffset:
    case HaystackMode::kSampleOffset:
      offset_ = Uniform(stream_, kHaystackStream, 0, haystack.num_sentences());
      break;
    case HaystackMode::kShuffleParagraph:
      num_items_ = haystack.num_paragraphs();
      break;
    case HaystackMode::kFixedPerm:
    case HaystackMode::kShuffleSentence:
      num_items_ = haystack.num_sentences();
      Grow(static_cast<std::uint32_t>(std::min<std::int64_t>(num_items_, expected_size)));
      break;
  }
}

std::uint32_t SentenceOrder::operator[](std::int64_t position) {
  const auto within = static_cast<std::uint32_t>(position % haystack_.num_sentences());
  switch (mode_) {
    case HaystackMode::kFixed:
    case HaystackMode::kFixedOffset:
    case HaystackMode::kSampleOffset:
      return static_cast<std::uint32_t>((std::uint64_t{within} + offset_) %
                                        haystack_.num_sentences());
    case HaystackMode::kShuffleParagraph:
      return ShuffledParagraphs(within);
    case HaystackMode::kFixedPerm:
    case HaystackMode::kShuffleSentence:
      break;
  }
  return PermutedSentence(within);
}

std::uint32_t SentenceOrder::PermutedSentence(std::uint32_t position) {
  if (position >= permuted_.size()) Grow(position + 1);
  return permuted_[position];
}

std::uint32_t SentenceOrder::ShuffledParagraphs(std::uint32_t position) {
  while (position >= sentences_.size()) {
    if (next_paragraph_ >= permuted_.size()) Grow(next_paragraph_ + 1);
    const std::uint32_t paragraph = permuted_[next_paragraph_++];
    for (std::uint32_t s = haystack_.paragraph_begin(paragraph);
         s < haystack_.paragraph_begin(paragraph + 1); ++s) {
      sentences_.push_back(s);
    }
  }
  return sentences_[position];
}

// The head of Pick(n, k) does not depend on k, so a longer one may be drawn again from the start.
void SentenceOrder::Grow(std::uint32_t size) {
  const std::uint64_t doubled = 2 * std::uint64_t{permuted_.size()};
  const auto grown = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(num_items_, std::max<std::uint64_t>(size, doubled)));
  permuted_.resize(grown);
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(PickScratchWords(num_items_, grown)));
  Pick(stream_, kHaystackStream, num_items_, grown, 0, permuted_.data(), scratch.data());
}

}  // namespace mixerbench::tasks
