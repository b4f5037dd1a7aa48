// Softmax attention by matrix products around a softmax, tile by tile of the queries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/attention/softmax_attention/softmax_attention.h"

namespace mixerbench::kernels::softmax_attention {

// All of SoftmaxAttentionArgs -> o [B,T,H,V]. Holds the scores of one tile at a time in both
// passes: the backward pass forms them again unless the weights of all tiles were few enough to be
// kept. v is finite.
at::Tensor AtenAttention(const SoftmaxAttentionArgs& args, const Prepared& sizes);

}  // namespace mixerbench::kernels::softmax_attention
