// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/recurrence.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

bool IsFloat32Or64(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
}

void RequireDevice(const at::Tensor& x, const at::Tensor& q, const std::string& name) {
  if (x.device() == q.device()) return;
  Require(false, name + " is on " + x.device().str() + ", q on " + q.device().str());
}

}  // namespace

PreparedRecurrence Prepare(const RecurrenceArgs& args, DecayShape decay_shape, bool has_beta) {
  Require(args.q.defined() && args.q.dim() == 4, "q must be [B,T,H,K]");
  Require(args.v.defined() && args.v.dim() == 4, "v must be [B,T,H,V]");
  Require(args.chunk_size >= 1, "chunk_size must be at least 1");
  PreparedRecurrence p;
  p.batch_size = args.q.size(0);
  p.seq_len = args.v.size(1);
  p.num_heads = args.q.size(2);
  p.head_k_dim = args.q.size(3);
  p.head_v_dim = args.v.size(3);
  p.scale = args.scale != 0 ? args.scale : 1 / std::sqrt(static_cast<double>(p.head_k_dim));
  p.compute_dtype = args.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;

  Require(p.batch_size >= 1 && p.seq_len >= 1 && p.num_heads >= 1 && p.head_k_dim >= 1 &&
              p.head_v_dim >= 1,
          "every axis of q and v needs at least one element");
  RequireShape(args.q, {p.batch_size, p.seq_len, p.num_heads, p.head_k_dim}, "q");
  RequireShape(args.k, {p.batch_size, p.seq_len, p.num_heads, p.head_k_dim}, "k");
  RequireShape(args.v, {p.batch_size, p.seq_len, p.num_heads, p.head_v_dim}, "v");
  Require(args.q.is_floating_point() && args.k.scalar_type() == args.q.scalar_type() &&
              args.v.scalar_type() == args.q.scalar_type(),
          "q, k and v must share one floating dtype");
  RequireDevice(args.k, args.q, "k");
  RequireDevice(args.v, args.q, "v");
  if (args.log_decay.defined()) {
    if (decay_shape == DecayShape::kScalar) {
      RequireShape(args.log_decay, {p.batch_size, p.seq_len, p.num_heads}, "log_decay");
    } else {
      RequireShape(args.log_decay, {p.batch_size, p.seq_len, p.num_heads, p.head_k_dim},
                   "log_decay");
    }
    Require(IsFloat32Or64(args.log_decay),
            "log_decay must be float32 or float64: in bf16 a decay near 1 has two digits");
    RequireDevice(args.log_decay, args.q, "log_decay");
  }
  Require(args.beta.defined() == has_beta,
          has_beta ? "beta is missing" : "this core has no beta; scale v instead");
  if (has_beta) {
    RequireShape(args.beta, {p.batch_size, p.seq_len, p.num_heads}, "beta");
    Require(args.beta.is_floating_point(), "beta must have a floating dtype");
    RequireDevice(args.beta, args.q, "beta");
  }
  if (args.initial_state.defined()) {
    RequireShape(args.initial_state, {p.batch_size, p.num_heads, p.head_k_dim, p.head_v_dim},
                 "initial_state");
    Require(IsFloat32Or64(args.initial_state), "initial_state must be float32 or float64");
    RequireDevice(args.initial_state, args.q, "initial_state");
  }
  return p;
}

bool NeedsGradients(const RecurrenceArgs& args) {
  if (!at::GradMode::is_enabled()) return false;
  const auto inputs = {&args.q, &args.k, &args.v, &args.log_decay, &args.beta, &args.initial_state};
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const at::Tensor* x) { return x->defined() && x->requires_grad(); });
}

void RecordFallback(std::string_view core, const RecurrenceArgs& args, std::string_view plan,
                    std::string_view reason) {
  RecordPlan(core, plan, NeedsGradients(args) ? plan : std::string_view(), reason);
}

RecurrenceResult ContainNonFinite(
    const RecurrenceArgs& args,
    const std::function<RecurrenceResult(const RecurrenceArgs&)>& function) {
  const NonFiniteTokens tokens({args.k, args.v, args.beta}, args.log_decay);
  if (!tokens.exist()) return function(args);
  RecurrenceArgs cleared = args;
  cleared.k = tokens.Clear(args.k);
  cleared.v = tokens.Clear(args.v);
  cleared.beta = tokens.Clear(args.beta);
  cleared.log_decay = tokens.Clear(args.log_decay);
  RecurrenceResult result = function(cleared);
  const at::Tensor at_end = tokens.mark().select(1, tokens.mark().size(1) - 1);
  return {.o = result.o + tokens.mark().unsqueeze(-1).to(result.o.scalar_type()),
          .final_state = result.final_state +
                         at_end.unsqueeze(-1).unsqueeze(-1).to(result.final_state.scalar_type())};
}

at::Tensor InitialState(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  if (args.initial_state.defined()) return args.initial_state.to(sizes.compute_dtype);
  return at::zeros({sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim},
                   args.q.options().dtype(sizes.compute_dtype));
}

CoreEntry RecurrenceEntry(RecurrenceFunction function, DecayShape decay_shape, bool has_beta) {
  CoreEntry entry;
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k",
       .shape = "B T H K",
       .kind = has_beta ? InputKind::kUnitNorm : InputKind::kDense,
       .help = has_beta ? "keys, of norm at most 1" : "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      LogDecaySpec(decay_shape == DecayShape::kScalar ? "B T H" : "B T H K",
                   "logarithm of the decay of the state, applied before the write; none: no decay"),
  };
  if (has_beta) {
    entry.inputs.push_back({.name = "beta",
                            .shape = "B T H",
                            .kind = InputKind::kUnit,
                            .help = "write strength, up to 2 with normalised keys"});
  }
  entry.inputs.push_back(InitialStateSpec("B H K V"));
  entry.outputs = {
      {.name = "o", .shape = "B T H V", .help = "what each query reads"},
      FinalStateSpec("B H K V"),
  };
  entry.state_pairs = {{"final_state", "initial_state"}};
  entry.run = [function](const NamedTensors& inputs, const CoreOptions& options) {
    const RecurrenceArgs args{.q = FindTensor(inputs, "q"),
                              .k = FindTensor(inputs, "k"),
                              .v = FindTensor(inputs, "v"),
                              .log_decay = FindTensor(inputs, "log_decay"),
                              .beta = FindTensor(inputs, "beta"),
                              .initial_state = FindTensor(inputs, "initial_state"),
                              .scale = options.scale,
                              .chunk_size = options.chunk_size};
    const auto result = function(args, options.path);
    return NamedTensors{{"o", result.o}, {"final_state", result.final_state}};
  };
  return entry;
}

}  // namespace mixerbench::kernels
