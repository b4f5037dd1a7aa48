// A place in a ring of slots, and the parity of the round: that of the phases of its barriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels::device {

struct RingCursor {
  int slot = 0;
  int parity = 0;

  // By at most num_slots. Who passes over slots must know that the phase before the one it waits
  // for has ended: parities alone do not tell it from the phase before that.
  __device__ void Advance(int steps, int num_slots) {
    slot += steps;
    if (slot >= num_slots) {
      slot -= num_slots;
      parity ^= 1;
    }
  }
};

}  // namespace mixerbench::kernels::device
