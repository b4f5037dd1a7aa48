// The sampler of compositional MQAR; see compositional_mqar.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/filler.h"
#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::compositional_mqar {

struct CompositionalMqarSampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  std::uint32_t grid_size = 0;  // first keys, and second keys
  Noise noise = Noise::kRandom;
  const std::uint32_t* tables = nullptr;  // WeightSums of the gaps

  // First keys are 1..third-1, second keys third..2*third-1, values the rest.
  MB_HOST_DEVICE std::uint32_t third() const { return vocab_size / 3; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return vocab_size - 2 * third(); }
  MB_HOST_DEVICE std::uint32_t num_kv_pairs() const { return grid_size * grid_size; }
  MB_HOST_DEVICE std::uint32_t context_len() const { return 3 * num_kv_pairs(); }
  MB_HOST_DEVICE std::uint32_t num_slots() const { return (seq_len - context_len()) / 3; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return 3 * std::int64_t{num_kv_pairs()} + 4 * std::int64_t{grid_size} + 1 +
           WeightSumsWords(num_slots()) + order_words() + pick_words();
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kFirstKeyStream = 0, kSecondKeyStream = 1, kValueStream = 2,
                            kFillerStream = 3, kOrderStream = 4, kGapStream = 5;
    std::uint32_t* const first_keys = scratch;                   // [grid_size], less 1
    std::uint32_t* const second_keys = first_keys + grid_size;   // [grid_size], less third
    std::uint32_t* const sorted_keys = second_keys + grid_size;  // [2 * grid_size], tokens
    std::uint32_t* const values =
        sorted_keys + 2 * std::size_t{grid_size};          // by place, less 2 * third
    std::uint32_t* const cells = values + num_kv_pairs();  // of the grid, by place
    std::uint32_t* const gaps = cells + num_kv_pairs();    // by place
    std::uint32_t* const last_gap = gaps + num_kv_pairs();
    std::uint32_t* const gap_memory = last_gap + 1;
    std::uint32_t* const order_memory = gap_memory + WeightSumsWords(num_slots());
    std::uint32_t* const pick_memory = order_memory + order_words();

    lanes.Split(
        [&](const auto& team) {
          PickGaps(team, sample, kGapStream, tables, num_slots(), num_kv_pairs(), mode, gaps,
                   last_gap, gap_memory);
        },
        [&](const auto& team) {
          PickTogether(team, sample, kFirstKeyStream, third() - 1, grid_size, first_keys,
                       pick_memory);
          team.Sync();
          PickTogether(team, sample, kSecondKeyStream, third(), grid_size, second_keys,
                       pick_memory);
          team.Sync();
          PickTogether(team, sample, kValueStream, num_values(), num_kv_pairs(), values,
                       pick_memory);
          team.ForEach(grid_size, [&](std::int64_t i) {
            first_keys[i] += 1;
            second_keys[i] += third();
          });
        },
        [&](const auto& team) {
          PickTogether(team, sample, kOrderStream, num_kv_pairs(), num_kv_pairs(), cells,
                       order_memory);
        });
    lanes.Sync();
    if (noise == Noise::kRandomSafe) {
      // Every second key is above every first one.
      SortDistinct(lanes, first_keys, grid_size, sorted_keys);
      SortDistinct(lanes, second_keys, grid_size, sorted_keys + grid_size);
      lanes.Sync();
    }
    WriteFiller(lanes, sample, kFillerStream, noise, vocab_size, {sorted_keys, 2 * grid_size, 0},
                context_len(), seq_len, inputs);
    lanes.Sync();
    lanes.ForEach(num_kv_pairs(), [&](std::int64_t q) {
      const auto first = static_cast<std::int32_t>(first_keys[cells[q] / grid_size]);
      const auto second = static_cast<std::int32_t>(second_keys[cells[q] % grid_size]);
      inputs[3 * q] = first;
      inputs[3 * q + 1] = second;
      inputs[3 * q + 2] = static_cast<std::int32_t>(2 * third() + values[q]);
      std::int32_t* const query = inputs + context_len() + 3 * std::int64_t{gaps[q]};
      query[0] = first;
      query[1] = second;
    });
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    lanes.ForEach(num_kv_pairs(), [&](std::int64_t q) {
      if (mode == LabelMode::kTargetOnly && gaps[q] != *last_gap) return;
      labels[context_len() + 3 * std::int64_t{gaps[q]} + 1] =
          static_cast<std::int32_t>(2 * third() + values[q]);
    });
  }

 private:
  MB_HOST_DEVICE std::int64_t order_words() const {
    return PickTogetherScratchWords(num_kv_pairs(), num_kv_pairs());
  }
  // Of first keys, second keys and values in turn.
  MB_HOST_DEVICE std::int64_t pick_words() const {
    return MaxWords(MaxWords(PickTogetherScratchWords(third() - 1, grid_size),
                             PickTogetherScratchWords(third(), grid_size)),
                    PickTogetherScratchWords(num_values(), num_kv_pairs()));
  }
};

}  // namespace mixerbench::tasks::compositional_mqar
