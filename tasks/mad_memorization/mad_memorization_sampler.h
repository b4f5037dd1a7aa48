// The sampler of MAD memorization; see mad_memorization.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::mad_memorization {

struct MadMemorizationSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t num_slots = 0;  // of two tokens
  std::uint32_t noise_vocab_size = 0;
  std::uint64_t noise_threshold = 0;      // BernoulliThreshold(frac_noise)
  const std::uint32_t* tables = nullptr;  // value of each key, a token: [num_keys]

  // Keys 0..num_keys-1, then values, then noise, then the insert token.
  MB_HOST_DEVICE std::uint32_t num_map_tokens() const { return vocab_size - 1 - noise_vocab_size; }
  MB_HOST_DEVICE std::uint32_t num_keys() const { return num_map_tokens() / 2; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return num_map_tokens() - num_keys(); }
  MB_HOST_DEVICE std::int64_t seq_len() const { return 2 * std::int64_t{num_slots}; }

  MB_HOST_DEVICE std::int64_t scratch_words() const { return std::int64_t{num_slots} + 1; }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kProtectedStream = 0, kIsNoiseStream = 1, kNoiseStream = 2,
                            kKeyStream = 3;
    constexpr std::uint32_t kNoise = 0xFFFFFFFFu;
    std::uint32_t* const key_of = scratch;  // [num_slots], kNoise for noise
    std::uint32_t* const last_key_slot = key_of + num_slots;

    ForEachWord(lanes, sample, kKeyStream, 0, num_slots, [&](std::uint32_t t, std::uint32_t word) {
      key_of[t] = UniformFromWord(sample, kKeyStream, t, word, num_keys());
    });
    if (noise_threshold != 0) {
      lanes.Sync();
      const std::uint32_t kept = Uniform(sample, kProtectedStream, 0, num_slots);
      ForEachWord(lanes, sample, kIsNoiseStream, 0, num_slots,
                  [&](std::uint32_t t, std::uint32_t word) {
                    if (BernoulliFromWord(word, noise_threshold) && t != kept) key_of[t] = kNoise;
                  });
    }
    lanes.Sync();
    lanes.Serial([&] {
      *last_key_slot = num_slots - 1;
      while (key_of[*last_key_slot] == kNoise) --*last_key_slot;
    });
    lanes.ForEach(num_slots, [&](std::int64_t t) {
      std::int32_t* const slot = inputs + 2 * t;
      if (key_of[t] == kNoise) {
        for (std::uint32_t i = 0; i < 2; ++i) {
          slot[i] = static_cast<std::int32_t>(
              num_map_tokens() + Uniform(sample, kNoiseStream,
                                         2 * static_cast<std::uint32_t>(t) + i, noise_vocab_size));
        }
      } else {
        slot[0] = static_cast<std::int32_t>(key_of[t]);
        slot[1] = static_cast<std::int32_t>(vocab_size - 1);
      }
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    lanes.ForEach(num_slots, [&](std::int64_t t) {
      if (key_of[t] == kNoise) return;
      if (mode == LabelMode::kTargetOnly && t != *last_key_slot) return;
      labels[2 * t + 1] = static_cast<std::int32_t>(tables[key_of[t]]);
    });
  }
};

}  // namespace mixerbench::tasks::mad_memorization
