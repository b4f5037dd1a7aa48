// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_cuda.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/device/host.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/delta_rule/delta_rule_kernels.h"
#include "kernels/linear_attention/delta_rule/delta_rule_plan.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::delta_rule {
namespace {

using device::AsSequence;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kCore[] = "delta_rule";

struct Operation {
  DeltaRuleSizes sizes;
  DeltaRulePlan plan;
  bool wants_final_state = true;
};

at::Tensor Empty(at::IntArrayRef shape, const at::Tensor& like, at::ScalarType dtype) {
  return at::empty(shape, like.options().dtype(dtype));
}

// x [B,T,H,D] with aligned rows, each in a place of its own: tensor maps know no axis along which
// the same memory is read again.
at::Tensor Rows(const at::Tensor& x) {
  bool repeats = false;
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    repeats = repeats || (x.size(axis) > 1 && x.stride(axis) == 0);
  }
  return device::WithAlignedRows(repeats ? x.contiguous() : x);
}

// A dense tensor with the shape and dtype of `x`.
at::Tensor EmptyDense(const at::Tensor& x) { return Empty(x.sizes(), x, x.scalar_type()); }

// E [B,H,N,V,K]
at::Tensor EmptyStates(const DeltaRuleSizes& sizes, const at::Tensor& like) {
  return Empty(
      {sizes.batch_size, sizes.num_heads, NumChunks(sizes), sizes.head_v_dim, sizes.head_k_dim},
      like, like.scalar_type());
}

DeltaRuleFactorData FactorData(const at::Tensor& gates, const at::Tensor& x, const at::Tensor& a,
                               bool has_decay) {
  return {.gates = gates.data_ptr<float>(),
          .x = x.data_ptr(),
          .a = a.data_ptr(),
          .has_decay = has_decay};
}

class DeltaRuleFunction : public torch::autograd::Function<DeltaRuleFunction> {
 public:
  // Tensors as the kernels take them: aligned rows; gates and states fp32 and dense.
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const std::optional<at::Tensor>& log_decay,
                               const at::Tensor& beta,
                               const std::optional<at::Tensor>& initial_state,
                               const Operation& op) {
    const c10::DeviceGuard guard(q.device());
    const DeltaRuleSizes& sizes = op.sizes;
    const auto stream = device::CurrentStream(q);
    const std::int64_t chunk_size = ChunkSize(sizes.precision);
    const std::int64_t num_chunks = NumChunks(sizes);
    const auto requires_grad = [](const std::optional<at::Tensor>& x) {
      return x && x->requires_grad();
    };
    const bool keeps = q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                       beta.requires_grad() || requires_grad(log_decay) ||
                       requires_grad(initial_state);

    const bool is_fused = op.plan.fused_multiprocessors > 0;
    at::Tensor gates, x, a;
    DeltaRuleFactorData factors;
    if (keeps || !is_fused) {
      gates = Empty({sizes.batch_size, sizes.num_heads, num_chunks, 4, chunk_size}, q, at::kFloat);
      x = Empty({sizes.batch_size, sizes.num_heads, num_chunks, chunk_size, chunk_size}, q,
                q.scalar_type());
      a = EmptyDense(x);
      factors = FactorData(gates, x, a, log_decay.has_value());
    }
    const auto o = EmptyDense(v);
    at::Tensor final_state;
    if (op.wants_final_state || !is_fused) {
      final_state = Empty({sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim},
                          q, at::kFloat);
    }
    at::Tensor y;
    at::Tensor states;
    DeltaRuleSaved saved;
    if (keeps) {
      y = EmptyDense(v);
      states = EmptyStates(sizes, q);
      saved = {.y = y.data_ptr(), .states = states.data_ptr()};
    }
    const float* const decays = FloatsOf(log_decay.value_or(at::Tensor()));
    const float* const entering = FloatsOf(initial_state.value_or(at::Tensor()));
    float* const leaving = final_state.defined() ? final_state.data_ptr<float>() : nullptr;
    if (is_fused) {
      device::CheckLaunch(DeltaRuleFusedForward(sizes, op.plan, AsSequence(q), AsSequence(k),
                                                AsSequence(v), decays, FloatsOf(beta), factors,
                                                entering, AsSequence(o), leaving, saved, stream),
                          kCore);
    } else {
      device::CheckLaunch(DeltaRuleFactors(sizes, AsSequence(q), AsSequence(k), decays,
                                           FloatsOf(beta), factors, stream),
                          kCore);
      device::CheckLaunch(
          DeltaRuleStates(sizes, op.plan, AsSequence(q), AsSequence(k), AsSequence(v), factors,
                          entering, AsSequence(o), leaving, saved, stream),
          kCore);
    }

    if (keeps) {
      context->save_for_backward({q, k, v, gates, x, a, y, states});
      context->set_materialize_grads(false);
      auto& data = context->saved_data;
      data["scale"] = static_cast<double>(sizes.scale);
      data["precision"] = static_cast<std::int64_t>(sizes.precision);
      data["has_log_decay"] = log_decay.has_value();
      data["wants_log_decay"] = requires_grad(log_decay);
      data["wants_initial_state"] = requires_grad(initial_state);
    }
    if (!final_state.defined()) return {o};
    return {o, final_state};
  }

  static variable_list backward(AutogradContext* context, variable_list d_outputs) {
    Require(!at::GradMode::is_enabled(), "the device code has no second derivatives");
    const auto tensors = context->get_saved_variables();
    const auto& q = tensors[0];
    const auto& k = tensors[1];
    const auto& v = tensors[2];
    auto& data = context->saved_data;
    const DeltaRuleSizes sizes = {
        .batch_size = q.size(0),
        .seq_len = q.size(1),
        .num_heads = q.size(2),
        .head_k_dim = q.size(3),
        .head_v_dim = v.size(3),
        .scale = static_cast<float>(data["scale"].toDouble()),
        .precision = static_cast<device::OperandPrecision>(data["precision"].toInt())};
    const auto plan = PlanDeltaRule(sizes, device::LimitsOf(q)).value();
    const auto factors =
        FactorData(tensors[3], tensors[4], tensors[5], data["has_log_decay"].toBool());
    const c10::DeviceGuard guard(q.device());
    const auto stream = device::CurrentStream(q);
    const auto d_o =
        d_outputs[0].defined() ? Rows(d_outputs[0]) : at::zeros(v.sizes(), v.options());
    const auto d_final_state =
        d_outputs.size() > 1 && d_outputs[1].defined() ? d_outputs[1].contiguous() : at::Tensor();

    at::Tensor d_initial_state;
    if (data["wants_initial_state"].toBool()) {
      d_initial_state = Empty(
          {sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim}, q, at::kFloat);
    }
    float* const d_entering =
        d_initial_state.defined() ? d_initial_state.data_ptr<float>() : nullptr;
    auto d_qkv = EmptyTogether({q, k, v});
    auto d_beta = Empty({sizes.batch_size, sizes.seq_len, sizes.num_heads}, q, at::kFloat);
    at::Tensor d_log_decay;
    if (data["wants_log_decay"].toBool()) d_log_decay = EmptyDense(d_beta);
    const DeltaRuleGradientData gradients = {
        .q = AsSequence(d_qkv[0]),
        .k = AsSequence(d_qkv[1]),
        .v = AsSequence(d_qkv[2]),
        .beta = d_beta.data_ptr<float>(),
        .log_decay = d_log_decay.defined() ? d_log_decay.data_ptr<float>() : nullptr};
    const DeltaRuleSaved saved = {.y = tensors[6].data_ptr(), .states = tensors[7].data_ptr()};
    if (plan.fused_multiprocessors > 0) {
      device::CheckLaunch(
          DeltaRuleFusedBackward(sizes, plan, AsSequence(q), AsSequence(k), AsSequence(v),
                                 AsSequence(d_o), factors, saved, FloatsOf(d_final_state),
                                 d_entering, gradients, stream),
          kCore);
    } else {
      const auto p = EmptyDense(v);
      const auto d_states = EmptyStates(sizes, q);
      device::CheckLaunch(
          DeltaRuleStateGradients(sizes, plan, AsSequence(q), AsSequence(k), AsSequence(d_o),
                                  factors, FloatsOf(d_final_state), p.data_ptr(),
                                  d_states.data_ptr(), d_entering, stream),
          kCore);
      device::CheckLaunch(DeltaRuleGradients(sizes, plan, AsSequence(q), AsSequence(k),
                                             AsSequence(v), AsSequence(d_o), factors, saved,
                                             p.data_ptr(), d_states.data_ptr(), gradients, stream),
                          kCore);
    }
    return {std::move(d_qkv[0]), std::move(d_qkv[1]),
            std::move(d_qkv[2]), std::move(d_log_decay),
            std::move(d_beta),   std::move(d_initial_state),
            at::Tensor()};
  }
};

