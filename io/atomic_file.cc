// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/sha256.h"

namespace mixerbench::io {
namespace {

std::string Cause(int error) { return std::generic_category().message(error); }

[[noreturn]] void CannotRead(const std::filesystem::path& path, const std::string& cause) {
  throw Error(ExitCode::kBadInput, path.string() + ": cannot read: " + cause);
}

// `path` without links in its last step.
std::filesystem::path FollowLinks(std::filesystem::path path) {
  constexpr int kMaxLinks = 40;  // as the kernel's own limit
  std::error_code error;
  for (int i = 0; i < kMaxLinks && std::filesystem::is_symlink(path, error); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path;
}

std::string_view KindOf(std::filesystem::file_type type) {
  using std::filesystem::file_type;
  switch (type) {
    case file_type::directory:
      return "a folder";
    case file_type::fifo:
      return "a pipe";
    case file_type::character:
    case file_type::block:
      return "a device";
    case file_type::symlink:
      return "a link in a circle";
    default:
      return "no regular file";
  }
}

// What temporaries of `path` are called, before the process and a number.
std::string TemporaryPrefix(const std::filesystem::path& path) {
  return "." + path.filename().string() + ".";
}

// Opens a new file beside `path`, locks it, and returns -1 with errno when that fails.
int OpenTemporary(const std::filesystem::path& path, const std::filesystem::path& folder,
                  std::string& temporary) {
  // O_EXCL opens no file that exists, whoever made it; the mode is subject to the user's umask.
  constexpr int kMaxAttempts = 1000;  // names left behind by killed processes of the same id
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    temporary =
        (folder / fmt::format("{}{}.{}", TemporaryPrefix(path), ::getpid(), attempt)).string();
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
    if (fd < 0) continue;
    // RemoveAbandoned of another process may have come between the two calls.
    struct stat status {};
    ::flock(fd, LOCK_EX | LOCK_NB);  // a file system without locks only loses the cleaning up
    if (::fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
    ::close(fd);
  }
  return -1;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int Descriptor::Close() { return ::close(std::exchange(fd_, -1)); }

std::filesystem::path ResolveOutput(const std::filesystem::path& path) {
  const std::filesystem::path target = FollowLinks(path);
  std::error_code error;
  const auto type = std::filesystem::symlink_status(target, error).type();
  const bool can_be_made = type == std::filesystem::file_type::not_found ||
                           type == std::filesystem::file_type::regular ||
                           type == std::filesystem::file_type::none;  // opening it says why
  if (can_be_made) return target;
  throw Error(ExitCode::kOutput,
              fmt::format("{}: is {}; give the name of a file", path.string(), KindOf(type)));
}

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(ResolveOutput(path)),
      folder_(path_.has_parent_path() ? path_.parent_path() : "."),
      file_(OpenTemporary(path_, folder_, temporary_)) {
  if (file_.get() < 0) {
    temporary_.clear();
    Fail("create a file in its folder");
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::WriteAt(std::uint64_t offset, std::string_view bytes) {
  num_bytes_ = std::max(num_bytes_, offset + bytes.size());
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::Commit() {
  if (::fsync(file_.get()) != 0) Fail("flush");
  // Renamed before it is closed: closing gives up the lock.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) Fail("rename into place");
  temporary_.clear();
  if (file_.Close() != 0) Fail("close");
  Descriptor directory(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) Fail("flush the folder");
}

void AtomicFile::Fail(std::string_view step) const {
  const int error = errno;
  const std::string advice =
      error == ENOSPC || error == EDQUOT
          ? fmt::format(
                "; {} bytes were not enough: free some space and run the same command again",
                num_bytes_)
          : "";
  throw Error(ExitCode::kOutput,
              fmt::format("{}: cannot {}: {}{}", path_.string(), step, Cause(error), advice));
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.WriteAt(0, bytes);
  file.Commit();
}

void RemoveAbandoned(const std::filesystem::path& named) {
  const std::filesystem::path path = FollowLinks(named);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string prefix = TemporaryPrefix(path);
  std::error_code ignored;  // a folder that cannot be listed cannot be tidied
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    // Only "<process>.<number>" may follow.
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    if (rest.find_first_not_of("0123456789.") != rest.npos) continue;
    Descriptor file(::open(entry.path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    ::unlink(entry.path().c_str());
  }
}

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path),
      // O_NONBLOCK: opening a named pipe must not wait for a writer.
      file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_.get() < 0) CannotRead(path, Cause(errno));
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) CannotRead(path, Cause(errno));
  if (!S_ISREG(status.st_mode)) CannotRead(path, "not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::ReadAt(std::uint64_t offset, std::span<char> bytes) const {
  Require(offset <= size_ && bytes.size() <= size_ - offset, "reading past the end of a file");
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) CannotRead(path_, Cause(errno));
    if (got == 0) CannotRead(path_, "it shrank while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string ReadFile(const std::filesystem::path& path, std::size_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    CannotRead(path, fmt::format("larger than the limit of {} bytes", max_bytes));
  }
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.ReadAt(0, bytes);
  return bytes;
}

std::string HashFile(const std::filesystem::path& path) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  const InputFile file(path);
  Sha256 hash;
  std::string piece;
  for (std::uint64_t offset = 0; offset < file.size(); offset += kPiece) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, file.size() - offset)));
    file.ReadAt(offset, piece);
    hash.Update(std::string_view(piece));
  }
  return hash.Hex();
}

}  // namespace mixerbench::io
