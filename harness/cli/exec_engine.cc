// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/exec_engine.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "harness/run/stop_signals.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/object_reader.h"

extern char** environ;  // POSIX declares it in no header

namespace mixerbench::harness {
namespace {

std::string EnginePath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mixerbench-engine")
      .string();
}

// What a program prints until it ends, and how it ended.
struct Printed {
  std::string text;
  int status = 0;  // as of waitpid
};

Printed RunEngine(const std::string& engine, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "mixerbench");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ExitCode::kInternal, std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, engine.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const io::Descriptor output(ends[0]);
  if (error != 0) throw Error(ExitCode::kEnvironment, engine + ": " + std::strerror(error));
  Printed printed;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 1; count != 0;) {
    count = read(output.get(), buffer.data(), buffer.size());
    if (count < 0 && errno != EINTR) break;
    if (count > 0) printed.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  while (waitpid(pid, &printed.status, 0) < 0 && errno == EINTR) {
  }
  return printed;
}

// The engine may not even start: that is one of the answers.
std::vector<HealthCheck> CheckInEngine(const std::string& device,
                                       std::optional<double> wait_idle_s) {
  const std::string engine = EnginePath();
  try {
    std::vector<std::string> arguments = {"doctor", "--engine-only", "--device", device};
    if (wait_idle_s) {
      arguments.insert(arguments.end(), {"--wait-idle", std::to_string(*wait_idle_s)});
    }
    const Printed printed = RunEngine(engine, std::move(arguments));
    if (printed.status != 0) {
      return {{"engine", Verdict::kFail,
               engine + ": does not run; what it said stands on standard error"}};
    }
    const Value answer = io::ParseJson(printed.text);
    std::vector<HealthCheck> checks;
    for (const Value& check : answer.as_array()) {
      const io::ObjectReader reader(check, "");
      checks.push_back(
          {reader.String("check"), reader.Enum<Verdict>("verdict"), reader.String("text")});
    }
    return checks;
  } catch (const std::exception& error) {
    return {{"engine", Verdict::kFail, error.what()}};
  }
}

}  // namespace

EngineCommands ExecEngine(char** argv) {
  const auto exec = [argv]() -> ExitCode {
    const std::string engine = EnginePath();
    execv(engine.c_str(), argv);
    throw Error(ExitCode::kEnvironment,
                engine + ": " + std::strerror(errno) + "; build //harness:mixerbench-engine");
  };
  const auto exec_run = [exec](const auto&) {
    HoldStopSignals();
    return exec();
  };
  return {.run = exec_run,
          .repro = exec_run,
          .validate_suite = [exec](const auto&, const auto&) { return exec(); },
          .check_suite = [exec](const auto&, const auto&) { exec(); },
          .list = [exec](const auto&, bool) { return exec(); },
          .describe = [exec](const auto&, const auto&, bool) { return exec(); },
          .generate_on_device = [exec](const auto&) { return exec(); },
          .mixer_run = [exec](const auto&) { return exec(); },
          .core_run = [exec](const auto&) { return exec(); },
          .mixer_check = [exec](const auto&) { return exec(); },
          .print_form_schema = [exec](const auto&) { return exec(); },
          .check = CheckInEngine,
          .worker = [exec](const auto&) { return static_cast<int>(exec()); }};
}

}  // namespace mixerbench::harness
