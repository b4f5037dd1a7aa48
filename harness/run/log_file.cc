// SPDX-License-Identifier: Apache-2.0
#include "harness/run/log_file.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/error.h"
#include "io/atomic_file.h"

namespace mixerbench::harness {
namespace {

constexpr std::string_view kEraseLine = "\033[K";  // of a status line on a terminal

int OpenLog(const std::string& path) {
  // Without waiting: a pipe without a reader would hold the run up.
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  struct stat status {};
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return file;
  const std::string cause = file >= 0 ? "is no file" : std::strerror(errno);
  if (file >= 0) close(file);
  throw Error(ExitCode::kOutput, path + ": " + cause + "; choose another --log-file");
}

}  // namespace

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Takes the place of std::cerr's buffer.
class LogFile::Tee final : public std::streambuf {
 public:
  explicit Tee(std::string path)
      : path_(std::move(path)), file_(OpenLog(path_)), outer_(std::cerr.rdbuf(this)) {}
  ~Tee() override { std::cerr.rdbuf(outer_); }
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  void WriteLine(std::string_view line) {
    const std::lock_guard lock(mutex_);
    Append(line);
  }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char character = traits_type::to_char_type(c);
    return xsputn(&character, 1) == 1 ? c : traits_type::eof();
  }

  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::lock_guard lock(mutex_);
    for (const char c : std::string_view(text, static_cast<std::size_t>(count))) Take(c);
    return outer_->sputn(text, count);
  }

  int sync() override { return outer_->pubsync(); }

 private:
  void Take(char c) {
    if (c == '\n') Append(std::exchange(line_, {}));
    if (c == '\r') line_.clear();
    if (c != '\n' && c != '\r') line_ += c;
  }

  void Append(std::string_view line) {
    if (line.starts_with(kEraseLine)) line.remove_prefix(kEraseLine.size());
    const std::string text = UtcNow() + " " + std::string(line) + "\n";
    const ssize_t count = write(file_.get(), text.data(), text.size());
    if (count == static_cast<ssize_t>(text.size()) || std::exchange(has_failed_, true)) return;
    const std::string warning =
        "warning: " + path_ + ": cannot write: " + (count < 0 ? std::strerror(errno) : "no space") +
        "\n";
    outer_->sputn(warning.data(), static_cast<std::streamsize>(warning.size()));
  }

  std::string path_;
  io::Descriptor file_;
  std::streambuf* outer_;
  std::mutex mutex_;  // threads of a worker say things at once
  std::string line_;  // as far as it came
  bool has_failed_ = false;
};

LogFile::LogFile(const std::filesystem::path& path)
    : path_(std::filesystem::absolute(path)), tee_(std::make_unique<Tee>(path_.string())) {}

LogFile::~LogFile() = default;

void LogFile::Write(std::string_view line) { tee_->WriteLine(line); }

void SayAtStart(const std::string& text, bool quiet, LogFile* log) {
  if (!quiet) std::cerr << text << "\n";
  if (quiet && log != nullptr) log->Write(text);
}

}  // namespace mixerbench::harness
