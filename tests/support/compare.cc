// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compare.h"

#include "models/checks/tensors.h"

namespace mixerbench::testing {

double RelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  return models::checks::RelativeError(actual, expected);
}

bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b) {
  return models::checks::BitwiseEqual(a, b);
}

}  // namespace mixerbench::testing
