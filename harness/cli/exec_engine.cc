// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/exec_engine.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include "harness/run/stop_signals.h"

namespace mixerbench::harness {

EngineCommands ExecEngine(char** argv) {
  const auto exec = [argv]() -> ExitCode {
    const std::string engine =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mixerbench-engine")
            .string();
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
          .list = [exec](const auto&, bool) { return exec(); },
          .describe = [exec](const auto&, const auto&, bool) { return exec(); },
          .generate_on_device = [exec](const auto&) { return exec(); },
          .mixer_run = [exec](const auto&) { return exec(); },
          .core_run = [exec](const auto&) { return exec(); },
          .worker = [exec](const auto&) { return static_cast<int>(exec()); }};
}

}  // namespace mixerbench::harness
