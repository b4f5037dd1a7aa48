// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/standard_input.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness::cli {
namespace {

[[noreturn]] void CannotRead(const std::string& why) {
  throw Error(ExitCode::kBadInput, "standard input: cannot read: " + why);
}

bool IsFile(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

void WriteAll(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t count = write(descriptor, data, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) CannotRead(std::strerror(errno));
    data += count;
    size -= static_cast<std::size_t>(count);
  }
}

// A file in memory with all that standard input still has takes its place.
void KeepStandardInput() {
  if (IsFile(STDIN_FILENO)) return;
  const io::Descriptor file(memfd_create("stdin", 0));
  if (file.get() < 0) CannotRead(std::strerror(errno));
  std::array<char, 1 << 16> buffer{};
  std::size_t size = 0;
  for (ssize_t count = 1; count != 0;) {
    count = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) CannotRead(std::strerror(errno));
    size += static_cast<std::size_t>(count);
    if (size > io::kReportLimits.max_bytes) CannotRead("larger than any report may be");
    WriteAll(file.get(), buffer.data(), static_cast<std::size_t>(count));
  }
  if (dup2(file.get(), STDIN_FILENO) < 0) CannotRead(std::strerror(errno));
}

}  // namespace

CLI::Validator FileOrStandardInput() {
  return {[](std::string& text) -> std::string {
            if (text != "-") return "";
            KeepStandardInput();
            text = kStandardInput;
            return "";
          },
          ""};
}

}  // namespace mixerbench::harness::cli
