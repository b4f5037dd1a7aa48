// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/selective_scan/prepare.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"

namespace mixerbench::kernels {

SelectiveScanResult ReferenceSelectiveScan(const SelectiveScanArgs& args) {
  const auto sizes = selective_scan::Prepare(args);
  const auto of_channels = [&](const at::Tensor& x) {  // [B,T,G,N] -> of each token [B,D,N]
    return x.to(sizes.compute_dtype).repeat_interleave(sizes.channels_per_group(), 2).unbind(1);
  };
  const auto steps = selective_scan::Steps(args, sizes);
  const auto step = steps.unsqueeze(-1).unbind(1);                                      // [B,D,1]
  const auto input = (steps * args.u.to(sizes.compute_dtype)).unsqueeze(-1).unbind(1);  // [B,D,1]
  const auto B = of_channels(args.B);
  const auto C = of_channels(args.C);
  const at::Tensor A = -at::exp(args.A_log.to(sizes.compute_dtype));  // [D,N]

  auto state = selective_scan::InitialState(args, sizes);  // [B,D,N]
  std::vector<at::Tensor> y;
  for (std::size_t t = 0; t < step.size(); ++t) {
    state = at::exp(step[t] * A) * state + input[t] * B[t];
    y.push_back(at::einsum("bdn,bdn->bd", {state, C[t]}));
  }
  return {.o = selective_scan::SkipAndGate(at::stack(y, 1), args), .final_state = state};
}

}  // namespace mixerbench::kernels
