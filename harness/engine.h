// The engine: every command, with libtorch in the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mixerbench::harness {

// Runs one command and returns its exit code. `worker_command` starts this program again: its words
// come before the arguments of a worker.
int EngineMain(int argc, char** argv, const std::vector<std::string>& worker_command);

}  // namespace mixerbench::harness
