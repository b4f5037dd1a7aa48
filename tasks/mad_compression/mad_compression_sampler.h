// The sampler of MAD compression; see mad_compression.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::mad_compression {

struct MadCompressionSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  std::uint32_t noise_vocab_size = 0;
  std::uint64_t noise_threshold = 0;  // BernoulliThreshold(frac_noise)

  // Data tokens 0..num_data_tokens-1, then noise, then the compression token.
  MB_HOST_DEVICE std::uint32_t num_data_tokens() const { return vocab_size - 1 - noise_vocab_size; }
  MB_HOST_DEVICE std::int32_t compression_token() const {
    return static_cast<std::int32_t>(vocab_size - 1);
  }
  MB_HOST_DEVICE bool IsNoise(std::int32_t token) const {
    return token >= static_cast<std::int32_t>(num_data_tokens()) && token != compression_token();
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const { return 0; }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* /*scratch*/) const {
    constexpr std::uint32_t kDataStream = 0, kIsNoiseStream = 1, kNoiseStream = 2;
    const std::uint32_t last = seq_len - 1;
    ForEachWord(lanes, sample, kDataStream, 0, last, [&](std::uint32_t t, std::uint32_t word) {
      inputs[t] = static_cast<std::int32_t>(
          UniformFromWord(sample, kDataStream, t, word, num_data_tokens()));
    });
    lanes.Serial([&] { inputs[last] = compression_token(); });
    if (noise_threshold != 0) {
      lanes.Sync();
      ForEachWord(lanes, sample, kIsNoiseStream, 0, last, [&](std::uint32_t t, std::uint32_t word) {
        if (!BernoulliFromWord(word, noise_threshold)) return;
        inputs[t] = static_cast<std::int32_t>(num_data_tokens() +
                                              Uniform(sample, kNoiseStream, t, noise_vocab_size));
      });
    }
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    if (mode == LabelMode::kTargetOnly) {
      lanes.Serial([&] { labels[last] = compression_token(); });
    } else {
      lanes.ForEach(seq_len, [&](std::int64_t t) {
        if (!IsNoise(inputs[t])) labels[t] = inputs[t];
      });
    }
  }
};

}  // namespace mixerbench::tasks::mad_compression
