// Data sets of token samples as files: JSON lines, .npy and safetensors. Writing is streaming, so
// memory does not grow with the number of samples; reading trusts nothing.
//
//   jsonl        {"inputs":[...],"labels":[...],"meta":{"index":i,...}}, one line a sample
//   npy          one array [2, num_samples, seq_len]: inputs, then labels
//   safetensors  `inputs` and `labels`, each [num_samples, seq_len]
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "io/tensor_file.h"

namespace mixerbench::io {

enum class SampleFormat { kJsonl, kNpy, kSafetensors };

// A run of samples: inputs and labels [num_samples, seq_len], row-major.
struct SampleRows {
  std::uint64_t first_index = 0;  // of the first one in its stream
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> labels;
  // Appends further members of "meta" of the sample in row r, each with a comma in front; JSON
  // lines only. Called from several threads.
  std::function<void(std::int64_t row, std::string& json)> append_meta = nullptr;
};

// Takes the bytes of a file; offsets are those in the file.
using PutBytes = std::function<void(std::uint64_t offset, std::string_view bytes)>;

// The bytes of one file from its samples, given in order. The same samples give the same bytes
// however they are cut into runs and whatever the number of threads.
class SampleEncoder {
 public:
  // `dtype`: kI32 or kI64; without meaning for JSON lines.
  SampleEncoder(SampleFormat format, ElementType dtype, std::int64_t num_samples,
                std::int64_t seq_len);

  void Begin(const PutBytes& put);
  void Add(const SampleRows& rows, const PutBytes& put, int num_threads = 1);

 private:
  void AddLines(const SampleRows& rows, const PutBytes& put, int num_threads);
  void AddTensor(std::span<const std::int32_t> values, std::uint64_t begin, const PutBytes& put);

  SampleFormat format_;
  ElementType dtype_;
  std::int64_t num_samples_;
  std::int64_t seq_len_;
  std::string header_;
  std::int64_t num_added_ = 0;
  std::uint64_t num_bytes_ = 0;  // of lines
};

// What a file holds.
struct SampleTable {
  std::int64_t num_samples = 0;
  std::int64_t seq_len = 0;
  std::vector<std::int64_t> inputs = {};
  std::vector<std::int64_t> labels = {};
};

// Reads any of the formats, also as other programs write them: inputs and labels of equal shape,
// of int32 or int64. Errors: Error(kBadInput) naming `path` and the fault.
SampleTable ReadSamples(std::string_view bytes, SampleFormat format, const std::string& path);

}  // namespace mixerbench::io

template <>
struct mixerbench::EnumNames<mixerbench::io::SampleFormat> {
  using T = mixerbench::io::SampleFormat;
  static constexpr std::array<std::pair<T, std::string_view>, 3> kNames = {
      {{T::kJsonl, "jsonl"}, {T::kNpy, "npy"}, {T::kSafetensors, "safetensors"}}};
};
