// The front program's side of the engine: libtorch takes a while to load, so what does not need it
// runs without, and what does is this same command line in `mixerbench-engine` beside this program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cli/commands.h"

namespace mixerbench::harness {

// Commands that replace this process by the engine with the same arguments.
EngineCommands ExecEngine(char** argv);

}  // namespace mixerbench::harness
