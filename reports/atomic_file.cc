// SPDX-License-Identifier: Apache-2.0
#include "reports/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/error.h"

namespace mixerbench::reports {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // close() can report a write that failed late (NFS, quota).
  int Close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Removes the temporary file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

std::string Cause(int error) { return std::generic_category().message(error); }

[[noreturn]] void CannotWrite(const std::filesystem::path& path, std::string_view step,
                              std::size_t num_bytes, int error) {
  const std::string advice =
      error == ENOSPC || error == EDQUOT
          ? fmt::format("; it needs {} bytes: free some space and run the same command again",
                        num_bytes)
          : "";
  throw Error(ExitCode::kOutput,
              fmt::format("{}: cannot {}: {}{}", path.string(), step, Cause(error), advice));
}

[[noreturn]] void CannotRead(const std::filesystem::path& path, const std::string& cause) {
  throw Error(ExitCode::kBadInput, path.string() + ": cannot read: " + cause);
}

}  // namespace

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  const auto fail = [&](std::string_view step) { CannotWrite(path, step, bytes.size(), errno); };
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";

  // mkostemp replaces the XXXXXX and never opens a file that exists.
  std::string temporary_path = (folder / ("." + path.filename().string() + ".XXXXXX")).string();
  Descriptor file(::mkostemp(temporary_path.data(), O_CLOEXEC));
  if (file.get() < 0) fail("create a file in its folder");
  Temporary temporary(temporary_path);

  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  // mkostemp makes the file private; reports are as readable as the user's other files.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.get(), 0666 & ~mask) != 0) fail("set the permissions");
  if (::fsync(file.get()) != 0) fail("flush");
  if (file.Close() != 0) fail("close");
  if (::rename(temporary_path.c_str(), path.c_str()) != 0) fail("rename into place");
  temporary.Keep();

  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) fail("flush the folder");
}

std::string ReadFile(const std::filesystem::path& path, std::size_t max_bytes) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) CannotRead(path, Cause(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) CannotRead(path, Cause(errno));
  if (!S_ISREG(status.st_mode)) CannotRead(path, "not a regular file");
  const auto too_large = [&] {
    CannotRead(path, fmt::format("larger than the limit of {} bytes", max_bytes));
  };
  if (static_cast<std::size_t>(status.st_size) > max_bytes) too_large();

  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) CannotRead(path, Cause(errno));
    if (got == 0) CannotRead(path, "it shrank while it was read");
    size += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace mixerbench::reports
