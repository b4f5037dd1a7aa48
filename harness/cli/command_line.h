// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cli/commands.h"

namespace mixerbench::harness {

// Parses the arguments, runs one command and returns the exit code. Every error is one line on
// stderr: "error: what, where, what to do". An answer that cannot be written is an error too.
// `answers`: the descriptor for them, standard output unless cli::KeepAnswersApart() has made
// another.
int Main(int argc, char** argv, const EngineCommands& engine, int answers = 1);

}  // namespace mixerbench::harness
