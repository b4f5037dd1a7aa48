// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/value.h"
#include "io/json.h"

namespace mixerbench::io {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian");

constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxTensors = 100'000;
constexpr std::size_t kMaxDimensions = 16;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kNpyMagic = "\x93NUMPY";

[[noreturn]] void Refuse(const std::string& path, const std::string& fault) {
  throw Error(ExitCode::kBadInput, path + ": " + fault);
}

// Elements times bytes of one, or nothing when that does not fit in 63 bits or a size is negative.
std::optional<std::size_t> SizeInBytes(std::span<const std::int64_t> shape, std::size_t element) {
  std::int64_t bytes = static_cast<std::int64_t>(element);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return static_cast<std::size_t>(bytes);
}

std::string ShapeText(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

// One entry of a safetensors header.
struct Entry {
  std::string name;
  ElementType dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin;
  std::size_t end;
};

std::vector<std::int64_t> ReadIntegers(const Value* list, std::size_t max_size,
                                       const std::string& path, const std::string& what) {
  if (list == nullptr || !list->is_array() || list->as_array().size() > max_size) {
    Refuse(path, what + " is no short list of integers");
  }
  std::vector<std::int64_t> integers;
  for (const Value& item : list->as_array()) {
    if (!item.is_int() || item.as_int() < 0) Refuse(path, what + " holds no size or offset");
    integers.push_back(item.as_int());
  }
  return integers;
}

Entry ReadEntry(const std::string& name, const Value& value, std::size_t data_size,
                const std::string& path) {
  const std::string what = "tensor '" + name.substr(0, 80) + "'";
  if (!value.is_object() || value.as_object().size() != 3) {
    Refuse(path, what + ": expected dtype, shape and data_offsets");
  }
  const Value* dtype = value.Find("dtype");
  if (dtype == nullptr || !dtype->is_string()) Refuse(path, what + ": dtype is no string");
  const auto known =
      std::find_if(EnumNames<ElementType>::kNames.begin(), EnumNames<ElementType>::kNames.end(),
                   [&](const auto& pair) { return pair.second == dtype->as_string(); });
  if (known == EnumNames<ElementType>::kNames.end()) {
    Refuse(path, what + ": dtype " + dtype->as_string().substr(0, 20) + " is not supported");
  }
  const auto shape = ReadIntegers(value.Find("shape"), kMaxDimensions, path, what + ": shape");
  const auto offsets = ReadIntegers(value.Find("data_offsets"), 2, path, what + ": data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<std::uint64_t>(offsets[1]) > data_size) {
    Refuse(path, what + ": data_offsets are outside of the file");
  }
  const auto begin = static_cast<std::size_t>(offsets[0]);
  const auto end = static_cast<std::size_t>(offsets[1]);
  if (SizeInBytes(shape, ElementSize(known->first)) != end - begin) {
    Refuse(path, fmt::format("{}: {} bytes do not hold shape {} of {}", what, end - begin,
                             ShapeText(shape), known->second));
  }
  return {name, known->first, shape, begin, end};
}

std::map<std::string, std::string> ReadMetadata(const Value& value, const std::string& path) {
  if (!value.is_object()) Refuse(path, "__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.as_object()) {
    if (!text.is_string()) Refuse(path, "__metadata__ may hold strings only");
    metadata[key] = text.as_string();
  }
  return metadata;
}

Value ParseHeader(std::string_view text, const std::string& path) {
  // Each tensor is at most 3 members, a shape and 2 offsets.
  const JsonLimits limits{.max_bytes = kMaxHeaderBytes, .max_depth = 4, .max_nodes = 1'000'000};
  try {
    return ParseJson(text, limits);
  } catch (const ConfigError& error) {
    Refuse(path, std::string("header: ") + error.what());
  }
}

// "(3, 4)" with the commas that Python writes.
std::string TupleText(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += std::to_string(size) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  if (shape.size() == 1) text.resize(text.size() - 1);
  return "(" + text + ")";
}

// Names of element types in .npy headers.
struct NpyType {
  ElementType dtype;
  std::string_view descr;
};
constexpr std::array<NpyType, 2> kNpyTypes = {
    {{ElementType::kI32, "'<i4'"}, {ElementType::kI64, "'<i8'"}}};

// Reads the Python literal of a .npy header, in which NumPy writes the keys in this order.
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  TensorLayout Layout() {
    TensorLayout layout;
    Expect("{");
    Expect("'descr'");
    Expect(":");
    layout.dtype = Type();
    Expect(",");
    Expect("'fortran_order'");
    Expect(":");
    Expect("False");
    Expect(",");
    Expect("'shape'");
    Expect(":");
    Expect("(");
    while (!Accept(")")) {
      if (layout.shape.size() >= kMaxDimensions) Fail();
      layout.shape.push_back(Integer());
      if (!Accept(",") && !Peek(")")) Fail();
    }
    Accept(",");
    Expect("}");
    SkipSpace();
    if (!text_.empty()) Fail();
    return layout;
  }

 private:
  void SkipSpace() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }
  bool Peek(std::string_view token) {
    SkipSpace();
    return text_.starts_with(token);
  }
  bool Accept(std::string_view token) {
    if (!Peek(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void Expect(std::string_view token) {
    if (!Accept(token)) Fail();
  }
  ElementType Type() {
    for (const NpyType& type : kNpyTypes) {
      if (Accept(type.descr)) return type.dtype;
    }
    Fail();
  }
  std::int64_t Integer() {
    SkipSpace();
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (code != std::errc() || value < 0) Fail();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  [[noreturn]] void Fail() const {
    Refuse(path_,
           "the header is not that of a C-ordered array of '<i4' or '<i8' (save int32 or int64 "
           "with numpy.save)");
  }

  std::string_view text_;
  const std::string& path_;
};

}  // namespace

std::size_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
      return 8;
    case ElementType::kF32:
    case ElementType::kI32:
      return 4;
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kI16:
      return 2;
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kBool:
      return 1;
  }
  Require(false, "an element type without a size");
  return 0;
}

std::string SafetensorsHeader(const std::map<std::string, TensorLayout>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  Object header;
  std::size_t offset = 0;
  for (const auto& [name, layout] : tensors) {
    Require(name != kMetadataKey, "a tensor may not be called __metadata__");
    const auto size = SizeInBytes(layout.shape, ElementSize(layout.dtype));
    Require(size.has_value(), "a tensor's shape overflows");
    Array shape(layout.shape.begin(), layout.shape.end());
    header[name] = Object{{"dtype", std::string(NameOf(layout.dtype))},
                          {"shape", std::move(shape)},
                          {"data_offsets", Array{offset, offset + *size}}};
    offset += *size;
  }
  if (!metadata.empty()) {
    Object texts;
    for (const auto& [key, text] : metadata) texts[key] = text;
    header[std::string(kMetadataKey)] = std::move(texts);
  }
  std::string json = DumpJson(header);
  json.append((8 - json.size() % 8) % 8, ' ');
  Require(tensors.size() <= kMaxTensors, "too many tensors for one file");
  Require(json.size() <= kMaxHeaderBytes, "names and metadata too long for one file");

  std::string bytes(sizeof(std::uint64_t), '\0');
  const std::uint64_t header_size = json.size();
  std::memcpy(bytes.data(), &header_size, sizeof header_size);
  return bytes + json;
}

std::string WriteSafetensors(const TensorFile& file) {
  std::map<std::string, TensorLayout> layouts;
  std::size_t data_size = 0;
  for (const auto& [name, tensor] : file.tensors) {
    Require(SizeInBytes(tensor.shape, ElementSize(tensor.dtype)) == tensor.bytes.size(),
            "a tensor's bytes do not fit its shape");
    layouts[name] = {tensor.dtype, tensor.shape};
    data_size += tensor.bytes.size();
  }
  std::string bytes = SafetensorsHeader(layouts, file.metadata);
  bytes.reserve(bytes.size() + data_size);
  for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes;
  return bytes;
}

TensorFile ReadSafetensors(std::string_view bytes, const std::string& path) {
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) Refuse(path, "too short for a safetensors file");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  bytes.remove_prefix(sizeof header_size);
  if (header_size > kMaxHeaderBytes || header_size > bytes.size()) {
    Refuse(path, fmt::format("a header of {} bytes does not fit the file or the limit of {}",
                             header_size, kMaxHeaderBytes));
  }
  const Value header = ParseHeader(bytes.substr(0, header_size), path);
  bytes.remove_prefix(header_size);
  if (!header.is_object()) Refuse(path, "the header is not an object");
  if (header.as_object().size() > kMaxTensors) Refuse(path, "more than 100000 tensors");

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.as_object()) {
    if (name == kMetadataKey) {
      file.metadata = ReadMetadata(value, path);
    } else {
      entries.push_back(ReadEntry(name, value, bytes.size(), path));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != position) {
      Refuse(path, "tensor '" + entry.name.substr(0, 80) + "' overlaps another or leaves a gap");
    }
    position = entry.end;
  }
  if (position != bytes.size()) Refuse(path, "bytes after the last tensor");
  for (const Entry& entry : entries) {
    file.tensors[entry.name] = {
        .dtype = entry.dtype,
        .shape = entry.shape,
        .bytes = std::string(bytes.substr(entry.begin, entry.end - entry.begin))};
  }
  return file;
}

