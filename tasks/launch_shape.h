// Launch shapes of the CUDA generator, as a pure function that the host can test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mixerbench::tasks {

inline constexpr std::uint32_t kWarpSize = 32;

// Shared memory of a block that needs no permission.
inline constexpr std::int64_t kDefaultSharedBytes = 48 << 10;

// No block has more threads, so a thread may use as many registers as let four such blocks reside.
inline constexpr int kMaxThreadsPerBlock = 256;
inline constexpr int kMinBlocksPerMultiprocessor = 4;

struct GeneratorShape {
  std::uint32_t threads_per_sample = 0;
  std::uint32_t samples_per_block = 0;
  std::uint32_t num_blocks = 0;
  std::uint32_t staged_words = 0;      // for inputs and again for labels; 0: not in shared memory
  std::uint32_t words_per_sample = 0;  // shared memory of a sample; rows in it are aligned
};

// How to spread `count` samples over the GPU. threads_per_sample: a multiple of 32 up to 256, or 0
// for a warp for every 128 tokens, up to eight: a thread turns one Philox block into four tokens.
// Nothing when the working memory of a sample, scratch_words, is larger than any block's, or the
// number of threads is none of those.
constexpr std::optional<GeneratorShape> ChooseGeneratorShape(std::int64_t seq_len,
                                                             std::int64_t scratch_words,
                                                             std::int64_t count,
                                                             int threads_per_sample = 0) {
  constexpr std::int64_t kMaxThreads = kMaxThreadsPerBlock;
  constexpr std::int64_t kThreadsPerBlock = 128;  // of several samples; a block has 16 barriers
  constexpr std::int64_t kMaxStagedTokens = 2 << 10;
  constexpr std::int64_t kMaxSharedBytes = 1 << 20;  // beyond every GPU's; the launch has the say
  constexpr std::int64_t kMaxBlocks = 1 << 16;       // the rest is the grid-stride loop
  if (threads_per_sample < 0 || threads_per_sample > kMaxThreads ||
      threads_per_sample % kWarpSize != 0) {
    return std::nullopt;
  }
  const std::int64_t threads =
      threads_per_sample != 0
          ? threads_per_sample
          : kWarpSize * std::clamp<std::int64_t>((seq_len + 127) / 128, 1, kMaxThreads / kWarpSize);
  // Up to three words more, to be misaligned like the row in global memory.
  const auto aligned = [](std::int64_t words) { return (words + 3) / 4 * 4; };
  const std::int64_t staged = seq_len <= kMaxStagedTokens ? aligned(seq_len + 3) : 0;
  const std::int64_t words = 2 * staged + aligned(std::min(scratch_words, kMaxSharedBytes));
  if (4 * words > kMaxSharedBytes) return std::nullopt;

  std::int64_t samples_per_block = std::max<std::int64_t>(kThreadsPerBlock / threads, 1);
  if (4 * words * samples_per_block > kDefaultSharedBytes) samples_per_block = 1;
  const std::int64_t num_blocks = (count + samples_per_block - 1) / samples_per_block;
  return GeneratorShape{.threads_per_sample = static_cast<std::uint32_t>(threads),
                        .samples_per_block = static_cast<std::uint32_t>(samples_per_block),
                        .num_blocks = static_cast<std::uint32_t>(std::min(num_blocks, kMaxBlocks)),
                        .staged_words = static_cast<std::uint32_t>(staged),
                        .words_per_sample = static_cast<std::uint32_t>(words)};
}

}  // namespace mixerbench::tasks
