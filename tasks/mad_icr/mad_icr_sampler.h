// The sampler of MAD in-context recall; see mad_icr.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::mad_icr {

struct MadIcrSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t input_seq_len = 0;  // tokens of the probe and the pairs, its value included
  bool is_multi_query = true;
  std::uint32_t noise_vocab_size = 0;
  std::uint64_t noise_threshold = 0;  // BernoulliThreshold(frac_noise)

  // Keys 0..num_keys-1, then values, then noise, then (single query) the copy prefix.
  MB_HOST_DEVICE std::uint32_t num_recall_tokens() const {
    return vocab_size - noise_vocab_size - (is_multi_query ? 0 : 1);
  }
  MB_HOST_DEVICE std::uint32_t num_keys() const { return num_recall_tokens() / 2; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return num_recall_tokens() - num_keys(); }

  // Slots of two tokens before the probe.
  MB_HOST_DEVICE std::uint32_t num_slots() const { return input_seq_len / 2 - 1; }
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return std::int64_t{input_seq_len} - (is_multi_query ? 1 : 0);
  }
  MB_HOST_DEVICE std::uint32_t max_num_distinct() const {
    return num_keys() < num_slots() ? num_keys() : num_slots();
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return 2 * std::int64_t{num_slots()} + 2 * std::int64_t{max_num_distinct()} +
           MaxWords(WordMap::ScratchWords(max_num_distinct()), num_slots()) + 2;
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kProtectedStream = 0, kIsNoiseStream = 1, kNoiseStream = 2,
                            kKeyStream = 3, kValueStream = 4, kProbeStream = 5;
    std::uint32_t* const key_of = scratch;                 // [num_slots], kNoise for noise
    std::uint32_t* const order_of = key_of + num_slots();  // [num_slots], into `keys`, | kIsFirst
    std::uint32_t* const keys = order_of + num_slots();    // [max_num_distinct], as they appear
    std::uint32_t* const values = keys + max_num_distinct();  // [max_num_distinct]
    std::uint32_t* const num_distinct = values + max_num_distinct();
    std::uint32_t* const probe = num_distinct + 1;  // into `keys`
    std::uint32_t* const memory = probe + 1;        // of NumberKeys

    // Which slots are noise, and the keys of the others: four slots share a Philox block.
    lanes.ForEach((num_slots() + 3) / 4, [&](std::int64_t i) {
      const auto block = static_cast<std::uint32_t>(i);
      const PhiloxBlock key_words = Words(sample, kKeyStream, block);
      const PhiloxBlock noise_words =
          noise_threshold == 0 ? PhiloxBlock{} : Words(sample, kIsNoiseStream, block);
      for (std::uint32_t lane = 0; lane < 4 && 4 * block + lane < num_slots(); ++lane) {
        const std::uint32_t t = 4 * block + lane;
        key_of[t] = BernoulliFromWord(noise_words.words[lane], noise_threshold)
                        ? kNoise
                        : UniformFromWord(sample, kKeyStream, t, key_words.words[lane], num_keys());
      }
    });
    lanes.Sync();
    lanes.Serial([&] {
      const std::uint32_t kept = Uniform(sample, kProtectedStream, 0, num_slots());
      if (key_of[kept] == kNoise) key_of[kept] = Uniform(sample, kKeyStream, kept, num_keys());
    });
    lanes.Sync();
    NumberKeys(lanes, key_of, order_of, keys, num_distinct, memory);
    lanes.Sync();
    lanes.Serial([&] { *probe = Uniform(sample, kProbeStream, 0, *num_distinct); });
    lanes.ForEach(*num_distinct, [&](std::int64_t i) {
      values[i] = num_keys() + Uniform(sample, kValueStream, keys[i], num_values());
    });
    lanes.Sync();

    const std::int64_t probe_position = seq_len() - 1;
    lanes.ForEach(num_slots(), [&](std::int64_t t) {
      std::int32_t* const slot = inputs + 2 * t;
      if (key_of[t] == kNoise) {
        const PhiloxBlock words =
            Words(sample, kNoiseStream, static_cast<std::uint32_t>(2 * t) / 4);
        for (std::uint32_t i = 0; i < 2; ++i) {
          const std::uint32_t j = 2 * static_cast<std::uint32_t>(t) + i;
          slot[i] = static_cast<std::int32_t>(
              num_recall_tokens() +
              UniformFromWord(sample, kNoiseStream, j, words.words[j % 4], noise_vocab_size));
        }
      } else {
        slot[0] = static_cast<std::int32_t>(key_of[t]);
        slot[1] = static_cast<std::int32_t>(values[order_of[t] & ~kIsFirst]);
      }
    });
    lanes.Serial([&] {
      if (!is_multi_query) inputs[probe_position - 1] = static_cast<std::int32_t>(vocab_size - 1);
      inputs[probe_position] = static_cast<std::int32_t>(keys[*probe]);
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    if (mode == LabelMode::kScored && is_multi_query) {
      lanes.ForEach(num_slots(), [&](std::int64_t t) {
        const bool is_repeat = key_of[t] != kNoise && (order_of[t] & kIsFirst) == 0;
        if (is_repeat) labels[2 * t] = static_cast<std::int32_t>(values[order_of[t]]);
      });
    }
    lanes.Serial([&] { labels[probe_position] = static_cast<std::int32_t>(values[*probe]); });
  }

 private:
  static constexpr std::uint32_t kNoise = 0xFFFFFFFFu;
  static constexpr std::uint32_t kIsFirst = 0x80000000u;

  // Numbers the distinct keys as they appear. Does not wait at the end.
  // key_of: [num_slots]; order_of: [num_slots], unless noise; keys: [*num_distinct], by number;
  // memory: [MaxWords(WordMap::ScratchWords(max_num_distinct()), num_slots())].
  template <typename Lanes>
  MB_HOST_DEVICE void NumberKeys(const Lanes& lanes, const std::uint32_t* key_of,
                                 std::uint32_t* order_of, std::uint32_t* keys,
                                 std::uint32_t* num_distinct, std::uint32_t* memory) const {
    if constexpr (Lanes::kIsParallel) {
      if (num_slots() <= kMaxPickedTogether) {   // num_slots^2 / lanes steps
        std::uint32_t* const first_of = memory;  // [num_slots], the first slot with the same key
        lanes.ForEach(num_slots(), [&](std::int64_t i) {
          const auto t = static_cast<std::uint32_t>(i);
          first_of[t] = key_of[t] == kNoise ? kNoise : FindWord(key_of, t, key_of[t]);
        });
        lanes.Sync();
        const auto num_first = [=](std::uint32_t end) {
          std::uint32_t count = 0;
          for (std::uint32_t s = 0; s < end; ++s) count += first_of[s] == s;
          return count;
        };
        lanes.ForEach(num_slots(), [&](std::int64_t i) {
          const auto t = static_cast<std::uint32_t>(i);
          if (first_of[t] == kNoise) return;
          const bool is_first = first_of[t] == t;
          const std::uint32_t number = num_first(first_of[t]);
          order_of[t] = is_first ? number | kIsFirst : number;
          if (is_first) keys[number] = key_of[t];
        });
        lanes.Serial([&] { *num_distinct = num_first(num_slots()); });
        return;
      }
    }
    lanes.Serial([&] {
      WordMap order(memory, max_num_distinct());
      std::uint32_t count = 0;
      for (std::uint32_t t = 0; t < num_slots(); ++t) {
        if (key_of[t] == kNoise) continue;
        const std::uint32_t index = order.FindOrInsert(key_of[t], count);
        order_of[t] = index == count ? index | kIsFirst : index;
        if (index == count) keys[count++] = key_of[t];
      }
      *num_distinct = count;
    });
  }
};

}  // namespace mixerbench::tasks::mad_icr
