// Files that are there completely or not at all, and reading with a size limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mixerbench::io {

// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return fd_; }
  // close() can report a write that failed late (NFS, quota).
  int Close();

 private:
  int fd_;
};

// A file that takes its name when it is complete: a temporary file in the same folder, fsync,
// rename, fsync of the folder (Pillai et al., OSDI '14). After a crash the old file or the new one
// is there. The folder must exist. Errors: Error(kOutput) naming the path and the cause; the old
// file is intact, the temporary is gone. A link stays one: what it points to is replaced. Whatever
// else is no regular file (a device, a pipe, a folder) is refused, for the rename would destroy it.
//
// The temporary is locked (flock) while its writer lives, so that RemoveAbandoned can tell what a
// killed process left behind.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // In any order; what no call wrote is zero up to the last byte.
  void WriteAt(std::uint64_t offset, std::string_view bytes);
  void Commit();

 private:
  [[noreturn]] void Fail(std::string_view step) const;

  std::filesystem::path path_;
  std::filesystem::path folder_;
  std::string temporary_;  // empty once it has its name
  Descriptor file_;
  std::uint64_t num_bytes_ = 0;
};

// Replaces `path` by `bytes`, as AtomicFile does.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);

// The file that is made or replaced under this name: `path`, or what it links to in the end.
// Errors: as AtomicFile, for what is neither absent nor a regular file.
std::filesystem::path ResolveOutput(const std::filesystem::path& path);

// Deletes the temporaries of `path` whose writers were killed.
void RemoveAbandoned(const std::filesystem::path& path);

// A regular file, open for reading. Errors: Error(kBadInput) naming the path and the cause, also
// for anything that is no regular file (a pipe would block).
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);

  std::uint64_t size() const { return size_; }
  // Fills `bytes`, which must lie within the size that the file had when it was opened.
  void ReadAt(std::uint64_t offset, std::span<char> bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

// The bytes of a regular file. Errors: as InputFile, and for a file above `max_bytes`.
std::string ReadFile(const std::filesystem::path& path,
                     std::size_t max_bytes = std::size_t{512} << 20);

// 64 hex digits, as sha256sum prints; the file may be larger than memory.
std::string HashFile(const std::filesystem::path& path);

}  // namespace mixerbench::io
