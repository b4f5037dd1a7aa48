// The sampler of MQAR; see mqar.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/filler.h"
#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::mqar {

struct MqarSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  std::uint32_t num_kv_pairs = 0;
  std::uint32_t num_passes = 0;
  Noise noise = Noise::kRandom;
  const std::uint32_t* tables = nullptr;  // WeightSums of the gaps

  // Keys are 1..first_value-1, values first_value..vocab_size-1.
  MB_HOST_DEVICE std::uint32_t first_value() const { return vocab_size / 2; }
  MB_HOST_DEVICE std::uint32_t num_keys() const { return first_value() - 1; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return vocab_size - first_value(); }
  MB_HOST_DEVICE std::uint32_t context_len() const { return 2 * num_kv_pairs * num_passes; }
  MB_HOST_DEVICE std::uint32_t num_slots() const { return (seq_len - context_len()) / 2; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return WeightSumsWords(num_slots()) + 4 * std::int64_t{num_kv_pairs} + pick_words() + 1;
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kKeyStream = 0, kValueStream = 1, kGapStream = 2, kFillerStream = 3;
    std::uint32_t* const keys = scratch;                     // [num_kv_pairs], less 1
    std::uint32_t* const values = keys + num_kv_pairs;       // [num_kv_pairs], less first_value
    std::uint32_t* const gaps = values + num_kv_pairs;       // [num_kv_pairs]
    std::uint32_t* const sorted_keys = gaps + num_kv_pairs;  // [num_kv_pairs], less 1
    std::uint32_t* const last_gap = sorted_keys + num_kv_pairs;
    std::uint32_t* const gap_memory = last_gap + 1;
    std::uint32_t* const pick_memory = gap_memory + WeightSumsWords(num_slots());

    lanes.Split(
        [&](const auto& team) {
          PickGaps(team, sample, kGapStream, tables, num_slots(), num_kv_pairs, mode, gaps,
                   last_gap, gap_memory);
        },
        [&](const auto& team) {
          PickTogether(team, sample, kKeyStream, num_keys(), num_kv_pairs, keys, pick_memory);
          team.Sync();
          PickTogether(team, sample, kValueStream, num_values(), num_kv_pairs, values, pick_memory);
        });
    if (noise == Noise::kRandomSafe) {
      lanes.Sync();
      SortDistinct(lanes, keys, num_kv_pairs, sorted_keys);
      lanes.Sync();
    }
    WriteFiller(lanes, sample, kFillerStream, noise, vocab_size, {sorted_keys, num_kv_pairs, 1},
                context_len(), seq_len, inputs);
    lanes.Sync();
    lanes.ForEach(num_kv_pairs, [&](std::int64_t j) {
      const auto key = static_cast<std::int32_t>(1 + keys[j]);
      for (std::uint32_t pass = 0; pass < num_passes; ++pass) {
        std::int32_t* const pair = inputs + 2 * (pass * std::int64_t{num_kv_pairs} + j);
        pair[0] = key;
        pair[1] = static_cast<std::int32_t>(first_value() + values[j]);
      }
      inputs[context_len() + 2 * std::int64_t{gaps[j]}] = key;
    });
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    lanes.ForEach(num_kv_pairs, [&](std::int64_t j) {
      if (mode == LabelMode::kTargetOnly && gaps[j] != *last_gap) return;
      labels[context_len() + 2 * std::int64_t{gaps[j]}] =
          static_cast<std::int32_t>(first_value() + values[j]);
    });
  }

 private:
  // Of keys and of values in turn.
  MB_HOST_DEVICE std::int64_t pick_words() const {
    return MaxWords(PickTogetherScratchWords(num_keys(), num_kv_pairs),
                    PickTogetherScratchWords(num_values(), num_kv_pairs));
  }
};

}  // namespace mixerbench::tasks::mqar
