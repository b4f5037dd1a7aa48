// What a task writes once and the CPU and the GPU both run: a sampler.
//
// A sampler is a trivially copyable struct of host-built parameters with two members:
//
//   // 32-bit words of working memory that one sample needs.
//   std::int64_t scratch_words() const;
//
//   // Writes one sample. inputs, labels: [seq_len]; scratch: [scratch_words()].
//   template <typename Lanes>
//   MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
//                                std::int32_t* inputs, std::int32_t* labels,
//                                std::uint32_t* scratch) const;
//
// and, when it reads integer tables, `const std::uint32_t* tables` (host or device memory).
//
// Every lane executes Generate from top to bottom; `lanes` shares the work out:
//   lanes.Serial(f, g, ...)  each function runs once, on one lane, different ones perhaps at once
//   lanes.Split(f, g, ...)   each runs once as f(team), on a team of lanes, different ones perhaps
//                            at once; the team is lanes itself, its Sync concerns the team alone
//   lanes.ForEach(n, f)      f(0) ... f(n-1), each once, in no particular order
//   lanes.Sync()             what was written before is visible to every lane after
//   team.Count(n, f)         how many of f(0) ... f(n-1) are true, told to every lane of a team
// A team whose kIsWarp is true has what warp_pick.h asks for besides.
// Serial, Split and ForEach do not wait: two steps with no Sync between them may run at the same
// time, so one may not read or overwrite what the other writes. Since every random draw is
// addressed by (stream, index), nothing depends on which lane makes it: the bytes cannot differ
// between one lane (CPU), a group of threads (device_generate.cuh) and any other sharing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tasks/sampling.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// One lane does everything, in the order written: the CPU.
struct OneLane {
  static constexpr bool kIsParallel = false;
  static constexpr bool kIsWarp = false;

  template <typename... Steps>
  MB_HOST_DEVICE void Serial(const Steps&... steps) const {
    (steps(), ...);
  }
  template <typename... Steps>
  MB_HOST_DEVICE void Split(const Steps&... steps) const {
    (steps(*this), ...);
  }
  template <typename Step>
  MB_HOST_DEVICE void ForEach(std::int64_t count, const Step& step) const {
    for (std::int64_t i = 0; i < count; ++i) step(i);
  }
  template <typename Predicate>
  MB_HOST_DEVICE std::uint32_t Count(std::uint32_t count, const Predicate& predicate) const {
    std::uint32_t num_true = 0;
    for (std::uint32_t i = 0; i < count; ++i) num_true += predicate(i);
    return num_true;
  }
  MB_HOST_DEVICE void Sync() const {}
};

// Calls step(j, Word(sample, stream, j)) for j = first .. last-1, one Philox block for the four
// words that share it. One lane makes four blocks at a time where it can.
template <typename Lanes, typename Step>
MB_HOST_DEVICE void ForEachWord(const Lanes& lanes, const SampleStream& sample,
                                std::uint32_t stream, std::uint32_t first, std::uint32_t last,
                                const Step& step) {
  if (first >= last) return;
  if constexpr (Lanes::kIsParallel) {
    const std::uint32_t first_block = first / 4;
    lanes.ForEach((last + 3) / 4 - first_block, [&](std::int64_t i) {
      const std::uint32_t block = first_block + static_cast<std::uint32_t>(i);
      const PhiloxBlock words = Words(sample, stream, block);
      for (std::uint32_t lane = 0; lane < 4; ++lane) {
        const std::uint32_t j = 4 * block + lane;
        if (j >= first && j < last) step(j, words.words[lane]);
      }
    });
  } else {
    for (std::uint32_t j = first; j < last;) {
      if (j % 4 == 0 && last - j >= 16) {
        std::uint32_t words[16];
        SixteenWords(sample, stream, j / 4, words);
        for (const std::uint32_t word : words) step(j++, word);
      } else {
        const PhiloxBlock words = Words(sample, stream, j / 4);
        for (std::uint32_t lane = j % 4; lane < 4 && j < last; ++lane) step(j++, words.words[lane]);
      }
    }
  }
}

