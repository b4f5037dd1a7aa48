// Standard output that says when it could not be written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <streambuf>

namespace mixerbench::harness::cli {

// To be called before anything is opened. Standard descriptors that are closed become ones on which
// reading or writing fails, so that no file takes their numbers; and a file that reaches its size
// limit, or a pipe without a reader, is a failed write instead of the end of the process.
void PrepareDescriptors();

// Only what std::cout writes belongs to an answer: from now on whatever else writes to standard
// output, such as the code of a user in this process, writes to standard error. Returns the
// descriptor for answers.
int KeepAnswersApart();

// While it lives, std::cout writes through it, and a write that fails throws Error(kOutput) with
// the cause from wherever it was, so that a command stops there. A pipe whose reader has gone takes
// what is left without an error: `mixerbench list presets | head` is no mistake.
class StandardOutput final : public std::streambuf {
 public:
  explicit StandardOutput(int descriptor);
  ~StandardOutput() override;  // gives up what a failed write left
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // Throws when any of what was written before cannot be.
  void Flush() { sync(); }

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  std::array<char, 1 << 16> buffer_;
  int descriptor_;
  std::streambuf* previous_;
};

}  // namespace mixerbench::harness::cli
