// The sampling contract: every random number is a pure function of (key, sample, stream, index).
// Integer arithmetic only, shared by the CPU and the GPU, so both give the same bytes. The bits
// are specified in tasks/README.md and pinned by sampling_test.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/philox.h"

// For rare paths: inlined, each draw of a sampler would carry a copy of Philox.
#ifdef __CUDACC__
#define MB_NOINLINE __noinline__
#else
#define MB_NOINLINE [[gnu::noinline]]
#endif

namespace mixerbench::tasks {

using mixerbench::PhiloxKey;

// The random streams of one sample. A draw is addressed by (stream, index): no state, any order.
struct SampleStream {
  PhiloxKey key;
  std::uint64_t index = 0;
};

constexpr std::uint64_t Fnv1a64(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash;
}

// The finaliser of SplitMix64: a bijection of 64-bit words.
constexpr std::uint64_t Mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The key of all samples of one (task and parameters, seed, split). `canon` comes from canon.h.
constexpr PhiloxKey DeriveKey(std::string_view canon, std::uint64_t seed, std::uint64_t split) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = Mix64(Fnv1a64(canon) + kGolden);
  hash = Mix64((hash ^ seed) + kGolden);
  hash = Mix64((hash ^ split) + kGolden);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

// Words 4*block .. 4*block+3 of `stream` (< 0x8000).
MB_HOST_DEVICE inline PhiloxBlock Words(const SampleStream& sample, std::uint32_t stream,
                                        std::uint32_t block) {
  return Philox4x32(block, stream, static_cast<std::uint32_t>(sample.index),
                    static_cast<std::uint32_t>(sample.index >> 32), sample.key);
}

// Words 4*block .. 4*block+15 of `stream`: four blocks side by side, in loops of four that
// compilers turn into vector instructions. words: [16].
MB_HOST_DEVICE inline void SixteenWords(const SampleStream& sample, std::uint32_t stream,
                                        std::uint32_t block, std::uint32_t* words) {
  std::uint32_t counters[4][4];  // [word of the counter, block]
  for (std::uint32_t i = 0; i < 4; ++i) {
    counters[0][i] = block + i;
    counters[1][i] = stream;
    counters[2][i] = static_cast<std::uint32_t>(sample.index);
    counters[3][i] = static_cast<std::uint32_t>(sample.index >> 32);
  }
  PhiloxKey key = sample.key;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < 4; ++i) {
      PhiloxRound(counters[0][i], counters[1][i], counters[2][i], counters[3][i], key);
    }
    AdvancePhiloxKey(key);
  }
  for (int i = 0; i < 4; ++i) {
    for (int word = 0; word < 4; ++word) words[4 * i + word] = counters[word][i];
  }
}

// Word j of `stream`.
MB_HOST_DEVICE inline std::uint32_t Word(const SampleStream& sample, std::uint32_t stream,
                                         std::uint32_t j) {
  return Words(sample, stream, j / 4).words[j % 4];
}

// Word(j) for a run of neighbouring j: one Philox block serves four of them.
class WordReader {
 public:
  MB_HOST_DEVICE WordReader(const SampleStream& sample, std::uint32_t stream)
      : sample_(sample), stream_(stream) {}

  MB_HOST_DEVICE std::uint32_t Word(std::uint32_t j) {
    if (j / 4 != block_index_) {
      block_index_ = j / 4;
      block_ = Words(sample_, stream_, block_index_);
    }
    return block_.words[j % 4];
  }

 private:
  SampleStream sample_;
  std::uint32_t stream_;
  std::uint32_t block_index_ = 0xFFFFFFFFu;  // no block has this index: j / 4 < 2^30
  PhiloxBlock block_{};
};

// 2^32 mod n. For large n, which ask for it often, by a few subtractions instead of a division.
MB_HOST_DEVICE inline std::uint32_t RemainderOfAllWords(std::uint32_t n) {
  std::uint32_t rest = 0u - n;  // 2^32 - n
  if (n < 1u << 29) return rest % n;
  // At most 7 n: by four, two and one.
  rest -= rest / 4 >= n ? 4 * n : 0;
  rest -= rest / 2 >= n ? 2 * n : 0;
  rest -= rest >= n ? n : 0;
  return rest;
}

// The four words that draw j of `stream` tries in turn at its `attempt`, 1 or more, after its own
// was rejected: at counters that no other draw uses.
MB_HOST_DEVICE inline PhiloxBlock RetryWords(const SampleStream& sample, std::uint32_t stream,
                                             std::uint32_t j, std::uint32_t attempt) {
  return Philox4x32(j, stream + (attempt << 16), static_cast<std::uint32_t>(sample.index),
                    static_cast<std::uint32_t>(sample.index >> 32), sample.key);
}

