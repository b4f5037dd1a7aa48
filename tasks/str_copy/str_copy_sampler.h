// The sampler of string copying and n-gram lookup; see str_copy.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::str_copy {

enum class Variant : std::int32_t {
  kCopy,            // $ s | s .
  kPrefixNgram,     // $ g | s | r .
  kSuffixNgram,     // $ s | g r .
  kDuplicateNgram,  // kCopy of a string in which an n-gram occurs twice
};

// Draws of an n-gram's start use indices example + kRedrawStep * redraw.
inline constexpr std::uint32_t kRedrawStep = 4096;

struct StrCopySampler {
  Variant variant = Variant::kCopy;
  std::uint32_t alphabet_size = 0;
  std::uint32_t min_len = 0;
  std::uint32_t max_len = 0;
  std::uint32_t context_len = 0;
  std::uint32_t n_gram = 0;
  std::uint32_t answer_len = 0;  // 0: to the end
  bool is_packed = true;

  // Letters 0..alphabet_size-1, then the marks.
  MB_HOST_DEVICE std::uint32_t begin_mark() const { return alphabet_size; }
  MB_HOST_DEVICE std::uint32_t bar() const { return alphabet_size + 1; }
  MB_HOST_DEVICE std::uint32_t end_mark() const { return alphabet_size + 2; }
  MB_HOST_DEVICE std::uint32_t pad() const { return alphabet_size + 3; }

  MB_HOST_DEVICE bool is_lookup() const {
    return variant == Variant::kPrefixNgram || variant == Variant::kSuffixNgram;
  }
  MB_HOST_DEVICE std::uint32_t min_answer_len() const { return answer_len == 0 ? 1 : answer_len; }

  // Tokens before the answer of a string of `len` letters.
  MB_HOST_DEVICE std::uint32_t prompt_len(std::uint32_t len) const {
    switch (variant) {
      case Variant::kPrefixNgram:
        return len + n_gram + 3;
      case Variant::kSuffixNgram:
        return len + n_gram + 2;
      default:
        return len + 2;
    }
  }
  // Letters of the answer, which follow the n-gram at `start` in a lookup.
  MB_HOST_DEVICE std::uint32_t reply_len(std::uint32_t len, std::uint32_t start) const {
    if (!is_lookup()) return len;
    return answer_len == 0 ? len - start - n_gram : answer_len;
  }
  // Examples that begin within the context, at most: all but the last are there as a whole.
  MB_HOST_DEVICE std::uint32_t max_examples() const {
    if (!is_packed) return 1;
    const std::uint32_t shortest =
        prompt_len(min_len) + 1 + (is_lookup() ? min_answer_len() : min_len);
    return (context_len + shortest - 1) / shortest;
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return std::int64_t{max_examples()} * (std::int64_t{max_len} + 3) + 2;
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kLengthStream = 0, kLetterStream = 1;
    std::uint32_t* const lens = scratch;                    // [max_examples]
    std::uint32_t* const starts = lens + max_examples();    // [max_examples], of the n-gram
    std::uint32_t* const begins = starts + max_examples();  // [max_examples], position of `$`
    std::uint32_t* const num_examples = begins + max_examples();
    std::uint32_t* const num_scored = num_examples + 1;  // examples
    std::uint32_t* const all_letters = num_scored + 1;   // [max_examples, max_len]

    ForEachWord(
        lanes, sample, kLengthStream, 0, max_examples(), [&](std::uint32_t e, std::uint32_t word) {
          lens[e] =
              min_len + UniformFromWord(sample, kLengthStream, e, word, max_len - min_len + 1);
        });
    ForEachWord(lanes, sample, kLetterStream, 0, max_examples() * max_len,
                [&](std::uint32_t i, std::uint32_t word) {
                  all_letters[i] = UniformFromWord(sample, kLetterStream, i, word, alphabet_size);
                });
    lanes.Sync();
    lanes.ForEach(max_examples(), [&](std::int64_t i) {
      const auto e = static_cast<std::uint32_t>(i);
      std::uint32_t* const letters = all_letters + i * max_len;
      starts[e] = is_lookup() ? PickStart(sample, e, letters, lens[e]) : 0;
      if (variant == Variant::kDuplicateNgram) DoubleNgram(sample, e, letters, lens[e]);
    });
    lanes.Sync();
    lanes.Serial([&] {
      std::uint32_t position = 0;
      *num_examples = 0;
      *num_scored = 0;
      while (position < context_len && *num_examples < max_examples()) {
        const std::uint32_t e = (*num_examples)++;
        begins[e] = position;
        position += prompt_len(lens[e]) + reply_len(lens[e], starts[e]) + 1;
        // The final end mark may stand right behind the context: it is a label, not an input.
        if (position - 1 <= context_len || e == 0) ++*num_scored;
      }
    });
    lanes.Sync();
    if (!is_packed) {
      const std::uint32_t len = prompt_len(lens[0]) + reply_len(lens[0], starts[0]) + 1;
      lanes.ForEach(len < context_len ? context_len - len : 0,
                    [&](std::int64_t i) { inputs[len + i] = static_cast<std::int32_t>(pad()); });
    }
    for (std::uint32_t e = 0; e < *num_examples; ++e) {
      const std::uint32_t len = prompt_len(lens[e]) + reply_len(lens[e], starts[e]) + 1;
      const std::uint32_t room = context_len - begins[e];
      lanes.ForEach(len < room ? len : room, [&](std::int64_t q) {
        inputs[begins[e] + q] = static_cast<std::int32_t>(
            TokenAt(static_cast<std::uint32_t>(q), all_letters + std::int64_t{e} * max_len, lens[e],
                    starts[e]));
      });
    }
    WriteBackgroundLabels(lanes, mode, context_len, inputs, labels);
    const std::uint32_t first_scored = mode == LabelMode::kTargetOnly ? *num_scored - 1 : 0;
    for (std::uint32_t e = first_scored; e < *num_scored; ++e) {
      const std::uint32_t prompt = prompt_len(lens[e]);
      const std::uint32_t room = context_len - begins[e] - (prompt - 1);
      const std::uint32_t num_labels = reply_len(lens[e], starts[e]) + 1;
      lanes.ForEach(num_labels < room ? num_labels : room, [&](std::int64_t i) {
        const std::uint32_t q = prompt + static_cast<std::uint32_t>(i);
        labels[begins[e] + q - 1] = static_cast<std::int32_t>(
            TokenAt(q, all_letters + std::int64_t{e} * max_len, lens[e], starts[e]));
      });
    }
  }

