// The selective scan by standard operations over tensors [B,T,D,N].
// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>

#include "kernels/linear_attention/selective_scan/prepare.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

// h_t = decay_t h_{t-1} + input_t with h_{-1} = 0, over axis 1: after a step of distance s every
// pair spans the 2 s tokens up to its own.
at::Tensor AssociativeScan(at::Tensor decay, at::Tensor input) {
  const std::int64_t seq_len = input.size(1);
  for (std::int64_t distance = 1; distance < seq_len; distance *= 2) {
    const std::int64_t rest = seq_len - distance;
    const at::Tensor later = decay.narrow(1, distance, rest);
    input = at::cat({input.narrow(1, 0, distance),
                     later * input.narrow(1, 0, rest) + input.narrow(1, distance, rest)},
                    1);
    decay = at::cat({decay.narrow(1, 0, distance), later * decay.narrow(1, 0, rest)}, 1);
  }
  return input;
}

}  // namespace

SelectiveScanResult UnfusedSelectiveScan(const SelectiveScanArgs& args) {
  const auto sizes = selective_scan::Prepare(args);
  selective_scan::RecordFallback(args, kAtenPlan, "the unfused form was asked for");
  const auto of_channels = [&](const at::Tensor& x) {  // [B,T,D,N]
    return x.to(sizes.compute_dtype).repeat_interleave(sizes.channels_per_group(), 2);
  };
  const auto steps = selective_scan::Steps(args, sizes);
  const at::Tensor A = -at::exp(args.A_log.to(sizes.compute_dtype));
  const at::Tensor decay = at::exp(steps.unsqueeze(-1) * A);  // [B,T,D,N]
  at::Tensor input = (steps * args.u.to(sizes.compute_dtype)).unsqueeze(-1) * of_channels(args.B);
  if (args.initial_state.defined()) {
    const at::Tensor first =
        input.narrow(1, 0, 1) +
        decay.narrow(1, 0, 1) * selective_scan::InitialState(args, sizes).unsqueeze(1);
    input = at::cat({first, input.narrow(1, 1, sizes.seq_len - 1)}, 1);
  }
  const at::Tensor states = AssociativeScan(decay, input);
  const at::Tensor y = (states * of_channels(args.C)).sum(-1);
  return {.o = selective_scan::SkipAndGate(y, args),
          .final_state = states.select(1, sizes.seq_len - 1)};
}

}  // namespace mixerbench::kernels
