// Running results of an associative operation over the tokens of a sample, shared out over lanes:
// how a sampler follows a state through the sequence (parities, sums, products of a group).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace mixerbench::tasks {

// An element of a scan, kept as words so that lanes can pass it on through scratch memory.
template <std::uint32_t kNumWords>
struct ScanState {
  std::uint32_t words[kNumWords];
};

inline constexpr std::int64_t kNumScanChunks = 32;

// Working memory of InclusiveScan, in words.
template <std::uint32_t kNumWords>
constexpr std::int64_t ScanScratchWords() {
  return kNumScanChunks * kNumWords;
}

// Calls emit(i, load(0) * load(1) * ... * load(i)) for i = 0 .. count-1, where a * b is
// combine(a, b): associative, with a neutral `identity`. scratch: [ScanScratchWords].
// One lane runs through. Parallel lanes first combine chunks, then the results of the chunks on
// one lane, then run through each chunk: what `load` reads must be visible before the call, and
// what `emit` writes is not before a Sync after it.
template <typename Lanes, std::uint32_t kNumWords, typename Load, typename Combine, typename Emit>
MB_HOST_DEVICE void InclusiveScan(const Lanes& lanes, std::int64_t count,
                                  const ScanState<kNumWords>& identity, const Load& load,
                                  const Combine& combine, std::uint32_t* scratch,
                                  const Emit& emit) {
  using State = ScanState<kNumWords>;
  if constexpr (!Lanes::kIsParallel) {
    State state = identity;
    for (std::int64_t i = 0; i < count; ++i) {
      state = combine(state, load(i));
      emit(i, state);
    }
  } else {
    const std::int64_t chunk_size = (count + kNumScanChunks - 1) / kNumScanChunks;
    const auto chunk_end = [=](std::int64_t chunk) {
      return (chunk + 1) * chunk_size < count ? (chunk + 1) * chunk_size : count;
    };
    const auto store = [scratch](std::int64_t chunk, const State& state) {
      for (std::uint32_t w = 0; w < kNumWords; ++w) scratch[chunk * kNumWords + w] = state.words[w];
    };
    const auto stored = [scratch](std::int64_t chunk) {
      State state;
      for (std::uint32_t w = 0; w < kNumWords; ++w) state.words[w] = scratch[chunk * kNumWords + w];
      return state;
    };

    lanes.ForEach(kNumScanChunks, [&](std::int64_t chunk) {
      State state = identity;
      for (std::int64_t i = chunk * chunk_size; i < chunk_end(chunk); ++i) {
        state = combine(state, load(i));
      }
      store(chunk, state);
    });
    lanes.Sync();
    lanes.Serial([&] {  // results of the chunks become what comes before each of them
      State before = identity;
      for (std::int64_t chunk = 0; chunk < kNumScanChunks; ++chunk) {
        const State own = stored(chunk);
        store(chunk, before);
        before = combine(before, own);
      }
    });
    lanes.Sync();
    lanes.ForEach(kNumScanChunks, [&](std::int64_t chunk) {
      State state = stored(chunk);
      for (std::int64_t i = chunk * chunk_size; i < chunk_end(chunk); ++i) {
        state = combine(state, load(i));
        emit(i, state);
      }
    });
  }
}

}  // namespace mixerbench::tasks
