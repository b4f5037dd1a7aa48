// The sampler of hint recall; see hint_recall.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::hint_recall {

struct HintRecallSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t input_seq_len = 0;  // with the hint
  bool is_hinted = true;
  std::int32_t depth_percent = -1;  // of the target; -1: drawn

  MB_HOST_DEVICE std::uint32_t num_keys() const { return vocab_size / 2; }
  MB_HOST_DEVICE std::uint32_t num_pairs() const { return (input_seq_len - 2) / 2; }
  MB_HOST_DEVICE std::uint32_t first_pair() const { return is_hinted ? 1 : 0; }
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return std::int64_t{input_seq_len} - (is_hinted ? 0 : 1);
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const { return 0; }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels, std::uint32_t*) const {
    constexpr std::uint32_t kTargetStream = 0, kHintStream = 1, kKeyStream = 3;
    const std::uint32_t target =
        depth_percent < 0
            ? Uniform(sample, kTargetStream, 0, num_pairs())
            : static_cast<std::uint32_t>(std::uint64_t{num_pairs() - 1} *
                                         static_cast<std::uint32_t>(depth_percent) / 100);
    const std::uint32_t hint = Uniform(sample, kHintStream, 0, num_keys());
    ForEachWord(lanes, sample, kKeyStream, 0, num_pairs(),
                [&](std::uint32_t t, std::uint32_t word) {
                  std::uint32_t key = UniformFromWord(sample, kKeyStream, t, word, num_keys() - 1);
                  key = t == target ? hint : key + (key >= hint);
                  std::int32_t* const pair = inputs + first_pair() + 2 * std::int64_t{t};
                  pair[0] = static_cast<std::int32_t>(key);
                  pair[1] = ValueOf(sample, key);
                });
    lanes.Serial([&] {
      if (is_hinted) inputs[0] = static_cast<std::int32_t>(hint);
      inputs[seq_len() - 1] = static_cast<std::int32_t>(hint);
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    lanes.Serial([&] { labels[seq_len() - 1] = ValueOf(sample, hint); });
  }

 private:
  // The value that goes with a key throughout the sample.
  MB_HOST_DEVICE std::int32_t ValueOf(const SampleStream& sample, std::uint32_t key) const {
    constexpr std::uint32_t kValueStream = 4;
    return static_cast<std::int32_t>(num_keys() +
                                     Uniform(sample, kValueStream, key, vocab_size - num_keys()));
  }
};

}  // namespace mixerbench::tasks::hint_recall
