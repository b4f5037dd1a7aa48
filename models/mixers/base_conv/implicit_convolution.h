// A causal convolution as long as the input, whose filter a small network makes of the position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/blocks/linear.h"
#include "models/parameters.h"

namespace mixerbench::models::base_conv {

// y_t = sum_{s<=t} filter_{t-s} * u_s for t in S-T..S-1, the last T of S inputs.
// u [B,S,D], filter [S,D] -> [B,T,D].
// Cost: O(B S T D).
at::Tensor ReferenceCausalConvolution(const at::Tensor& u, const at::Tensor& filter,
                                      std::int64_t num_outputs);
// The same by FFT of length 2 S: O(B D S log S).
at::Tensor FftCausalConvolution(const at::Tensor& u, const at::Tensor& filter,
                                std::int64_t num_outputs);

class ImplicitConvolution {
 public:
  ImplicitConvolution(const ParameterScope& scope, std::int64_t channels, std::int64_t max_seq_len);

  // conv(u) = filter * u + u for the last num_outputs of the inputs u [B,S,D], in float32 at least;
  // returns [B,num_outputs,D] in the dtype of u. S is at most max_seq_len.
  at::Tensor operator()(const at::Tensor& u, std::int64_t num_outputs,
                        kernels::ExecutionPath path) const;

  std::int64_t max_seq_len() const { return max_seq_len_; }

 private:
  at::Tensor Filter(std::int64_t length, kernels::ExecutionPath path) const;  // [length,D]

  std::int64_t max_seq_len_;
  Linear fc1_;
  Linear fc2_;
};

}  // namespace mixerbench::models::base_conv
