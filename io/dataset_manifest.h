// What stands beside a generated data set: everything needed to make it again, and the hashes that
// show whether it is still what was made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace mixerbench::io {

inline constexpr std::string_view kManifestVersion = "1.1.0";  // of its form

// One file of consecutive samples.
struct DatasetFile {
  std::string name;         // beside the manifest, never a path
  std::uint64_t first = 0;  // index of its first sample
  std::int64_t count = 0;
  std::int64_t num_bytes = 0;
  std::string sha256 = {};  // of the file, 64 hex digits

  friend bool operator==(const DatasetFile&, const DatasetFile&) = default;
};

// Samples of one setting of the task's options. A mixture has several parts.
struct DatasetPart {
  std::string name;  // "" when there is one part
  Value params;      // every option, an object
  std::string canon;
  std::uint64_t first = 0;
  std::int64_t count = 0;
  std::uint64_t first_index = 0;  // which `index` its first line of text has; else `first`
  std::int64_t seq_len = 0;       // 0 for texts
  std::int64_t vocab_size = 0;    // 0 for texts
  // Of the canonical stream: the samples in order, each its inputs and then its labels as
  // little-endian int32; of a text, its line of the export. The same for every format and layout.
  std::string sha256 = {};
  std::vector<std::string> warnings = {};  // what a user of the samples should know
  std::vector<DatasetFile> files = {};     // in order, without gaps

  friend bool operator==(const DatasetPart&, const DatasetPart&) = default;
};

struct DatasetManifest {
  Value generator;  // the program's version
  std::string task;
  std::int64_t task_version = 1;  // which samples the task's name stands for
  std::string task_code = {};     // SHA-256 of the task's sources, 64 hex digits
  std::string preset;             // "" when there was none
  std::uint64_t seed = 0;
  std::uint64_t split = 0;
  std::string labels = {};  // label mode; "" for texts
  std::string format = {};  // "jsonl", "npy", "safetensors", "text"
  std::string dtype = {};   // "I32" or "I64"; "" for texts
  std::vector<DatasetPart> parts = {};

  friend bool operator==(const DatasetManifest&, const DatasetManifest&) = default;
};

// The file's text. Numbers of 64 bits are strings.
std::string DumpManifest(const DatasetManifest& manifest);

// Trusts nothing: names that are paths, gaps between files, counts that overflow and hashes that
// are none are refused. Errors: Error(kBadInput) naming `path` and the place.
DatasetManifest ParseManifest(std::string_view text, const std::string& path);

// Whether `name` may be a file of a data set: [A-Za-z0-9._-]{1,128} without a leading dot.
bool IsSafeFileName(std::string_view name);

}  // namespace mixerbench::io
