// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/selective_scan/prepare.h"

#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels::selective_scan {
namespace {

void RequireDevice(const at::Tensor& x, const at::Tensor& u, const std::string& name) {
  if (x.device() == u.device()) return;
  Require(false, name + " is on " + x.device().str() + ", u on " + u.device().str());
}

// A parameter or a state: rounded to bf16, decays near 1 would have two digits.
void RequireFull(const at::Tensor& x, std::initializer_list<std::int64_t> shape,
                 const at::Tensor& u, const std::string& name) {
  if (!x.defined()) return;
  RequireShape(x, shape, name);
  Require(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble,
          name + " must be float32 or float64");
  RequireDevice(x, u, name);
}

}  // namespace

PreparedScan Prepare(const SelectiveScanArgs& args) {
  Require(args.u.defined() && args.u.dim() == 3, "u must be [B,T,D]");
  Require(args.B.defined() && args.B.dim() == 4, "B must be [B,T,G,N]");
  Require(args.A_log.defined(), "A_log is missing");
  Require(args.chunk_size >= 1, "chunk_size must be at least 1");
  PreparedScan p;
  p.batch_size = args.u.size(0);
  p.seq_len = args.u.size(1);
  p.num_channels = args.u.size(2);
  p.num_groups = args.B.size(2);
  p.state_size = args.B.size(3);
  p.compute_dtype = args.u.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Require(p.batch_size >= 1 && p.seq_len >= 1 && p.num_channels >= 1 && p.num_groups >= 1 &&
              p.state_size >= 1,
          "every axis of u and B needs at least one element");
  Require(p.num_channels % p.num_groups == 0, "the groups of B must divide the channels of u");
  RequireShape(args.delta, {p.batch_size, p.seq_len, p.num_channels}, "delta");
  RequireShape(args.B, {p.batch_size, p.seq_len, p.num_groups, p.state_size}, "B");
  RequireShape(args.C, {p.batch_size, p.seq_len, p.num_groups, p.state_size}, "C");
  if (args.z.defined()) {
    RequireShape(args.z, {p.batch_size, p.seq_len, p.num_channels}, "z");
    RequireDevice(args.z, args.u, "z");
  }
  const at::ScalarType dtype = args.u.scalar_type();
  Require(args.u.is_floating_point() && args.delta.scalar_type() == dtype &&
              args.B.scalar_type() == dtype && args.C.scalar_type() == dtype &&
              (!args.z.defined() || args.z.scalar_type() == dtype),
          "u, delta, B, C and z must share one floating dtype");
  RequireDevice(args.delta, args.u, "delta");
  RequireDevice(args.B, args.u, "B");
  RequireDevice(args.C, args.u, "C");
  RequireFull(args.A_log, {p.num_channels, p.state_size}, args.u, "A_log");
  RequireFull(args.D, {p.num_channels}, args.u, "D");
  RequireFull(args.delta_bias, {p.num_channels}, args.u, "delta_bias");
  RequireFull(args.initial_state, {p.batch_size, p.num_channels, p.state_size}, args.u,
              "initial_state");
  return p;
}

std::vector<at::Tensor> InputsOf(const SelectiveScanArgs& args) {
  return {args.u,          args.delta, args.A_log,        args.B, args.C, args.D,
          args.delta_bias, args.z,     args.initial_state};
}

void RecordFallback(const SelectiveScanArgs& args, std::string_view plan, std::string_view reason) {
  if (!RecordsPlans()) return;
  RecordPlan("selective_scan", plan, NeedsBackward(InputsOf(args)) ? plan : std::string_view(),
             reason);
}

at::Tensor InitialState(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  if (args.initial_state.defined()) return args.initial_state.to(sizes.compute_dtype);
  return at::zeros({sizes.batch_size, sizes.num_channels, sizes.state_size},
                   args.u.options().dtype(sizes.compute_dtype));
}

at::Tensor Softplus(const at::Tensor& x) { return -at::log_sigmoid(-x); }

at::Tensor Steps(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  const at::Tensor logits = args.delta.to(sizes.compute_dtype);
  if (!args.delta_bias.defined()) return Softplus(logits);
  return Softplus(logits + args.delta_bias.to(sizes.compute_dtype));
}

at::Tensor SkipAndGate(const at::Tensor& y, const SelectiveScanArgs& args) {
  at::Tensor o = y;
  if (args.D.defined()) o = o + args.D.to(y.scalar_type()) * args.u.to(y.scalar_type());
  if (args.z.defined()) o = o * at::silu(args.z.to(y.scalar_type()));
  return o.to(args.u.scalar_type());
}

}  // namespace mixerbench::kernels::selective_scan