// What a rejected draw becomes (probability < n/2^32): made of the first accepted word of those.
MB_HOST_DEVICE MB_NOINLINE inline std::uint32_t RetriedUniform(SampleStream sample,
                                                               std::uint32_t stream,
                                                               std::uint32_t j, std::uint32_t n,
                                                               std::uint32_t threshold) {
  for (std::uint32_t attempt = 1;; ++attempt) {
    const PhiloxBlock retry = RetryWords(sample, stream, j, attempt);
    for (const std::uint32_t word : retry.words) {
      const std::uint64_t product = static_cast<std::uint64_t>(word) * n;
      if (static_cast<std::uint32_t>(product) >= threshold) {
        return static_cast<std::uint32_t>(product >> 32);
      }
    }
  }
}

// Uniform on 0..n-1, exactly, given `word` = Word(sample, stream, j); 1 <= n <= 2^32-1.
// Multiply-shift with rejection.
MB_HOST_DEVICE inline std::uint32_t UniformFromWord(const SampleStream& sample,
                                                    std::uint32_t stream, std::uint32_t j,
                                                    std::uint32_t word, std::uint32_t n) {
  const std::uint64_t product = static_cast<std::uint64_t>(word) * n;
  if (static_cast<std::uint32_t>(product) < n) {
    const std::uint32_t threshold = RemainderOfAllWords(n);
    if (static_cast<std::uint32_t>(product) < threshold) {
      return RetriedUniform(sample, stream, j, n, threshold);
    }
  }
  return static_cast<std::uint32_t>(product >> 32);
}

// U(stream, j, n): uniform on 0..n-1.
MB_HOST_DEVICE inline std::uint32_t Uniform(const SampleStream& sample, std::uint32_t stream,
                                            std::uint32_t j, std::uint32_t n) {
  return UniformFromWord(sample, stream, j, Word(sample, stream, j), n);
}

// floor(p * 2^32) for 0 <= p <= 1; scaling by a power of two is exact.
inline std::uint64_t BernoulliThreshold(double p) {
  return static_cast<std::uint64_t>(p * 4294967296.0);
}

// True with the probability of `threshold`; 0 never, 1 always.
MB_HOST_DEVICE inline bool BernoulliFromWord(std::uint32_t word, std::uint64_t threshold) {
  return word < threshold;
}

MB_HOST_DEVICE inline bool Bernoulli(const SampleStream& sample, std::uint32_t stream,
                                     std::uint32_t j, std::uint64_t threshold) {
  return BernoulliFromWord(Word(sample, stream, j), threshold);
}

// A map from words below 2^32-1 to words, by open addressing in caller-given memory.
class WordMap {
 public:
  // log2 of the number of cells that keeps the map at most half full.
  MB_HOST_DEVICE static constexpr std::uint32_t Log2Cells(std::uint32_t max_entries) {
    std::uint32_t log2 = 1;
    while ((std::uint64_t{1} << log2) < 2 * std::uint64_t{max_entries}) ++log2;
    return log2;
  }
  MB_HOST_DEVICE static constexpr std::int64_t ScratchWords(std::uint32_t max_entries) {
    return std::int64_t{2} << Log2Cells(max_entries);
  }

  // memory: [ScratchWords(max_entries)].
  MB_HOST_DEVICE WordMap(std::uint32_t* memory, std::uint32_t max_entries)
      : log2_(Log2Cells(max_entries)), keys_(memory), values_(memory + (std::size_t{1} << log2_)) {
    for (std::uint32_t cell = 0; cell <= mask(); ++cell) keys_[cell] = kEmpty;
  }