// The gradient of the log decays is a difference of larger terms, which a gate's parameters sum
// over all tokens: in tf32 such a sum was off by 1 %. Its products are those of fp32 (three of
// tf32).
device::OperandPrecision PrecisionOf(const RecurrenceArgs& args) {
  const auto precision = *device::PrecisionFor(args.q.scalar_type());
  return precision == device::OperandPrecision::kTf32 && NeedsBackward({args.log_decay})
             ? device::OperandPrecision::kFp32
             : precision;
}

// Of heads that the kernels take; `args` on a device and in a dtype that they take.
DeviceAttempt<RecurrenceResult> RunKernels(const RecurrenceArgs& args,
                                           const PreparedRecurrence& sizes) {
  const DeltaRuleSizes device_sizes = {.batch_size = sizes.batch_size,
                                       .seq_len = sizes.seq_len,
                                       .num_heads = sizes.num_heads,
                                       .head_k_dim = sizes.head_k_dim,
                                       .head_v_dim = sizes.head_v_dim,
                                       .scale = static_cast<float>(sizes.scale),
                                       .precision = PrecisionOf(args)};
  const device::DeviceLimits limits = device::LimitsOf(args.q);
  const auto plan = PlanDeltaRule(device_sizes, limits);
  if (!plan) return {{}, PlanRefusal(device_sizes, limits)};
  RecordPlan(kCore, NameOf(*plan), NeedsGradients(args) ? NameOf(*plan) : std::string_view());

  const auto dense = [](const at::Tensor& x) -> std::optional<at::Tensor> {
    if (!x.defined()) return std::nullopt;
    return x.to(at::kFloat).contiguous();
  };
  const auto outputs = DeltaRuleFunction::apply(
      Rows(args.q), Rows(args.k), Rows(args.v), dense(args.log_decay), *dense(args.beta),
      dense(args.initial_state), Operation{device_sizes, *plan, args.wants_final_state});
  return {RecurrenceResult{.o = outputs[0],
                           .final_state = outputs.size() > 1 ? outputs[1] : at::Tensor()},
          {}};
}

}  // namespace

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes) {
  if (const auto refusal = device::RecurrenceRefusal(sizes.seq_len); !refusal.empty()) {
    return {{}, std::string(refusal)};
  }
  if (std::string refusal = device::DeviceRefusal(args.q); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  const auto tiles =
      TileHeads(sizes, DevicePlans(), device::NameOf(PrecisionOf(args)), KeyTiles::kOne);
  return RunInTiles(args, sizes, tiles, RunKernels);
}

}  // namespace mixerbench::kernels::delta_rule
