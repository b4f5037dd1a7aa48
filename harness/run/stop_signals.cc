// SPDX-License-Identifier: Apache-2.0
#include "harness/run/stop_signals.h"

#include <unistd.h>

namespace mixerbench::harness {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
constexpr int kInterruptedTwice = 130;

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int signal) {
  if (stop_requested && signal == SIGINT) _exit(kInterruptedTwice);
  stop_requested = 1;
}

}  // namespace

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

void HoldStopSignals() {
  const sigset_t set = StopSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

void CatchStopSignals(OnInterrupt on_interrupt) {
  for (const int signal : kSignals) {
    const bool ignored = std::signal(signal, RequestStop) == SIG_IGN;
    const bool ignore = ignored || (signal == SIGINT && on_interrupt == OnInterrupt::kIgnore);
    if (ignore) std::signal(signal, SIG_IGN);
  }
  const sigset_t set = StopSignals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

bool StopRequested() { return stop_requested != 0; }

}  // namespace mixerbench::harness