// Ascending heap sort in place.
MB_HOST_DEVICE inline void SortWords(std::uint32_t* words, std::uint32_t count) {
  const auto sift_down = [words](std::uint32_t root, std::uint32_t end) {
    for (std::uint32_t child = 2 * root + 1; child < end; child = 2 * root + 1) {
      if (child + 1 < end && words[child] < words[child + 1]) ++child;
      if (words[root] >= words[child]) return;
      SwapWords(words[root], words[child]);
      root = child;
    }
  };
  for (std::uint32_t root = count / 2; root-- > 0;) sift_down(root, count);
  for (std::uint32_t end = count; end-- > 1;) {
    SwapWords(words[0], words[end]);
    sift_down(0, end);
  }
}

// Sorts distinct words: sorted = words in ascending order. words, sorted: [count], not
// overlapping. Parallel lanes each place their words by counting the smaller ones, which takes
// count^2 / lanes comparisons and no synchronisation; one lane sorts.
template <typename Lanes>
MB_HOST_DEVICE void SortDistinct(const Lanes& lanes, const std::uint32_t* words,
                                 std::uint32_t count, std::uint32_t* sorted) {
  if constexpr (Lanes::kIsParallel) {
    lanes.ForEach(count, [&](std::int64_t i) {
      std::uint32_t rank = 0;
      for (std::uint32_t other = 0; other < count; ++other) rank += words[other] < words[i];
      sorted[rank] = words[i];
    });
  } else {
    for (std::uint32_t i = 0; i < count; ++i) sorted[i] = words[i];
    SortWords(sorted, count);
  }
}

// The labels before the answers are written over them. kAllTokens: the next input, none at the
// last position; else none at all. Synchronises, so `inputs` may have been written just before
// and answers may be written right after.
template <typename Lanes>
MB_HOST_DEVICE void WriteBackgroundLabels(const Lanes& lanes, LabelMode mode, std::int64_t seq_len,
                                          const std::int32_t* inputs, std::int32_t* labels) {
  if (mode == LabelMode::kAllTokens) lanes.Sync();
  const bool has_next = mode == LabelMode::kAllTokens;
  lanes.ForEach(seq_len, [&](std::int64_t t) {
    labels[t] = has_next && t + 1 < seq_len ? inputs[t + 1] : kIgnore;
  });
  lanes.Sync();
}

// A task whose samples come from a sampler: the base class of every token task.
template <typename Sampler>
class SampledTask : public Task {
  static_assert(std::is_trivially_copyable_v<Sampler>,
                "samplers are copied to the device as bytes");

 public:
  ~SampledTask() override = default;

  void Generate(const SampleStream& stream, LabelMode mode, std::span<std::int32_t> inputs,
                std::span<std::int32_t> labels, std::span<std::uint32_t> scratch) const final {
    const TaskShape sizes = shape();
    Require(std::ssize(inputs) == sizes.seq_len && std::ssize(labels) == sizes.seq_len,
            "inputs and labels hold one sequence");
    Require(std::ssize(scratch) >= sizes.scratch_words, "scratch is large enough");
    sampler_.Generate(OneLane{}, stream, mode, inputs.data(), labels.data(), scratch.data());
  }

  std::span<const std::uint32_t> tables() const final { return tables_; }

  // The sampler with its tables at `tables`, a copy of tables() in another memory.
  Sampler SamplerWithTables(const std::uint32_t* tables) const {
    Sampler copy = sampler_;
    if constexpr (requires { copy.tables; }) copy.tables = tables;
    return copy;
  }

 protected:
  explicit SampledTask(const Sampler& sampler, std::vector<std::uint32_t> tables = {})
      : tables_(std::move(tables)), sampler_(sampler) {
    sampler_ = SamplerWithTables(tables_.data());
  }
  SampledTask(const SampledTask&) = delete;
  SampledTask& operator=(const SampledTask&) = delete;

  const Sampler& sampler() const { return sampler_; }

 private:
  std::vector<std::uint32_t> tables_;
  Sampler sampler_;
};

}  // namespace mixerbench::tasks
