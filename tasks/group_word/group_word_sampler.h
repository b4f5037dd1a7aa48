// The sampler of group words; see group_word.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/group_word/group.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::group_word {

struct GroupWordSampler {
  Group group;
  std::uint32_t order = 0;  // of the group
  std::uint32_t input_seq_len = 0;
  const std::uint32_t* tables = nullptr;  // of the group

  MB_HOST_DEVICE std::int64_t scratch_words() const { return ScanScratchWords<kMaxFactors>(); }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kElementStream = 0;
    ForEachWord(
        lanes, sample, kElementStream, 0, input_seq_len, [&](std::uint32_t t, std::uint32_t word) {
          inputs[t] =
              static_cast<std::int32_t>(UniformFromWord(sample, kElementStream, t, word, order));
          labels[t] = kIgnore;
        });
    lanes.Sync();
    InclusiveScan(
        lanes, input_seq_len, group.Identity(),
        [&](std::int64_t t) {
          return group.ElementOf(static_cast<std::uint32_t>(inputs[t]), tables);
        },
        [this](const GroupElement& a, const GroupElement& b) { return group.Then(a, b); }, scratch,
        [&](std::int64_t t, const GroupElement& product) {
          if (mode == LabelMode::kTargetOnly && t + 1 != input_seq_len) return;
          labels[t] = static_cast<std::int32_t>(group.IdOf(product, tables));
        });
  }
};

}  // namespace mixerbench::tasks::group_word
