// Tensors in files, without torch: safetensors and NumPy's .npy. Headers are made apart from the
// data, so that a large file can be written piece by piece.
//
// Readers trust nothing: lengths, offsets and shapes are checked with overflow-free arithmetic
// before anything is allocated, and only the listed element types exist.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"

namespace mixerbench::io {

enum class ElementType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

// Bytes of one element.
std::size_t ElementSize(ElementType type);

struct StoredTensor {
  ElementType dtype = ElementType::kF32;
  std::vector<std::int64_t> shape;
  std::string bytes;  // row-major, little-endian

  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct TensorFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

  friend bool operator==(const TensorFile&, const TensorFile&) = default;
};

// What a header says of one tensor.
struct TensorLayout {
  ElementType dtype = ElementType::kF32;
  std::vector<std::int64_t> shape;
};

// The safetensors format: u64 header length, JSON header, data. This is all but the data, which
// follow in order of name without gaps; padded with spaces so that they start at a multiple of 8.
std::string SafetensorsHeader(const std::map<std::string, TensorLayout>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// Throws std::logic_error when a tensor's bytes do not fit its shape.
std::string WriteSafetensors(const TensorFile& file);

// Errors: Error(kBadInput) naming `path` and the fault. Limits: header 1 MiB, 100,000 tensors,
// offsets contiguous from 0 to the end of the file.
TensorFile ReadSafetensors(std::string_view bytes, const std::string& path);

// .npy version 1.0, C order, kI32 or kI64: all but the data, which start at a multiple of 64.
std::string NpyHeader(ElementType dtype, std::span<const std::int64_t> shape);

// Reads .npy of versions 1.0 and 2.0 that hold '<i4' or '<i8' in C order; anything else (objects
// above all, which are pickles) is refused. Errors: Error(kBadInput) naming `path` and the fault.
StoredTensor ReadNpy(std::string_view bytes, const std::string& path);

}  // namespace mixerbench::io

template <>
struct mixerbench::EnumNames<mixerbench::io::ElementType> {
  using T = mixerbench::io::ElementType;
  static constexpr std::array<std::pair<T, std::string_view>, 10> kNames = {{
      {T::kF64, "F64"},
      {T::kF32, "F32"},
      {T::kF16, "F16"},
      {T::kBF16, "BF16"},
      {T::kI64, "I64"},
      {T::kI32, "I32"},
      {T::kI16, "I16"},
      {T::kI8, "I8"},
      {T::kU8, "U8"},
      {T::kBool, "BOOL"},
  }};
};
