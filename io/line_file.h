// Files of lines that may be larger than memory, compressed by zstd when their names end in ".zst".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

namespace mixerbench::io {

// Writes a file that takes its name at Commit (atomic_file.h). The same lines give the same bytes.
class LineWriter {
 public:
  // Throws Error(kOutput), as the other members do.
  explicit LineWriter(const std::filesystem::path& path);
  ~LineWriter();

  // `line` without its end.
  void Add(std::string_view line);
  // Called once, at last.
  void Commit();

 private:
  class Output;
  std::unique_ptr<Output> output_;
};

// Calls `each` for every line, without its end, with its number from 1. Errors: Error(kBadInput)
// naming the path, for a file that cannot be read, whose compression is damaged or cut off, or that
// has a line above 1 MiB.
void ReadLines(const std::filesystem::path& path,
               const std::function<void(std::string_view line, std::int64_t number)>& each);

}  // namespace mixerbench::io
