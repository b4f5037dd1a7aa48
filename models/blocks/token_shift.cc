// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/token_shift.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace mixerbench::models {
namespace {

constexpr char kShift[] = "shift";

}  // namespace

void AddShiftState(std::int64_t batch_size, const at::Tensor& weight, State& state) {
  state.tensors[kShift] = {
      at::zeros({batch_size, weight.size(1)}, weight.options().requires_grad(false)),
      StateKind::kTokenShift};
}

at::Tensor TokenDifferences(const at::Tensor& x, const MixerOptions& options, Mixed& mixed) {
  const at::Tensor last = Find(options.initial_state, kShift);
  const at::Tensor before =
      last.defined() ? last.to(x.scalar_type()).unsqueeze(1) : at::zeros_like(x.narrow(1, 0, 1));
  const at::Tensor previous = at::cat({before, x.narrow(1, 0, x.size(1) - 1)}, 1);
  if (options.want_final_state) {
    mixed.final_state.tensors[kShift] = {x.select(1, x.size(1) - 1), StateKind::kTokenShift};
  }
  return previous - x;
}

std::vector<at::Tensor> ShiftMixes(const at::Tensor& x, const at::Tensor& differences,
                                   const at::Tensor& shares) {
  const at::Tensor of_tokens = shares.dim() == 2 ? shares.unsqueeze(1).unsqueeze(1) : shares;
  return (x + differences * of_tokens).to(x.scalar_type()).unbind(0);
}

}  // namespace mixerbench::models
