// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_cuda.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/device/host.h"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_kernels.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels::linear_recurrence {
namespace {

constexpr const char* kName = "linear_recurrence chunk_scan";

const void* Data(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }

// Dense and not a lazy conjugate.
at::Tensor Dense(const at::Tensor& x, at::ScalarType dtype) {
  return x.defined() ? x.to(dtype).resolve_conj().contiguous() : x;
}

// A log decay for a recurrence of that dtype: as complex as the recurrence, constant ones in fp64.
at::Tensor DenseDecay(const at::Tensor& log_decay, at::ScalarType dtype) {
  const at::ScalarType own = c10::toRealValueType(log_decay.scalar_type());
  const at::ScalarType real = log_decay.dim() == 1 ? at::kDouble : own;
  return Dense(log_decay, c10::isComplexType(dtype) ? c10::toComplexType(real) : real);
}

DecayKind KindOf(const at::Tensor& log_decay) {
  if (log_decay.dim() == 1) return DecayKind::kConstant;
  return c10::toRealValueType(log_decay.scalar_type()) == at::kDouble ? DecayKind::kDouble
                                                                      : DecayKind::kFloat;
}

// Runs either pass; `p` has what differs.
at::Tensor Run(RecurrenceProblem p, const at::Tensor& x, const at::Tensor& log_decay) {
  const c10::DeviceGuard guard(x.device());
  p.batch_size = x.size(0);
  p.seq_len = x.size(1);
  p.num_channels = x.size(2);
  p.is_complex = x.is_complex();
  p.decay_kind = KindOf(log_decay);
  p.log_decay = Data(log_decay);
  p.x = Data(x);
  const auto options = x.options().requires_grad(false);
  const at::Tensor h = at::empty(x.sizes(), options);
  // Sums, products and states of the chunks.
  const at::Tensor chunks = at::empty({3, p.batch_size, p.num_chunks(), p.num_channels}, options);
  p.h = h.mutable_data_ptr();
  p.sums = chunks.select(0, 0).mutable_data_ptr();
  p.products = chunks.select(0, 1).mutable_data_ptr();
  p.states = chunks.select(0, 2).mutable_data_ptr();
  device::CheckLaunch(RunRecurrence(p, device::CurrentStream(x)), kName);
  return h;
}

// What of a gradient reaches a tensor of that dtype.
at::Tensor As(const at::Tensor& gradient, at::ScalarType dtype) {
  if (gradient.is_complex() && !c10::isComplexType(dtype)) return at::real(gradient).to(dtype);
  return gradient.to(dtype);
}

// saved: h, log_decay as the kernels take it, initial_state or undefined.
std::vector<at::Tensor> Backward(const BackwardArgs& args,
                                 const std::vector<at::ScalarType>& dtypes) {
  const at::Tensor &h = args.saved[0], &log_decay = args.saved[1], &initial = args.saved[2];
  const at::Tensor d_h = Dense(args.grads[0], h.scalar_type());
  const auto options = h.options().requires_grad(false);
  RecurrenceProblem p{.is_backward = true, .forward_h = Data(h), .initial_state = Data(initial)};
  at::Tensor d_log_decay, d_initial;
  if (args.wanted[1]) {
    const std::int64_t rows = log_decay.dim() == 1 ? NumChunks(h.size(1)) : h.size(1);
    d_log_decay = at::empty({h.size(0), rows, h.size(2)}, options);
    p.d_log_decay = d_log_decay.mutable_data_ptr();
  }
  if (initial.defined() && args.wanted[2]) {
    d_initial = at::empty(initial.sizes(), options);
    p.d_initial_state = d_initial.mutable_data_ptr();
  }
  const at::Tensor g = Run(p, d_h, log_decay);
  if (d_log_decay.defined()) {
    if (log_decay.dim() == 1) d_log_decay = d_log_decay.sum(at::IntArrayRef({0, 1}));
    d_log_decay = As(d_log_decay, dtypes[1]);
  }
  if (d_initial.defined()) d_initial = As(d_initial, dtypes[2]);
  return {As(g, dtypes[0]), d_log_decay, d_initial};
}

// Why there is no device code for this problem; empty when there is.
std::string RefusalOf(const LinearRecurrenceArgs& args, at::ScalarType dtype) {
  std::string reason =
      device::DeviceRefusal(args.x.is_complex() ? at::view_as_real(args.x.resolve_conj()) : args.x);
  if (!reason.empty()) return reason;
  if (c10::toRealValueType(dtype) != at::kFloat) return "states are not fp32";
  const std::int64_t threads = args.x.size(0) * NumChunks(args.x.size(1)) * args.x.size(2);
  // A launch has less than 2^31 blocks of threads.
  return threads / 128 < std::numeric_limits<std::int32_t>::max() ? ""
                                                                  : "more blocks than a launch has";
}

}  // namespace

DeviceAttempt<LinearRecurrenceResult> RunOnCuda(const LinearRecurrenceArgs& args,
                                                at::ScalarType dtype) {
  if (PlainAten::IsAsked()) return {{}, std::string(kPlainAtenAsked)};
  if (std::string reason = RefusalOf(args, dtype); !reason.empty()) return {{}, std::move(reason)};
  const std::vector<at::Tensor> inputs = {args.x, args.log_decay, args.initial_state};
  RecordPlan("linear_recurrence", kChunkScanPlan,
             NeedsBackward(inputs) ? kChunkScanPlan : std::string_view());
  at::Tensor h, log_decay, initial;
  {
    const at::NoGradGuard no_grad;
    log_decay = DenseDecay(args.log_decay, dtype);
    initial = Dense(args.initial_state, dtype);
    h = Run({.entering = Data(initial)}, Dense(args.x, dtype), log_decay);
  }
  std::vector<at::ScalarType> dtypes;
  for (const at::Tensor& input : inputs) {
    dtypes.push_back(input.defined() ? input.scalar_type() : dtype);
  }
  SetBackward(kName, inputs, {h}, {h, log_decay, initial},
              [dtypes](const BackwardArgs& backward) { return Backward(backward, dtypes); });
  return {LinearRecurrenceResult{.h = h, .final_state = h.select(1, h.size(1) - 1)}, {}};
}

}  // namespace mixerbench::kernels::linear_recurrence
