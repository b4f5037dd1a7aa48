// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/reset_positions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "base/philox.h"

namespace mixerbench::harness {
namespace {

constexpr PhiloxKey kKey = {0x77726974, 0x67617465};  // of no other draw

}  // namespace

at::Tensor ResetPositions(const WriteGateReset& reset, const at::Tensor& inputs,
                          std::int64_t first) {
  if (reset.is_by_token()) {
    return inputs.ge(reset.first_token).logical_and(inputs.le(reset.last_token));
  }
  at::Tensor positions = at::empty(inputs.sizes(), at::kBool);
  bool* is_reset = positions.mutable_data_ptr<bool>();
  for (std::int64_t i = 0; i < inputs.size(0); ++i) {
    const auto sample = static_cast<std::uint64_t>(first + i);
    for (std::int64_t t = 0; t < inputs.size(1); ++t) {
      const PhiloxBlock bits =
          Philox4x32(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(sample),
                     static_cast<std::uint32_t>(sample >> 32), 0, kKey);
      *is_reset++ = UniformFromBits(bits.words[0], bits.words[1]) < reset.share;
    }
  }
  return positions.to(inputs.device());
}

}  // namespace mixerbench::harness
