// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla_cuda.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/device/host.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/gla/gla_fused_tiles.h"
#include "kernels/linear_attention/gla/gla_kernels.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/linear_attention/scan/decay_autograd.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::gla {
namespace {

constexpr const char* kCore = "gla";
constexpr const char* kFusedName = "gla fused";

FusedProblem FusedSizes(const PreparedRecurrence& sizes) {
  return {.batch_size = sizes.batch_size,
          .seq_len = sizes.seq_len,
          .num_heads = sizes.num_heads,
          .key_dim = sizes.head_k_dim,
          .value_dim = sizes.head_v_dim,
          .scale = static_cast<float>(sizes.scale)};
}

at::Tensor EmptyDense(const at::Tensor& like) { return at::empty(like.sizes(), like.options()); }

at::Tensor EmptyState(const FusedProblem& p, const at::Tensor& log_decay) {
  return at::empty({p.batch_size, p.num_heads, p.key_dim, p.value_dim}, log_decay.options());
}

// Gradients of q, k, v, log_decay and the initial state. `problem` has the sizes; `saved` is what
// RunFused saves.
std::vector<at::Tensor> BackwardOfFused(FusedProblem problem, const BackwardArgs& backward) {
  const auto& saved = backward.saved;
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_decay = saved[3];
  const c10::DeviceGuard guard(q.device());
  const at::Tensor d_o = backward.grads[0].defined() ? device::WithAlignedRows(backward.grads[0])
                                                     : at::zeros(v.sizes(), v.options());
  const at::Tensor d_final_state =
      backward.grads[1].defined() ? backward.grads[1].contiguous() : at::Tensor();
  auto d = EmptyTogether({q, k, v});
  d.push_back(EmptyDense(log_decay));
  d.push_back(backward.wanted[4] ? EmptyState(problem, log_decay) : at::Tensor());
  problem.q = device::AsSequence(q);
  problem.k = device::AsSequence(k);
  problem.v = device::AsSequence(v);
  problem.log_decay = device::AsSequence(log_decay);
  problem.states = saved[4].mutable_data_ptr();
  problem.d_o = device::AsSequence(d_o);
  problem.d_final_state = FloatsOf(d_final_state);
  problem.d_q = device::AsSequence(d[0]);
  problem.d_k = device::AsSequence(d[1]);
  problem.d_v = device::AsSequence(d[2]);
  problem.d_log_decay = device::AsSequence(d[3]);
  if (d[4].defined()) problem.d_initial_state = d[4].mutable_data_ptr<float>();
  device::CheckLaunch(FusedBackward(problem, device::CurrentStream(q)), kFusedName);
  return d;
}

// For bf16 with decays. nullopt when the fused plan has no kernels or the scans are the faster
// ones: where keys are cut, tokens are copied, which pays only against scans in fp32 (RunScans).
std::optional<HeadTiles> PlanFused(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  if (args.q.scalar_type() != at::kBFloat16 || !args.log_decay.defined()) return std::nullopt;
  auto tiles = FusedTiles(sizes);
  if (!tiles || (tiles->keys.count > 1 && !NeedsBackward({args.log_decay}))) return std::nullopt;
  const FusedProblem fused_sizes = FusedSizes(SizesOfTiles(sizes, *tiles));
  return SupportsFused(fused_sizes, device::LimitsOf(args.q)) ? tiles : std::nullopt;
}

// Of heads and a device that the fused plan takes.
DeviceAttempt<RecurrenceResult> RunFused(const RecurrenceArgs& args,
                                         const PreparedRecurrence& sizes) {
  RecordPlan(kCore, kFusedPlan, NeedsGradients(args) ? kFusedPlan : std::string_view());
  const at::Tensor q = device::WithAlignedRows(args.q);
  const at::Tensor k = device::WithAlignedRows(args.k);
  const at::Tensor v = device::WithAlignedRows(args.v);
  const at::Tensor log_decay = device::WithAlignedRows(args.log_decay.to(at::kFloat));
  const at::Tensor initial_state =
      args.initial_state.defined() ? args.initial_state.to(at::kFloat).contiguous() : at::Tensor();
  const FusedProblem fused_sizes = FusedSizes(sizes);
  const bool needs_backward = NeedsBackward({q, k, v, log_decay, initial_state});
  at::Tensor o, final_state, states;
  {
    const at::NoGradGuard no_grad;
    const c10::DeviceGuard guard(q.device());
    o = at::empty(v.sizes(), v.options());
    final_state = EmptyState(fused_sizes, log_decay);
    FusedProblem problem = fused_sizes;
    problem.q = device::AsSequence(q);
    problem.k = device::AsSequence(k);
    problem.v = device::AsSequence(v);
    problem.log_decay = device::AsSequence(log_decay);
    problem.initial_state = FloatsOf(initial_state);
    problem.final_state = final_state.mutable_data_ptr<float>();
    problem.o = device::AsSequence(o);
    if (needs_backward) {
      states = at::empty({FusedStateElements(problem)}, q.options());
      problem.states = states.mutable_data_ptr();
    }
    device::CheckLaunch(FusedForward(problem, device::CurrentStream(q)), kFusedName);
  }
  SetBackward(kFusedName, {q, k, v, log_decay, initial_state}, {o, final_state},
              {q, k, v, log_decay, states}, [fused_sizes](const BackwardArgs& backward) {
                return BackwardOfFused(fused_sizes, backward);
              });
  return {RecurrenceResult{.o = std::move(o), .final_state = std::move(final_state)}, {}};
}

// Of heads that the scans take.
DeviceAttempt<RecurrenceResult> RunScans(const RecurrenceArgs& args,
                                         const PreparedRecurrence& sizes) {
  static const decay_scan::DecayKernels kernels = {
      .core = kCore,
      .read_axis = decay_scan::DecayAxis::kKey,
      .gradient_axis = decay_scan::DecayAxis::kValue,
      .read_scan = {ReadScanBf16, ReadScanTf32, ReadScanFp32},
      .gradient_scan = {GradientScanBf16, GradientScanTf32, GradientScanFp32},
      .decay_gradient = {DecayGradientBf16, DecayGradientFp32, DecayGradientFp32}};
  if (!NeedsBackward({args.log_decay})) return decay_scan::RunDecayScans(args, sizes, kernels);
  // The gradient of the log decays is a difference of terms that may be far larger than it:
  // products in fp32 (three of tf32 each), whatever the dtype. gla.md, section
  // "Precision".
  RecurrenceArgs wide = args;
  for (at::Tensor* x : {&wide.q, &wide.k, &wide.v}) *x = x->to(at::kFloat);
  auto attempt = decay_scan::RunDecayScans(wide, sizes, kernels, device::OperandPrecision::kFp32);
  if (attempt.result) attempt.result->o = attempt.result->o.to(args.v.scalar_type());
  return attempt;
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
  if (const auto tiles = PlanFused(args, sizes)) return RunInTiles(args, sizes, *tiles, RunFused);
  const auto tiles =
      TileHeads(sizes, decay_scan::DecayScanPlans(decay_scan::DecayAxis::kKey),
                device::NameOf(*device::PrecisionFor(args.q.scalar_type())), KeyTiles::kAny);
  return RunInTiles(args, sizes, tiles, RunScans);
}

DeviceAttempt<RecurrenceResult> RunByValueOnCuda(const RecurrenceArgs& args,
                                                 const PreparedRecurrence& sizes) {
  static const decay_scan::DecayKernels kernels = {
      .core = "gsa",
      .read_axis = decay_scan::DecayAxis::kValue,
      .gradient_axis = decay_scan::DecayAxis::kKey,
      .read_scan = {GradientScanBf16, GradientScanTf32, GradientScanFp32},
      .gradient_scan = {ReadScanBf16, ReadScanTf32, ReadScanFp32},
      .decay_gradient = {DecayGradientBf16, DecayGradientFp32, DecayGradientFp32}};
  if (const auto refusal = device::RecurrenceRefusal(sizes.seq_len); !refusal.empty()) {
    return {{}, std::string(refusal)};
  }
  return decay_scan::RunDecayScans(args, sizes, kernels, device::OperandPrecision::kFp32);
}

}  // namespace mixerbench::kernels::gla
