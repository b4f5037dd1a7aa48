// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/standard_output.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <unistd.h>

#include "base/error.h"

namespace mixerbench::harness::cli {

void PrepareDescriptors() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number, so it is `fd`; the wrong direction, so that its use fails.
    [[maybe_unused]] const int opened =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int KeepAnswersApart() {
  const int answers = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (answers < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return STDOUT_FILENO;
  return answers;
}

StandardOutput::StandardOutput(int descriptor)
    : descriptor_(descriptor), previous_(std::cout.rdbuf(this)) {
  std::cerr.tie(nullptr);  // else saying that std::cout failed flushes it, which throws again
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  std::cout.exceptions(std::ios_base::badbit);  // passes on what overflow() throws
}

StandardOutput::~StandardOutput() {
  try {
    sync();
  } catch (const Error&) {  // whoever ends by another error has said enough
  }
  std::cout.exceptions(std::ios_base::goodbit);
  std::cout.rdbuf(previous_);
}

StandardOutput::int_type StandardOutput::overflow(int_type c) {
  sync();
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  return sputc(traits_type::to_char_type(c));
}

int StandardOutput::sync() {
  const char* next = pbase();
  const char* const end = pptr();
  setp(buffer_.data(),
       buffer_.data() + buffer_.size());  // also after a failure: nothing is said twice
  while (next < end) {
    const ssize_t count = ::write(descriptor_, next, static_cast<std::size_t>(end - next));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) return 0;
    if (count < 0) {
      throw Error(ExitCode::kOutput,
                  std::string("standard output: cannot write: ") + std::strerror(errno));
    }
    next += count;
  }
  return 0;
}

}  // namespace mixerbench::harness::cli
