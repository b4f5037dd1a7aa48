// The sampler of the bit circuits; see circuits.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_scan.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::circuits {

// What is asked of the bits: at the end, or (cumulative) after each of them.
enum class Circuit : std::int32_t { kParity, kCumParity, kMajority, kCumMajority };

inline constexpr std::int32_t kEnd = 2;  // bits are 0 and 1

struct CircuitsSampler {
  Circuit circuit = Circuit::kParity;
  std::uint32_t input_seq_len = 0;

  MB_HOST_DEVICE bool is_cumulative() const {
    return circuit == Circuit::kCumParity || circuit == Circuit::kCumMajority;
  }
  MB_HOST_DEVICE std::uint32_t num_bits() const {
    return circuit == Circuit::kCumMajority ? input_seq_len : input_seq_len - 1;
  }
  MB_HOST_DEVICE std::int64_t seq_len() const {
    return std::int64_t{num_bits()} + (is_cumulative() ? 0 : 1);
  }

  // The answer to `count` bits of which `num_ones` are ones.
  MB_HOST_DEVICE std::int32_t Answer(std::int64_t num_ones, std::int64_t count) const {
    switch (circuit) {
      case Circuit::kParity:
      case Circuit::kCumParity:
        return static_cast<std::int32_t>(num_ones % 2);
      case Circuit::kMajority:
        return 2 * num_ones > count ? 1 : 0;
      case Circuit::kCumMajority:
        return 2 * num_ones >= count ? 1 : 0;
    }
    return 0;
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const { return ScanScratchWords<1>(); }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kBitStream = 0;
    ForEachWord(lanes, sample, kBitStream, 0, num_bits(), [&](std::uint32_t t, std::uint32_t word) {
      inputs[t] = static_cast<std::int32_t>(UniformFromWord(sample, kBitStream, t, word, 2));
    });
    if (!is_cumulative()) lanes.Serial([&] { inputs[num_bits()] = kEnd; });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);

    const bool is_every_answer_kept = is_cumulative() && mode != LabelMode::kTargetOnly;
    InclusiveScan(
        lanes, num_bits(), ScanState<1>{{0}},
        [&](std::int64_t t) { return ScanState<1>{{static_cast<std::uint32_t>(inputs[t])}}; },
        [](const ScanState<1>& a, const ScanState<1>& b) {
          return ScanState<1>{{a.words[0] + b.words[0]}};
        },
        scratch,
        [&](std::int64_t t, const ScanState<1>& num_ones) {
          const bool is_last = t + 1 == num_bits();
          if (!is_last && !is_every_answer_kept) return;
          const std::int64_t position = is_last ? seq_len() - 1 : t;
          labels[position] = Answer(num_ones.words[0], t + 1);
        });
  }
};

}  // namespace mixerbench::tasks::circuits
