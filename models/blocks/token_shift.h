// The difference between each token and the one before it, of which RWKV mixes a part into x. The
// last token of a call is a state, "shift" [B,C].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/mixer.h"

namespace mixerbench::models {

// Adds the state before the first token, zeros; C, dtype and device are those of `weight` [.,C].
void AddShiftState(std::int64_t batch_size, const at::Tensor& weight, State& state);

// x_{t-1} - x_t [B,T,C] of x [B,T,C]. Takes the state from `options` and leaves it in `mixed` if
// wanted.
at::Tensor TokenDifferences(const at::Tensor& x, const MixerOptions& options, Mixed& mixed);

// x + shares_i * differences, [B,T,C] in the dtype of x, for each row i of shares [N,C] or
// [N,B,T,C].
std::vector<at::Tensor> ShiftMixes(const at::Tensor& x, const at::Tensor& differences,
                                   const at::Tensor& shares);

}  // namespace mixerbench::models
