// Shared memory of a scan, used by the kernel and by its plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/host_device.h"
#include "kernels/linear_attention/scan/decay_scan.h"

namespace mixerbench::kernels::decay_scan {

// Key channels of the compiled kernels; fewer are padded with zeros.
MIXERBENCH_HOST_DEVICE constexpr int PaddedKeys(std::int64_t key_dim) {
  return key_dim <= 32 ? 32 : key_dim <= 64 ? 64 : 128;
}

// Byte offsets. First the barriers, then the gates of key channels (`num_gate_buffers` times,
// needed by producers only), then `num_slots` slots of a block of 16 tokens each. Every part starts
// at a multiple of 16.
struct ScanLayout {
  int x_stride, z_stride;  // elements between rows
  int key_gates_stride, z_gates_stride;
  int key_gates, slots;                // from the beginning
  int key_gates_bytes, slot_bytes;     // of one
  int y, z, z_gates, scores, factors;  // in a slot; x lies at 0
  int bytes;

  MIXERBENCH_HOST_DEVICE constexpr ScanLayout(int element_size, int keys, int value_tile,
                                              DecayAxis axis, int num_slots, int num_gate_buffers)
      : x_stride(keys + 8),
        z_stride(value_tile + 8),
        key_gates_stride(keys + 4),
        z_gates_stride(value_tile + 4),
        key_gates(16 * num_slots),
        slots(0),
        key_gates_bytes(axis == DecayAxis::kKey ? 16 * 4 * key_gates_stride : 0),
        slot_bytes(0),
        y(16 * x_stride * element_size),
        z(2 * y),
        z_gates(z + 16 * z_stride * element_size),
        // kNone: the gates of 16 tokens.
        scores(z_gates + (axis == DecayAxis::kValue  ? 16 * 4 * z_gates_stride
                          : axis == DecayAxis::kNone ? 16 * 4
                                                     : 0)),
        factors(scores + 256 * element_size),
        bytes(0) {
    // kNone: a factor for each token on either side and the decay of the block; else the decays of
    // the block for each channel, and a flag.
    const int num_factors = axis == DecayAxis::kNone  ? 2 * 16 + 4
                            : axis == DecayAxis::kKey ? keys + 4
                                                      : value_tile + 4;
    slot_bytes = factors + 4 * num_factors;
    slots = key_gates + num_gate_buffers * key_gates_bytes;
    bytes = slots + num_slots * slot_bytes;
  }
};

// Of the kernel that takes DecayGradientProblem::states: q, k, d_o and v of a chunk, channels in
// blocks of 16, then numbers that belong to its tokens.
struct DecayGradientLayout {
  static constexpr int kTokens = SavedChunk(DecayAxis::kNone);
  static constexpr int kWarps = kTokens / 16;
  static constexpr int kTermBytes = 4 * ((4 + kWarps) * kTokens + kWarps);

  int key_stride, value_stride;  // elements between rows
  int k, d_o, v, terms;          // byte offsets; q lies at 0
  int bytes;

  MIXERBENCH_HOST_DEVICE constexpr DecayGradientLayout(int element_size, std::int64_t key_dim,
                                                       std::int64_t value_dim)
      : key_stride(static_cast<int>((key_dim + 15) / 16 * 16 + 8)),
        value_stride(static_cast<int>((value_dim + 15) / 16 * 16 + 8)),
        k(kTokens * key_stride * element_size),
        d_o(2 * k),
        v(d_o + kTokens * value_stride * element_size),
        terms(v + kTokens * value_stride * element_size),
        bytes(terms + kTermBytes) {}
};

}  // namespace mixerbench::kernels::decay_scan
