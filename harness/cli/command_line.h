// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cli/commands.h"

namespace mixerbench::harness {

// Parses the arguments, runs one command and returns the exit code. Every error is one line on
// stderr: "error: what, where, what to do". An answer that cannot be written is an error too.
int Main(int argc, char** argv, const EngineCommands& engine);

}  // namespace mixerbench::harness
