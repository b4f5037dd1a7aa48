// Reads a serialised SentencePiece model without the library, which trusts what it loads: limits
// first, then what text tasks need to know of the pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::tasks {

// Limits on untrusted models. Over-long pieces overran the stack of every release up to 0.2.1.
inline constexpr std::size_t kMaxModelBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxPieceBytes = 512;

enum class PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct ModelPiece {
  std::string text;  // a space is U+2581
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  std::vector<ModelPiece> pieces;  // by id
  std::int32_t bos_id = 1;
  std::int32_t eos_id = 2;
  std::int32_t pad_id = -1;
  // Puts a space before every text it is given.
  bool add_dummy_prefix = true;
};

// Throws Error(kBadInput), naming `where`, unless the model keeps the limits and is one whose
// encoding is exact and additive at word borders: BPE or unigram, byte fallback, no normalisation,
// white space kept, and no piece that holds a space or a newline beside other characters, except
// one leading space.
SentencePieceModel ReadSentencePieceModel(std::string_view bytes, const std::string& where);

// U+2581, what the model holds instead of a space.
inline constexpr std::string_view kSpacePiece = "\xe2\x96\x81";

}  // namespace mixerbench::tasks
