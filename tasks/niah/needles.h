// Keys and values of needles: words, numbers, UUIDs, as pure functions of their draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "tasks/sampling.h"

namespace mixerbench::tasks::niah {

enum class NeedleType { kWords, kNumbers, kUuids };

enum class PhraseSeparator { kHyphen, kSpace };

// "number" or "numbers".
std::string_view TypeNoun(NeedleType type, bool is_plural);

// Bytes of the longest key or value.
std::int64_t MaxBytes(NeedleType type, std::int64_t num_words);

struct Words {
  const std::vector<std::string>& adjectives;
  const std::vector<std::string>& nouns;
};

// Draw `e` of `stream`: "tested-formal", "3136088" or a version 4 UUID.
std::string DrawKey(const Words& words, const SampleStream& sample, std::uint32_t stream,
                    NeedleType type, std::uint32_t e);

// How values of type words are written: adjectives and nouns in turn.
struct Phrase {
  std::int64_t num_words = 2;
  PhraseSeparator separator = PhraseSeparator::kHyphen;
};

// As DrawKey. The words of a phrase after the second are draws first_extra_draw + 8 * e + t of
// stream 26.
std::string DrawValue(const Words& words, const SampleStream& sample, std::uint32_t stream,
                      NeedleType type, const Phrase& phrase, std::uint32_t e,
                      std::uint32_t first_extra_draw);

// "One of the special magic numbers for tested-formal is: 3136088."
std::string NeedleSentence(NeedleType value_type, std::string_view key, std::string_view value);

struct Needle {
  std::int64_t key = 0;  // index
  std::string value;
  std::string sentence;
};

// All needles of a sample: distinct keys, distinct values, those of key 0 first.
struct Needles {
  std::vector<std::string> keys;
  std::vector<Needle> needles;
};

struct NeedleCounts {
  NeedleType key_type = NeedleType::kWords;
  NeedleType value_type = NeedleType::kNumbers;
  std::int64_t num_keys = 1;
  std::int64_t num_values = 1;  // of each key
  Phrase phrase = {};
};

Needles DrawNeedles(const Words& words, const SampleStream& sample, const NeedleCounts& counts);

// A needle that nobody asks for, line `r` of a haystack made of such; its key is none of `keys`.
struct Distractor {
  std::string value;
  std::string sentence;
};
Distractor DrawDistractor(const Words& words, const SampleStream& sample,
                          const NeedleCounts& counts, const std::vector<std::string>& keys,
                          std::uint32_t r);

}  // namespace mixerbench::tasks::niah

template <>
struct mixerbench::EnumNames<mixerbench::tasks::niah::NeedleType> {
  using Type = tasks::niah::NeedleType;
  static constexpr std::pair<Type, std::string_view> kNames[] = {
      {Type::kWords, "words"}, {Type::kNumbers, "numbers"}, {Type::kUuids, "uuids"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::niah::PhraseSeparator> {
  using Separator = tasks::niah::PhraseSeparator;
  static constexpr std::pair<Separator, std::string_view> kNames[] = {
      {Separator::kHyphen, "hyphen"}, {Separator::kSpace, "space"}};
};
