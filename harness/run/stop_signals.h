// The signals that ask a run to stop: SIGINT, SIGTERM, SIGUSR1 and SIGHUP.
//
// Loading libtorch takes half a second. A signal must not kill the program meanwhile, so the front
// program holds them back, which the engine and its workers inherit, until they are caught.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace mixerbench::harness {

sigset_t StopSignals();

// They wait from now on, also in the program that this process becomes.
void HoldStopSignals();

enum class OnInterrupt {
  kStop,    // SIGINT stops like the others; a second one ends the process at once with 130
  kIgnore,  // somebody else decides what an interrupt means
};

// From now on they set StopRequested(), and those that waited arrive. A signal that the process was
// started to ignore, as under nohup, stays ignored.
void CatchStopSignals(OnInterrupt on_interrupt);

bool StopRequested();

}  // namespace mixerbench::harness
