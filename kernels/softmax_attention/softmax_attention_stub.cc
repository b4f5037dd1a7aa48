// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "kernels/softmax_attention/softmax_attention_cuda.h"

namespace mixerbench::kernels::softmax_attention {

DeviceAttempt<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs&, const Prepared&) {
  return {{}, std::string(kOnCpu)};
}

void FillOnCuda(const DropoutMask&, const at::Tensor&) {
  Require(false, "dropout of attention on a GPU needs a program linked with CUDA");
}

}  // namespace mixerbench::kernels::softmax_attention
