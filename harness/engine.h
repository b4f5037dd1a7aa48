// The engine: every command, with libtorch in the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mixerbench::harness {

// Runs one command and returns its exit code. `worker_command` starts this program again: its words
// come before the arguments of a worker. `answers`: as of Main (cli/command_line.h).
int EngineMain(int argc, char** argv, const std::vector<std::string>& worker_command,
               int answers = 1);

}  // namespace mixerbench::harness
