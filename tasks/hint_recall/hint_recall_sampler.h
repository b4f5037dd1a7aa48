// The sampler of hint recall; see hint_recall.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::hint_recall {

// Upper bound of hints and of copies of the target.
inline constexpr std::uint32_t kMaxRepeats = kMaxFew;

struct HintRecallSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t input_seq_len = 0;     // with one hint
  std::uint32_t num_hints = 1;         // shown, one of them the key that is asked; 0: none
  std::uint32_t num_targets = 1;       // pairs with the key that is asked
  std::int32_t depth_percent = -1;     // of the first one drawn; -1: drawn
  std::uint32_t noise_vocab_size = 0;  // ids after those of keys and values
  std::uint64_t noise_threshold = 0;   // BernoulliThreshold(frac_noise)

  MB_HOST_DEVICE std::uint32_t num_keys() const { return vocab_size / 2; }
  MB_HOST_DEVICE std::uint32_t num_pairs() const { return (input_seq_len - 2) / 2; }
  MB_HOST_DEVICE std::uint32_t first_pair() const { return num_hints; }
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return std::int64_t{input_seq_len} - 1 + num_hints;
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return has_extras() ? 2 * std::int64_t{kMaxRepeats} : 0;
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kTargetStream = 0, kHintStream = 1, kKeyStream = 3,
                            kFalseHintStream = 5, kPlaceStream = 6, kCopyStream = 7,
                            kIsNoiseStream = 8, kNoiseStream = 9;
    std::uint32_t* const copies = scratch;                     // [num_targets - 1], other pairs
    std::uint32_t* const false_hints = scratch + kMaxRepeats;  // [num_hints - 1], other pairs
    const std::uint32_t target =
        depth_percent < 0
            ? Uniform(sample, kTargetStream, 0, num_pairs())
            : static_cast<std::uint32_t>(std::uint64_t{num_pairs() - 1} *
                                         static_cast<std::uint32_t>(depth_percent) / 100);
    const std::uint32_t hint = Uniform(sample, kHintStream, 0, num_keys());
    if (has_extras()) {
      lanes.Serial(
          [&] { PickFew(sample, kCopyStream, num_pairs() - 1, num_targets - 1, 0, copies); },
          [&] {
            if (num_hints < 2) return;
            PickFew(sample, kFalseHintStream, num_pairs() - 1, num_hints - 1, 0, false_hints);
          });
      lanes.Sync();
    }
    // Pair `other` of those that are not the target's.
    const auto without_target = [=](std::uint32_t other) { return other + (other >= target); };
    const auto is_target = [&](std::uint32_t t) {
      bool is = t == target;
      for (std::uint32_t i = 0; i + 1 < num_targets; ++i) is |= t == without_target(copies[i]);
      return is;
    };
    const auto other_key = [&](std::uint32_t t, std::uint32_t word) {
      const std::uint32_t key = UniformFromWord(sample, kKeyStream, t, word, num_keys() - 1);
      return key + (key >= hint);
    };
    ForEachWord(lanes, sample, kKeyStream, 0, num_pairs(),
                [&](std::uint32_t t, std::uint32_t word) {
                  std::int32_t* const pair = inputs + first_pair() + 2 * std::int64_t{t};
                  const bool is_asked = is_target(t);
                  if (!is_asked && noise_threshold != 0 &&
                      Bernoulli(sample, kIsNoiseStream, t, noise_threshold)) {
                    for (std::uint32_t i = 0; i < 2; ++i) {
                      pair[i] = static_cast<std::int32_t>(
                          vocab_size + Uniform(sample, kNoiseStream, 2 * t + i, noise_vocab_size));
                    }
                    return;
                  }
                  const std::uint32_t key = is_asked ? hint : other_key(t, word);
                  pair[0] = static_cast<std::int32_t>(key);
                  pair[1] = ValueOf(sample, key);
                });
    lanes.Serial([&] {
      const std::uint32_t place = num_hints < 2 ? 0 : Uniform(sample, kPlaceStream, 0, num_hints);
      for (std::uint32_t i = 0; i < num_hints; ++i) {
        std::uint32_t key = hint;
        if (i != place) {
          const std::uint32_t t = without_target(false_hints[i - (i > place)]);
          key = other_key(t, Word(sample, kKeyStream, t));
        }
        inputs[i] = static_cast<std::int32_t>(key);
      }
      inputs[seq_len() - 1] = static_cast<std::int32_t>(hint);
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    lanes.Serial([&] { labels[seq_len() - 1] = ValueOf(sample, hint); });
  }

 private:
  MB_HOST_DEVICE bool has_extras() const { return num_hints > 1 || num_targets > 1; }

  // The value that goes with a key throughout the sample.
  MB_HOST_DEVICE std::int32_t ValueOf(const SampleStream& sample, std::uint32_t key) const {
    constexpr std::uint32_t kValueStream = 4;
    return static_cast<std::int32_t>(num_keys() +
                                     Uniform(sample, kValueStream, key, vocab_size - num_keys()));
  }
};

}  // namespace mixerbench::tasks::hint_recall
