// A worker process, fed with cells over a pipe. A crash costs one cell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mixerbench::harness {

class WorkerProcess {
 public:
  // Starts `command`, a program and its first arguments, with `arguments`; stderr is inherited.
  // Throws Error(kInternal).
  WorkerProcess(const std::vector<std::string>& command, const std::vector<std::string>& arguments);
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  // Kills the process if it still runs.
  ~WorkerProcess();

  // False when the worker is gone.
  bool Send(const std::string& line);

  int read_descriptor() const { return from_worker_; }

  // Complete lines that have arrived; nullopt at end of file.
  std::optional<std::vector<std::string>> ReadLines();

  // When the end of file was read: the process ends, or a user's code has closed its descriptors.
  std::optional<std::chrono::steady_clock::time_point> closed() const { return closed_; }

  // Asks it to save its work and end.
  void Terminate();
  bool HasEnded();
  void Kill();
  // The same, after it was asked where its Python code stands (harness/python/watch.h).
  void KillAsking();

  // Waits for the end.
  struct End {
    std::string text;            // "exited with code 3", "was killed by signal 9 (Killed)"
    bool out_of_memory = false;  // the kernel killed it for that
  };
  End Wait();

 private:
  pid_t pid_ = -1;
  int to_worker_ = -1;
  int from_worker_ = -1;
  std::string partial_;
  std::optional<std::chrono::steady_clock::time_point> closed_;
  std::int64_t oom_kills_before_ = 0;  // of the machine
};

}  // namespace mixerbench::harness