 private:
  static constexpr std::uint32_t kStartStream = 2;

  // Token q of an example: a string of `len` letters, looked up at `start`.
  MB_HOST_DEVICE std::uint32_t TokenAt(std::uint32_t q, const std::uint32_t* letters,
                                       std::uint32_t len, std::uint32_t start) const {
    const std::uint32_t prompt = prompt_len(len);
    if (q >= prompt) {
      const std::uint32_t i = q - prompt;
      if (i == reply_len(len, start)) return end_mark();
      return letters[is_lookup() ? start + n_gram + i : i];
    }
    if (q == 0) return begin_mark();
    --q;
    if (variant == Variant::kPrefixNgram) {
      if (q < n_gram) return letters[start + q];
      if (q == n_gram) return bar();
      q -= n_gram + 1;
    }
    if (q < len) return letters[q];
    if (q == len) return bar();
    return letters[start + q - len - 1];  // of a suffix lookup
  }

  // Where the n-gram that is asked for starts: uniform over the starts of n-grams that occur once.
  // Ten failed redraws ask for the first occurrence of the last one drawn.
  MB_HOST_DEVICE std::uint32_t PickStart(const SampleStream& sample, std::uint32_t example,
                                         const std::uint32_t* letters, std::uint32_t len) const {
    constexpr std::uint32_t kMaxRedraws = 10;
    const std::uint32_t num_starts = len - n_gram - min_answer_len() + 1;
    for (std::uint32_t redraw = 0;; ++redraw) {
      const std::uint32_t start =
          Uniform(sample, kStartStream, example + kRedrawStep * redraw, num_starts);
      std::uint32_t first = 0;
      while (!IsSame(letters, first, start)) ++first;
      std::uint32_t next = start + 1;
      while (next + n_gram <= len && !IsSame(letters, next, start)) ++next;
      const bool is_unique = first == start && next + n_gram > len;
      if (is_unique || redraw == kMaxRedraws) return first;
    }
  }

  // Overwrites an n-gram by another one that does not overlap it.
  MB_HOST_DEVICE void DoubleNgram(const SampleStream& sample, std::uint32_t example,
                                  std::uint32_t* letters, std::uint32_t len) const {
    // Two different numbers below len - 2 * n_gram + 2: put n_gram - 1 between them.
    std::uint32_t places[2];
    PickFew(sample, kStartStream, len - 2 * n_gram + 2, 2, 2 * example, places);
    const bool is_ascending = places[0] < places[1];
    const std::uint32_t source = places[0] + (is_ascending ? 0 : n_gram - 1);
    const std::uint32_t target = places[1] + (is_ascending ? n_gram - 1 : 0);
    for (std::uint32_t i = 0; i < n_gram; ++i) letters[target + i] = letters[source + i];
  }

  MB_HOST_DEVICE bool IsSame(const std::uint32_t* letters, std::uint32_t a, std::uint32_t b) const {
    std::uint32_t i = 0;
    while (i < n_gram && letters[a + i] == letters[b + i]) ++i;
    return i == n_gram;
  }
};

}  // namespace mixerbench::tasks::str_copy
