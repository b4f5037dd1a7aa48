// SPDX-License-Identifier: Apache-2.0
#include "models/backbone.h"

namespace mixerbench::models {

at::Tensor Backbone::Logits(const at::Tensor& hidden, ExecutionPath path) const {
  const Head parameters = head();
  return kernels::Linear(hidden, parameters.weight, parameters.bias, path, parameters.narrow);
}

}  // namespace mixerbench::models
