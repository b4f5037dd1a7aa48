// The sampler of continuous MQAR; see continuous_mqar.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::continuous_mqar {

struct ContinuousMqarSampler {
  std::uint32_t num_embeddings = 0;
  std::uint32_t num_kv_pairs = 0;
  std::uint32_t num_passes = 0;
  bool is_per_sequence = true;
  // Unless is_per_sequence: key of each pair and its value, rows: [2, num_kv_pairs].
  const std::uint32_t* tables = nullptr;

  // Keys are rows 0..num_keys-1, values the other rows; the row after the last is the zero vector.
  MB_HOST_DEVICE std::uint32_t num_keys() const { return num_embeddings / 2; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return num_embeddings - num_keys(); }
  // Two tokens for each vector.
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return 2 * (std::int64_t{num_passes} + 1) * num_kv_pairs;
  }

  // Of a shuffle of the pairs.
  MB_HOST_DEVICE std::int64_t shuffle_words() const {
    return PickTogetherScratchWords(num_kv_pairs, num_kv_pairs);
  }
  // Of PickPairs.
  MB_HOST_DEVICE std::int64_t pick_words() const {
    return 2 * std::int64_t{num_kv_pairs} + PickTogetherScratchWords(num_keys(), num_kv_pairs) +
           PickTogetherScratchWords(num_values(), num_kv_pairs) + shuffle_words();
  }
  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return (std::int64_t{num_passes} + 3) * num_kv_pairs +
           (is_per_sequence ? MaxWords(pick_words(), 2 * shuffle_words()) : 2 * shuffle_words());
  }

  // Draws the pairs of a sample. keys, values: [num_kv_pairs], rows; scratch: [pick_words()].
  template <typename Lanes>
  MB_HOST_DEVICE void PickPairs(const Lanes& lanes, const SampleStream& sample, std::uint32_t* keys,
                                std::uint32_t* values, std::uint32_t* scratch) const {
    constexpr std::uint32_t kKeyStream = 0, kValueStream = 1, kMappingStream = 2;
    std::uint32_t* const drawn = scratch;                 // [num_kv_pairs], values before mapping
    std::uint32_t* const mapping = drawn + num_kv_pairs;  // [num_kv_pairs]
    std::uint32_t* const key_memory = mapping + num_kv_pairs;
    std::uint32_t* const value_memory =
        key_memory + PickTogetherScratchWords(num_keys(), num_kv_pairs);
    std::uint32_t* const mapping_memory =
        value_memory + PickTogetherScratchWords(num_values(), num_kv_pairs);
    lanes.Split(
        [&](const auto& team) {
          PickTogether(team, sample, kKeyStream, num_keys(), num_kv_pairs, keys, key_memory);
        },
        [&](const auto& team) {
          PickTogether(team, sample, kValueStream, num_values(), num_kv_pairs, drawn, value_memory);
        },
        [&](const auto& team) {
          PickTogether(team, sample, kMappingStream, num_kv_pairs, num_kv_pairs, mapping,
                       mapping_memory);
        });
    lanes.Sync();
    lanes.ForEach(num_kv_pairs,
                  [&](std::int64_t j) { values[j] = num_keys() + drawn[mapping[j]]; });
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kQueryOrderStream = 8, kFirstPassOrderStream = 16;
    std::uint32_t* const keys = scratch;                  // [num_kv_pairs], rows
    std::uint32_t* const values = keys + num_kv_pairs;    // [num_kv_pairs], rows
    std::uint32_t* const orders = values + num_kv_pairs;  // [num_passes + 1, num_kv_pairs]
    const std::int64_t num_shown = std::int64_t{num_passes} * num_kv_pairs;
    std::uint32_t* const query_order = orders + num_shown;

    if (is_per_sequence) {
      PickPairs(lanes, sample, keys, values, query_order + num_kv_pairs);
    } else {
      lanes.ForEach(num_kv_pairs, [&](std::int64_t j) {
        keys[j] = tables[j];
        values[j] = tables[num_kv_pairs + j];
      });
    }
    // Orders of the passes and, last, of the queries, two at a time.
    std::uint32_t* const memory = query_order + num_kv_pairs;
    for (std::uint32_t first = 0; first <= num_passes; first += 2) {
      lanes.Sync();  // the memory is free
      const auto shuffle = [&](const auto& team, std::uint32_t pass, std::uint32_t* own) {
        if (pass > num_passes) return;
        PickTogether(team, sample,
                     pass == num_passes ? kQueryOrderStream : kFirstPassOrderStream + pass,
                     num_kv_pairs, num_kv_pairs, orders + std::int64_t{pass} * num_kv_pairs, own);
      };
      lanes.Split([&](const auto& team) { shuffle(team, first, memory); },
                  [&](const auto& team) { shuffle(team, first + 1, memory + shuffle_words()); });
    }
    lanes.Sync();
    lanes.ForEach(num_shown, [&](std::int64_t i) {
      inputs[2 * i] = static_cast<std::int32_t>(keys[orders[i]]);
      inputs[2 * i + 1] = static_cast<std::int32_t>(values[orders[i]]);
    });
    std::int32_t* const queries = inputs + 2 * num_shown;
    lanes.ForEach(num_kv_pairs, [&](std::int64_t i) {
      queries[2 * i] = static_cast<std::int32_t>(keys[query_order[i]]);
      queries[2 * i + 1] = static_cast<std::int32_t>(num_embeddings);
    });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);
    lanes.ForEach(num_kv_pairs, [&](std::int64_t i) {
      if (mode == LabelMode::kTargetOnly && i + 1 != num_kv_pairs) return;
      labels[2 * (num_shown + i) + 1] = static_cast<std::int32_t>(values[query_order[i]]);
    });
  }
};

}  // namespace mixerbench::tasks::continuous_mqar