std::string NpyHeader(ElementType dtype, std::span<const std::int64_t> shape) {
  const auto type = std::find_if(kNpyTypes.begin(), kNpyTypes.end(),
                                 [&](const NpyType& known) { return known.dtype == dtype; });
  Require(type != kNpyTypes.end(), ".npy files hold int32 or int64");
  std::string header = "{'descr': " + std::string(type->descr) +
                       ", 'fortran_order': False, 'shape': " + TupleText(shape) + ", }";
  // Magic, version and length take 10 bytes; NumPy aligns the data to 64 and ends with a newline.
  const std::size_t unpadded = kNpyMagic.size() + 4 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  const auto size = static_cast<std::uint16_t>(header.size());
  std::string bytes(kNpyMagic);
  bytes += {'\x01', '\x00', static_cast<char>(size & 0xFF), static_cast<char>(size >> 8)};
  return bytes + header;
}

StoredTensor ReadNpy(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 10 || !bytes.starts_with(kNpyMagic)) Refuse(path, "not a .npy file");
  const char major = bytes[6];
  if ((major != 1 && major != 2) || bytes[7] != 0) Refuse(path, "not .npy version 1.0 or 2.0");
  bytes.remove_prefix(8);
  const std::size_t length_size = major == 1 ? 2 : 4;
  if (bytes.size() < length_size) Refuse(path, "too short for a .npy file");
  std::uint32_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), length_size);
  bytes.remove_prefix(length_size);
  if (header_size > kMaxHeaderBytes || header_size > bytes.size()) {
    Refuse(path, fmt::format("a header of {} bytes does not fit the file or the limit of {}",
                             header_size, kMaxHeaderBytes));
  }
  const TensorLayout layout = NpyHeaderReader(bytes.substr(0, header_size), path).Layout();
  bytes.remove_prefix(header_size);
  if (SizeInBytes(layout.shape, ElementSize(layout.dtype)) != bytes.size()) {
    Refuse(path,
           fmt::format("{} bytes do not hold shape {}", bytes.size(), ShapeText(layout.shape)));
  }
  return {layout.dtype, layout.shape, std::string(bytes)};
}

}  // namespace mixerbench::io
