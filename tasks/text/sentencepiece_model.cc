// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/sentencepiece_model.h"

#include <optional>

#include "base/error.h"
#include "tasks/text/utf8.h"

namespace mixerbench::tasks {
namespace {

// Fields of sentencepiece_model.proto.
constexpr std::uint32_t kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3,
                        kModelDenormalizer = 5;
constexpr std::uint32_t kPieceText = 1, kPieceType = 3;
constexpr std::uint32_t kTrainerModelType = 3, kTrainerWhitespaceAsSuffix = 24,
                        kTrainerByteFallback = 35, kTrainerBos = 41, kTrainerEos = 42,
                        kTrainerPad = 43;
constexpr std::uint32_t kNormalizerCharsmap = 2, kNormalizerDummyPrefix = 3,
                        kNormalizerRemoveWhitespaces = 4, kNormalizerEscapeWhitespaces = 5;
constexpr std::uint64_t kUnigram = 1, kBpe = 2;

// A message of the protocol buffer wire format, read field by field with checked lengths.
class WireReader {
 public:
  struct Field {
    std::uint32_t number = 0;
    std::uint64_t integer = 0;  // of a varint
    std::string_view bytes;     // of a string or message
  };

  WireReader(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  std::optional<Field> Next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t tag = Varint();
    Field field;
    field.number = static_cast<std::uint32_t>(tag >> 3);
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29) Fail("has a field without a number");
    switch (tag & 7) {
      case 0:
        field.integer = Varint();
        break;
      case 1:
        Take(8);
        break;
      case 2:
        field.bytes = Take(Varint());
        break;
      case 5:
        Take(4);
        break;
      default:
        Fail("has a field of an unknown wire type");
    }
    return field;
  }

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ExitCode::kBadInput, where_ + ": SentencePiece model " + what);
  }

 private:
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    Fail("has a number of more than 64 bits");
  }

  std::string_view Take(std::uint64_t size) {
    if (size > rest_.size()) Fail("ends inside a field");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
};

// Whether `part` occurs in `text` beside anything but itself, beginning at `from`.
bool IsMixed(std::string_view text, std::string_view part, std::size_t from) {
  if (text.find(part, from) == std::string_view::npos) return false;
  for (std::size_t i = 0; i < text.size(); i += part.size()) {
    if (text.substr(i, part.size()) != part) return true;
  }
  return false;
}

ModelPiece ReadPiece(std::string_view bytes, const std::string& where) {
  WireReader reader(bytes, where);
  ModelPiece piece;
  while (const auto field = reader.Next()) {
    if (field->number == kPieceText) piece.text = field->bytes;
    if (field->number == kPieceType) {
      if (field->integer < 1 || field->integer > 6) reader.Fail("has a piece of an unknown type");
      piece.type = static_cast<PieceType>(field->integer);
    }
  }
  if (piece.text.empty() || piece.text.size() > kMaxPieceBytes || !IsUtf8(piece.text)) {
    reader.Fail("has a piece that is not UTF-8 of 1 to " + std::to_string(kMaxPieceBytes) +
                " bytes");
  }
  const bool is_text = piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined ||
                       piece.type == PieceType::kUnused;
  if (is_text && (IsMixed(piece.text, kSpacePiece, 1) || IsMixed(piece.text, "\n", 0))) {
    reader.Fail("has the piece '" + piece.text +
                "', which joins words or lines: lengths would not add up");
  }
  return piece;
}

void ReadTrainer(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  WireReader reader(bytes, where);
  std::uint64_t type = kUnigram;
  bool has_byte_fallback = false;
  bool is_suffix = false;
  while (const auto field = reader.Next()) {
    const auto id = static_cast<std::int32_t>(static_cast<std::int64_t>(field->integer));
    switch (field->number) {
      case kTrainerModelType:
        type = field->integer;
        break;
      case kTrainerWhitespaceAsSuffix:
        is_suffix = field->integer != 0;
        break;
      case kTrainerByteFallback:
        has_byte_fallback = field->integer != 0;
        break;
      case kTrainerBos:
        model.bos_id = id;
        break;
      case kTrainerEos:
        model.eos_id = id;
        break;
      case kTrainerPad:
        model.pad_id = id;
        break;
      default:
        break;
    }
  }
  if (type != kUnigram && type != kBpe) reader.Fail("is neither BPE nor unigram");
  if (!has_byte_fallback) reader.Fail("has no byte fallback: unknown characters would be lost");
  if (is_suffix) reader.Fail("treats white space as a suffix");
}

void ReadNormalizer(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  WireReader reader(bytes, where);
  bool removes_spaces = true;
  bool escapes_spaces = true;
  while (const auto field = reader.Next()) {
    switch (field->number) {
      case kNormalizerCharsmap:
        // Its trie is read out of bounds by every release up to 0.2.1 when it is malformed.
        if (!field->bytes.empty()) reader.Fail("normalises text (a precompiled map): not exact");
        break;
      case kNormalizerDummyPrefix:
        model.add_dummy_prefix = field->integer != 0;
        break;
      case kNormalizerRemoveWhitespaces:
        removes_spaces = field->integer != 0;
        break;
      case kNormalizerEscapeWhitespaces:
        escapes_spaces = field->integer != 0;
        break;
      default:
        break;
    }
  }
  if (removes_spaces) reader.Fail("removes white space (remove_extra_whitespaces): not exact");
  if (!escapes_spaces) reader.Fail("does not escape white space");
}

}  // namespace

SentencePieceModel ReadSentencePieceModel(std::string_view bytes, const std::string& where) {
  WireReader reader(bytes, where);
  if (bytes.starts_with('{')) {
    throw Error(ExitCode::kBadInput,
                where +
                    ": is JSON, as Hugging Face's tokenizer.json; only SentencePiece models are " +
                    "read (docs/DATA.md says which and how to train one)");
  }
  if (bytes.size() > kMaxModelBytes) {
    reader.Fail("is larger than " + std::to_string(kMaxModelBytes >> 20) + " MiB");
  }
  SentencePieceModel model;
  std::string trainer, normalizer;  // a repeated message is merged: the later fields win
  while (const auto field = reader.Next()) {
    if (field->number == kModelPieces) model.pieces.push_back(ReadPiece(field->bytes, where));
    if (field->number == kModelTrainer) trainer += field->bytes;
    if (field->number == kModelNormalizer) normalizer += field->bytes;
    if (field->number == kModelDenormalizer) {
      WireReader denormalizer(field->bytes, where);
      while (const auto inner = denormalizer.Next()) {
        if (inner->number == kNormalizerCharsmap && !inner->bytes.empty()) {
          reader.Fail("changes decoded text (a precompiled map): not exact");
        }
      }
    }
  }
  if (model.pieces.empty()) reader.Fail("has no pieces");
  ReadTrainer(trainer, where, model);
  ReadNormalizer(normalizer, where, model);
  const auto size = static_cast<std::int32_t>(model.pieces.size());
  if (model.eos_id < 0 || model.eos_id >= size) reader.Fail("has no token for the end of a text");
  if (model.bos_id >= size || model.pad_id >= size) reader.Fail("has special ids out of range");
  if (model.bos_id < 0) model.bos_id = model.eos_id;
  if (model.pad_id < 0) model.pad_id = model.eos_id;
  return model;
}

}  // namespace mixerbench::tasks