  // The value of `key`, which is `initial` when the key is new.
  MB_HOST_DEVICE std::uint32_t& FindOrInsert(std::uint32_t key, std::uint32_t initial) {
    std::uint32_t cell = (key * 0x9E3779B1u) >> (32 - log2_);  // Fibonacci hashing
    while (keys_[cell] != key) {
      if (keys_[cell] == kEmpty) {
        keys_[cell] = key;
        values_[cell] = initial;
        break;
      }
      cell = (cell + 1) & mask();
    }
    return values_[cell];
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFFu;
  MB_HOST_DEVICE std::uint32_t mask() const { return (1u << log2_) - 1; }

  std::uint32_t log2_;
  std::uint32_t* keys_;
  std::uint32_t* values_;
};

MB_HOST_DEVICE inline void SwapWords(std::uint32_t& a, std::uint32_t& b) {
  const std::uint32_t old = a;
  a = b;
  b = old;
}

// Working memory of Pick, in words.
MB_HOST_DEVICE constexpr std::int64_t PickScratchWords(std::uint32_t n, std::uint32_t k) {
  return k == n ? 0 : WordMap::ScratchWords(k);
}

// An ordered choice of k distinct values of 0..n-1, uniform over all of them: the first k steps
// of a Fisher-Yates shuffle that draw at indices base, base+1, ... of `stream`.
// out: [k]; scratch: [PickScratchWords(n, k)]. O(k) time and memory: `out` is the head of the
// shuffled array and the map holds the displaced entries of its tail.
MB_HOST_DEVICE inline void Pick(const SampleStream& sample, std::uint32_t stream, std::uint32_t n,
                                std::uint32_t k, std::uint32_t base, std::uint32_t* out,
                                std::uint32_t* scratch) {
  WordReader reader(sample, stream);
  for (std::uint32_t t = 0; t < k; ++t) out[t] = t;
  const auto draw = [&](std::uint32_t t) {
    return t + UniformFromWord(sample, stream, base + t, reader.Word(base + t), n - t);
  };
  if (k == n) {
    for (std::uint32_t t = 0; t < k; ++t) SwapWords(out[t], out[draw(t)]);
    return;
  }
  WordMap tail(scratch, k);
  for (std::uint32_t t = 0; t < k; ++t) {
    const std::uint32_t r = draw(t);
    SwapWords(out[t], r < k ? out[r] : tail.FindOrInsert(r, r));
  }
}

// The first i with words[i] == word, or count.
MB_HOST_DEVICE inline std::uint32_t FindWord(const std::uint32_t* words, std::uint32_t count,
                                             std::uint32_t word) {
  std::uint32_t i = 0;
  while (i < count && words[i] != word) ++i;
  return i;
}

// The largest k of PickFew.
inline constexpr std::uint32_t kMaxFew = 16;

// Pick for k <= kMaxFew without working memory: O(k^2), in registers. out: [k].
MB_HOST_DEVICE inline void PickFew(const SampleStream& sample, std::uint32_t stream,
                                   std::uint32_t n, std::uint32_t k, std::uint32_t base,
                                   std::uint32_t* out) {
  // The entries of the shuffled array that differ from its start, the identity.
  std::uint32_t places[kMaxFew] = {};
  std::uint32_t values[kMaxFew] = {};
  std::uint32_t count = 0;
  WordReader reader(sample, stream);
  for (std::uint32_t t = 0; t < k; ++t) {
    const std::uint32_t r =
        t + UniformFromWord(sample, stream, base + t, reader.Word(base + t), n - t);
    const std::uint32_t at_t = FindWord(places, count, t);
    const std::uint32_t value_at_t = at_t < count ? values[at_t] : t;
    const std::uint32_t at_r = FindWord(places, count, r);
    out[t] = at_r < count ? values[at_r] : r;
    places[at_r] = r;
    values[at_r] = value_at_t;
    if (at_r == count) ++count;
  }
}

// Image of x under a keyed permutation of 0..n-1 with random access (eight Feistel rounds and
// cycle walking). For the order of data sets; task content needs all n! permutations: Pick.
MB_HOST_DEVICE inline std::uint64_t Feistel(const SampleStream& sample, std::uint32_t stream,
                                            std::uint64_t n, std::uint64_t x) {
  std::uint32_t bits = 0;
  while (bits < 64 && ((n - 1) >> bits) != 0) ++bits;
  const std::uint32_t half = bits <= 2 ? 1 : (bits + 1) / 2;
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << half) - 1);
  do {
    std::uint32_t left = static_cast<std::uint32_t>(x >> half);
    std::uint32_t right = static_cast<std::uint32_t>(x) & mask;
    for (std::uint32_t round = 0; round < 8; ++round) {
      const PhiloxBlock block = Philox4x32(
          right, stream + ((0x8000u + round) << 16), static_cast<std::uint32_t>(sample.index),
          static_cast<std::uint32_t>(sample.index >> 32), sample.key);
      const std::uint32_t next = left ^ (block.words[0] & mask);
      left = right;
      right = next;
    }
    x = (static_cast<std::uint64_t>(left) << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace mixerbench::tasks
