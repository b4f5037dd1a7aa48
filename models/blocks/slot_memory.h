// The core of mixers whose state is a fixed number of slots of keys and values, read by a softmax
// over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/gsa/gsa.h"
#include "models/blocks/matrix_state_mixer.h"

namespace mixerbench::models {

struct SlotLayout {
  std::int64_t num_heads = 1;  // of keys, values and slots
  std::int64_t head_k_dim = 0;
  std::int64_t num_slots = 0;
  std::int64_t head_v_dim = 0;
  double scale = 1;  // of the logits of the softmax
};

// The states "keys" [H,K,M] and "values" [H,M,V], without the batch.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> SlotStates(const SlotLayout& layout);

// Runs the core from the states of `options` and leaves the final ones in `mixed` if wanted. args.q
// may have several heads to one of the others, [B,T,n H,K]: grouped queries. Records slot_writes
// [B,T,H,M], slot_probs [B,T,n H,M], state [B,H,M,K+V], keys and values of a slot side by side, and
// state_norm. -> o [B,T,n H,V]
at::Tensor RunSlots(kernels::GsaArgs args, const MixerOptions& options, Mixed& mixed);

// A core with slots that are written by what they forget: s = 1 - e^log_decay [B,T,H,M].
MatrixCore SlotMemory(const SlotLayout& layout);

// Records write_gate, the mean write s = 1 - e^log_decay over the slots, and returns the log decay
// to use: where the write gate is overridden, that of writes scaled to the mean of the sequence.
at::Tensor TapSlotWrites(const TapScope& taps, const at::Tensor& log_decay);

// The decay of slots whose writes [B,T,H,M] an override has changed: log(1 - s) where it did,
// `log_decay` elsewhere.
at::Tensor LogDecayOfWrites(const at::Tensor& overridden, const at::Tensor& writes,
                            const at::Tensor& log_decay);

}  // namespace mixerbench::models
