// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/selective_ssm.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/dtype.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";
constexpr double kSmallestStep = 1e-30;  // a step of zero writes nothing

// log(1), log(2), ... log(N) in every channel: the diagonal of HiPPO-LegS.
at::Tensor InitialALog(const SelectiveSsmLayout& layout) {
  return at::log(at::arange(1, layout.d_state + 1, at::kDouble))
      .expand({layout.num_channels, layout.d_state});
}

}  // namespace

SelectiveSsm::SelectiveSsm(const SelectiveSsmLayout& layout, const ParameterScope& scope)
    : layout_(layout),
      x_proj_(scope.Child("x_proj"), layout.num_channels, layout.dt_rank + 2 * layout.d_state,
              /*bias=*/false),
      dt_proj_(scope.Child("dt_proj"), layout.dt_rank, layout.num_channels, /*bias=*/false),
      dt_bias_(scope.Child("dt_proj").AddFlaggedBias(
          "bias", DrawStepBias(scope.Child("dt_proj"), "bias", layout.num_channels, layout.steps))),
      A_log_(scope.AddSpecial("A_log", InitialALog(layout))),
      D_(scope.AddSpecial("D", {layout.num_channels}, Init::Constant(1))) {}

void SelectiveSsm::AddInitialState(std::int64_t batch_size, State& state) const {
  state.tensors[kState] = {at::zeros({batch_size, layout_.num_channels, layout_.d_state},
                                     A_log_.options().requires_grad(false))};
}

kernels::SelectiveScanResult SelectiveSsm::Scan(const kernels::SelectiveScanArgs& args,
                                                ExecutionPath path) const {
  if (path == ExecutionPath::kFast && !layout_.fused) return kernels::UnfusedSelectiveScan(args);
  return kernels::SelectiveScan(args, path);
}

kernels::SelectiveScanResult SelectiveSsm::TappedScan(const kernels::SelectiveScanArgs& args,
                                                      const MixerOptions& options) const {
  const TapScope& taps = options.taps;
  const at::Tensor logits = AtLeastFloat(args.delta.detach()) + dt_bias_.detach();
  const at::Tensor steps = -at::log_sigmoid(-logits);  // softplus, [B,T,D]
  const at::Tensor written = taps.WriteGate(steps);
  if (taps.Wants("log_decay")) {
    taps.Record("log_decay", -steps.unsqueeze(-1) * at::exp(A_log_.detach()));
  }
  kernels::SelectiveScanResult result;
  if (taps.Overrides()) {
    // What is written is replaced; decay and skip are not.
    kernels::SelectiveScanArgs replaced = args;
    replaced.u = args.u * (written / steps.clamp_min(kSmallestStep)).to(args.u.scalar_type());
    replaced.D = replaced.z = at::Tensor();
    result = Scan(replaced, options.path);
    result.o = result.o + args.u * D_.to(args.u.scalar_type());
    if (args.z.defined()) result.o = result.o * at::silu(args.z);
  } else {
    result = Scan(args, options.path);
  }
  TapState(taps, result.final_state.unsqueeze(-1));  // channels are heads of one value
  return result;
}

at::Tensor SelectiveSsm::operator()(const at::Tensor& u, const at::Tensor& z,
                                    const MixerOptions& options, Mixed& mixed) const {
  const std::vector<at::Tensor> columns = x_proj_.Columns(
      u, {layout_.dt_rank, layout_.d_state, layout_.d_state}, /*rows=*/nullptr, options.path);
  const kernels::SelectiveScanArgs args{.u = u,
                                        .delta = dt_proj_(columns[0], options.path),
                                        .A_log = A_log_,
                                        .B = columns[1].unsqueeze(2),
                                        .C = columns[2].unsqueeze(2),
                                        .D = D_,
                                        .delta_bias = dt_bias_,
                                        .z = z,
                                        .initial_state = Find(options.initial_state, kState)};
  kernels::SelectiveScanResult result =
      options.taps ? TappedScan(args, options) : Scan(args, options.path);
  if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
  return result.o;
}

}  // namespace mixerbench::models
