// The sampler of forgetting MQAR; see forgetting_mqar.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/filler.h"
#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::forgetting_mqar {

struct ForgettingMqarSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  std::uint32_t num_kv_pairs = 0;
  std::uint32_t num_updates = 0;
  Noise noise = Noise::kRandom;
  const std::uint32_t* tables = nullptr;  // WeightSums of the gaps

  // Keys are 1..first_value-1, values first_value..vocab_size-1.
  MB_HOST_DEVICE std::uint32_t first_value() const { return vocab_size / 2; }
  MB_HOST_DEVICE std::uint32_t num_keys() const { return first_value() - 1; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return vocab_size - first_value(); }
  MB_HOST_DEVICE std::uint32_t context_len() const { return 2 * (num_kv_pairs + num_updates); }
  MB_HOST_DEVICE std::uint32_t num_slots() const { return (seq_len - context_len()) / 2; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return 5 * std::int64_t{num_kv_pairs} + 2 * std::int64_t{num_updates} + 1 +
           WeightSumsWords(num_slots()) + pick_words();
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kKeyStream = 0, kValueStream = 1, kGapStream = 2, kFillerStream = 3,
                            kUpdatedStream = 4, kNewValueStream = 5;
    std::uint32_t* const keys = scratch;                        // [num_kv_pairs], less 1
    std::uint32_t* const values = keys + num_kv_pairs;          // [num_kv_pairs], less first_value
    std::uint32_t* const latest = values + num_kv_pairs;        // the same after the updates
    std::uint32_t* const gaps = latest + num_kv_pairs;          // [num_kv_pairs]
    std::uint32_t* const sorted_keys = gaps + num_kv_pairs;     // [num_kv_pairs], less 1
    std::uint32_t* const updated = sorted_keys + num_kv_pairs;  // [num_updates], indices of pairs
    std::uint32_t* const new_values = updated + num_updates;    // [num_updates], less first_value
    std::uint32_t* const last_gap = new_values + num_updates;
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
          team.Sync();
          PickTogether(team, sample, kUpdatedStream, num_kv_pairs, num_updates, updated,
                       pick_memory);
        });
    lanes.Sync();
    lanes.ForEach(num_kv_pairs, [&](std::int64_t j) { latest[j] = values[j]; });
    // Never the value the key had; other pairs may have it.
    ForEachWord(lanes, sample, kNewValueStream, 0, num_updates,
                [&](std::uint32_t j, std::uint32_t word) {
                  const std::uint32_t drawn =
                      UniformFromWord(sample, kNewValueStream, j, word, num_values() - 1);
                  new_values[j] = drawn + (drawn >= values[updated[j]] ? 1 : 0);
                });
    if (noise == Noise::kRandomSafe) SortDistinct(lanes, keys, num_kv_pairs, sorted_keys);
    lanes.Sync();
    WriteFiller(lanes, sample, kFillerStream, noise, vocab_size, {sorted_keys, num_kv_pairs, 1},
                context_len(), seq_len, inputs);
    lanes.ForEach(num_kv_pairs,
                  [&](std::int64_t j) { WritePair(inputs + 2 * j, keys[j], values[j]); });
    lanes.ForEach(num_updates, [&](std::int64_t j) {
      WritePair(inputs + 2 * (num_kv_pairs + j), keys[updated[j]], new_values[j]);
      latest[updated[j]] = new_values[j];
    });
    lanes.Sync();
    lanes.ForEach(num_kv_pairs, [&](std::int64_t j) {
      inputs[query_position(gaps[j])] = static_cast<std::int32_t>(1 + keys[j]);
    });
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    lanes.ForEach(num_kv_pairs, [&](std::int64_t j) {
      if (mode == LabelMode::kTargetOnly && gaps[j] != *last_gap) return;
      labels[query_position(gaps[j])] = static_cast<std::int32_t>(first_value() + latest[j]);
    });
  }

 private:
  // Of keys, values and updated pairs in turn.
  MB_HOST_DEVICE std::int64_t pick_words() const {
    return MaxWords(MaxWords(PickTogetherScratchWords(num_keys(), num_kv_pairs),
                             PickTogetherScratchWords(num_values(), num_kv_pairs)),
                    PickTogetherScratchWords(num_kv_pairs, num_updates));
  }

  MB_HOST_DEVICE std::int64_t query_position(std::uint32_t gap) const {
    return context_len() + 2 * std::int64_t{gap};
  }

  MB_HOST_DEVICE void WritePair(std::int32_t* pair, std::uint32_t key, std::uint32_t value) const {
    pair[0] = static_cast<std::int32_t>(1 + key);
    pair[1] = static_cast<std::int32_t>(first_value() + value);
  }
};

}  // namespace mixerbench::tasks::forgetting_mqar
