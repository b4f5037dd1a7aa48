// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/needles.h"

#include <algorithm>

namespace mixerbench::tasks::niah {
namespace {

constexpr std::uint32_t kKeyStream = 16, kValueStream = 17, kDistractorKeyStream = 22,
                        kDistractorValueStream = 23, kPhraseStream = 26;
// Redraws of one key or value lie so far apart.
constexpr std::uint32_t kKeyStride = 64, kValueStride = 1024, kDistractorStride = 1u << 20;
// Where the further words of distractors' phrases begin, clear of those of needles.
constexpr std::uint32_t kDistractorPhrases = 1u << 31;

const std::string& DrawWord(const std::vector<std::string>& list, const SampleStream& sample,
                            std::uint32_t stream, std::uint32_t j) {
  return list[Uniform(sample, stream, j, static_cast<std::uint32_t>(list.size()))];
}

std::string DrawNumber(const SampleStream& sample, std::uint32_t stream, std::uint32_t e) {
  return std::to_string(1000000 + Uniform(sample, stream, e, 9000000));
}

// 8-4-4-4-12 digits; version 4, variant 1.
std::string DrawUuid(const SampleStream& sample, std::uint32_t stream, std::uint32_t e) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::size_t kVersion = 12, kVariant = 16;
  std::string text;
  for (std::size_t d = 0; d < 32; ++d) {
    const std::uint32_t word = Word(sample, stream, 4 * e + static_cast<std::uint32_t>(d) / 8);
    const std::uint32_t digit = (word >> (28 - 4 * (d % 8))) & 0xF;
    if (d == 8 || d == 12 || d == 16 || d == 20) text += '-';
    text += d == kVersion ? '4' : d == kVariant ? kHex[8 + digit % 4] : kHex[digit];
  }
  return text;
}

}  // namespace

std::string_view TypeNoun(NeedleType type, bool is_plural) {
  switch (type) {
    case NeedleType::kWords:
      return is_plural ? "words" : "word";
    case NeedleType::kNumbers:
      return is_plural ? "numbers" : "number";
    case NeedleType::kUuids:
      break;
  }
  return is_plural ? "uuids" : "uuid";
}

std::int64_t MaxBytes(NeedleType type, std::int64_t num_words) {
  constexpr std::int64_t kMaxWordBytes = 8;
  switch (type) {
    case NeedleType::kWords:
      return num_words * (kMaxWordBytes + 1) - 1;
    case NeedleType::kNumbers:
      return 7;
    case NeedleType::kUuids:
      break;
  }
  return 36;
}

std::string DrawKey(const Words& words, const SampleStream& sample, std::uint32_t stream,
                    NeedleType type, std::uint32_t e) {
  switch (type) {
    case NeedleType::kNumbers:
      return DrawNumber(sample, stream, e);
    case NeedleType::kUuids:
      return DrawUuid(sample, stream, e);
    case NeedleType::kWords:
      break;
  }
  return DrawWord(words.adjectives, sample, stream, 2 * e) + "-" +
         DrawWord(words.nouns, sample, stream, 2 * e + 1);
}

std::string DrawValue(const Words& words, const SampleStream& sample, std::uint32_t stream,
                      NeedleType type, const Phrase& phrase, std::uint32_t e,
                      std::uint32_t first_extra_draw) {
  if (type != NeedleType::kWords) return DrawKey(words, sample, stream, type, e);
  std::string text;
  for (std::uint32_t t = 0; t < static_cast<std::uint32_t>(phrase.num_words); ++t) {
    const std::vector<std::string>& list = t % 2 == 0 ? words.adjectives : words.nouns;
    if (t > 0) text += phrase.separator == PhraseSeparator::kHyphen ? '-' : ' ';
    text += t < 2 ? DrawWord(list, sample, stream, 2 * e + t)
                  : DrawWord(list, sample, kPhraseStream, first_extra_draw + 8 * e + t);
  }
  return text;
}

std::string NeedleSentence(NeedleType value_type, std::string_view key, std::string_view value) {
  std::string sentence = "One of the special magic ";
  sentence.append(TypeNoun(value_type, true)).append(" for ").append(key);
  return sentence.append(" is: ").append(value).append(".");
}

Needles DrawNeedles(const Words& words, const SampleStream& sample, const NeedleCounts& counts) {
  Needles drawn;
  const auto is_value = [&drawn](const std::string& text) {
    return std::any_of(drawn.needles.begin(), drawn.needles.end(),
                       [&](const Needle& needle) { return needle.value == text; });
  };
  for (std::int64_t q = 0; q < counts.num_keys; ++q) {
    std::string key;
    auto e = static_cast<std::uint32_t>(q);
    do {
      key = DrawKey(words, sample, kKeyStream, counts.key_type, e);
      e += kKeyStride;
    } while (std::find(drawn.keys.begin(), drawn.keys.end(), key) != drawn.keys.end());
    drawn.keys.push_back(key);
    for (std::int64_t v = 0; v < counts.num_values; ++v) {
      std::string value;
      auto f = static_cast<std::uint32_t>(q * counts.num_values + v);
      do {
        value = DrawValue(words, sample, kValueStream, counts.value_type, counts.phrase, f, 0);
        f += kValueStride;
      } while (is_value(value));
      drawn.needles.push_back({q, value, NeedleSentence(counts.value_type, key, value)});
    }
  }
  return drawn;
}

Distractor DrawDistractor(const Words& words, const SampleStream& sample,
                          const NeedleCounts& counts, const std::vector<std::string>& keys,
                          std::uint32_t r) {
  std::string key;
  std::uint32_t e = r;
  do {
    key = DrawKey(words, sample, kDistractorKeyStream, counts.key_type, e);
    e += kDistractorStride;
  } while (std::find(keys.begin(), keys.end(), key) != keys.end());
  const std::string value = DrawValue(words, sample, kDistractorValueStream, counts.value_type,
                                      counts.phrase, e - kDistractorStride, kDistractorPhrases);
  return {value, NeedleSentence(counts.value_type, key, value)};
}

}  // namespace mixerbench::tasks::niah
