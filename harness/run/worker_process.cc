// SPDX-License-Identifier: Apache-2.0
#include "harness/run/worker_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "harness/python/watch.h"
#include "harness/run/stop_signals.h"

extern char** environ;  // POSIX declares it in no header

namespace mixerbench::harness {
namespace {

constexpr int kMaxAsked_ms = 2000;  // for a process to write where it stands

void CheckCall(int error, const char* what) {
  if (error != 0) throw Error(ExitCode::kInternal, std::string(what) + ": " + std::strerror(error));
}

std::array<int, 2> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) CheckCall(errno, "pipe");
  return ends;
}

// Processes that the kernel has killed for lack of memory since it was started; 0 where it does not
// say.
std::int64_t CountOomKills() {
  std::ifstream counters("/proc/vmstat");
  std::int64_t value = 0;
  for (std::string name; counters >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& command,
                             const std::vector<std::string>& arguments)
    : oom_kills_before_(CountOomKills()) {
  const auto input = MakePipe();
  const auto output = MakePipe();
  to_worker_ = input[1];
  from_worker_ = output[0];
  posix_spawn_file_actions_t actions;
  CheckCall(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  CheckCall(posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO), "adddup2");
  CheckCall(posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO), "adddup2");
  std::vector<std::string> words = command;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Signals to the whole group wait until the worker can handle them.
  posix_spawnattr_t attributes;
  CheckCall(posix_spawnattr_init(&attributes), "posix_spawnattr_init");
  const sigset_t held = StopSignals();
  CheckCall(posix_spawnattr_setsigmask(&attributes, &held), "posix_spawnattr_setsigmask");
  CheckCall(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK),
            "posix_spawnattr_setflags");
  const int error =
      posix_spawn(&pid_, command.front().c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  CheckCall(error, "cannot start a worker process");
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
  close(to_worker_);
  close(from_worker_);
}

bool WorkerProcess::Send(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = write(to_worker_, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::vector<std::string>> WorkerProcess::ReadLines() {
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  do {
    count = read(from_worker_, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    closed_ = std::chrono::steady_clock::now();
    return std::nullopt;
  }
  partial_.append(buffer.data(), static_cast<std::size_t>(count));
  std::vector<std::string> lines;
  for (std::size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    lines.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
  return lines;
}

void WorkerProcess::Terminate() {
  if (pid_ > 0) kill(pid_, SIGTERM);
}

bool WorkerProcess::HasEnded() {
  siginfo_t info{};
  return pid_ <= 0 ||
         (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid_);
}

void WorkerProcess::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

void WorkerProcess::KillAsking() {
  if (pid_ <= 0) return;
  kill(pid_, kAskWhere);
  for (int i = 0; i < kMaxAsked_ms && !HasEnded(); ++i) usleep(1000);
  Kill();
}

WorkerProcess::End WorkerProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!WIFSIGNALED(status)) {
    return {"exited with code " + std::to_string(WEXITSTATUS(status)), false};
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL && CountOomKills() > oom_kills_before_) {
    return {"was killed by the kernel for lack of memory", true};
  }
  return {"was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")", false};
}

}  // namespace mixerbench::harness
