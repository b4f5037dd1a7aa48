// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila_cuda.h"

#include <cstdint>
#include <limits>
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
#include "kernels/linear_attention/sila/sila_kernels.h"
#include "kernels/linear_attention/sila/sila_steps.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels::sila {
namespace {

constexpr const char* kName = "sila token_scan";

// In the order in which they are differentiated and saved.
enum Input {
  kQ,
  kK,
  kV,
  kWriteLogit,
  kForgetLogit,
  kWriteMemory,
  kForgetMemory,
  kInitialState,
  kNumInputs
};

// What is kept besides the inputs, in the order in which it is saved.
struct Kept {
  at::Tensor forced_write_gate, states, recalled, write_logit, forget_logit;

  std::vector<at::Tensor> All() const {
    return {forced_write_gate, states, recalled, write_logit, forget_logit};
  }
  static Kept Of(const std::vector<at::Tensor>& saved) {
    const auto* const x = saved.data() + kNumInputs;
    return {x[0], x[1], x[2], x[3], x[4]};
  }
};

// In fp32; undefined stays.
at::Tensor Floats(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

// [B,T,H] or [B,T,H,D]; undefined: absent.
device::Sequence View(const at::Tensor& x) {
  return x.defined() ? device::AsSequence(x) : device::Sequence{};
}

at::Tensor EmptyFloats(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().dtype(at::kFloat).requires_grad(false));
}

// All but what one pass alone has.
TokenScanProblem ProblemOf(const std::vector<at::Tensor>& x, const Kept& kept, double scale,
                           bool decayed_erase) {
  return {.batch_size = x[kQ].size(0),
          .seq_len = x[kQ].size(1),
          .num_heads = x[kQ].size(2),
          .head_k_dim = static_cast<int>(x[kQ].size(3)),
          .head_v_dim = static_cast<int>(x[kV].size(3)),
          .scale = static_cast<float>(scale),
          .decayed_erase = decayed_erase,
          .element = ElementOf(x[kQ]),
          .q = View(x[kQ]),
          .k = View(x[kK]),
          .v = View(x[kV]),
          .write_logit = View(x[kWriteLogit]),
          .forget_logit = View(x[kForgetLogit]),
          .forced_write_gate = View(kept.forced_write_gate),
          .write_memory = FloatsOf(x[kWriteMemory]),
          .forget_memory = FloatsOf(x[kForgetMemory]),
          .initial_state = FloatsOf(x[kInitialState]),
          .states = const_cast<float*>(FloatsOf(kept.states)),  // NOLINT: read only in backward
          .recalled = View(kept.recalled),
          .whole_write_logit = View(kept.write_logit),
          .whole_forget_logit = View(kept.forget_logit)};
}

std::vector<at::Tensor> Backward(const BackwardArgs& backward, double scale, bool decayed_erase) {
  const auto& x = backward.saved;
  const Kept kept = Kept::Of(x);
  const c10::DeviceGuard guard(x[kQ].device());
  TokenScanProblem p = ProblemOf(x, kept, scale, decayed_erase);
  const at::Tensor d_o = backward.grads[0].defined()
                             ? device::WithAdjacentChannels(backward.grads[0])
                             : at::zeros(x[kV].sizes(), x[kV].options().requires_grad(false));
  const at::Tensor d_final_state = device::DenseFloats(backward.grads[1]);
  auto d = EmptyTogether({x[kQ], x[kK], x[kV]});
  d.push_back(EmptyFloats(x[kWriteLogit].sizes(), x[kQ]));
  d.push_back(EmptyFloats(x[kForgetLogit].sizes(), x[kQ]));
  d.resize(kNumInputs);
  p.d_o = View(d_o);
  p.d_final_state = FloatsOf(d_final_state);
  p.d_q = View(d[kQ]);
  p.d_k = View(d[kK]);
  p.d_v = View(d[kV]);
  p.d_write_logit = View(d[kWriteLogit]);
  p.d_forget_logit = View(d[kForgetLogit]);
  at::Tensor d_memory;  // of each sequence, [2,B,H,V]
  if (x[kWriteMemory].defined()) {
    d_memory = EmptyFloats({2, p.batch_size, p.num_heads, p.head_v_dim}, x[kQ]);
    p.d_write_memory = d_memory.mutable_data_ptr<float>();
    p.d_forget_memory = d_memory.select(0, 1).mutable_data_ptr<float>();
  }
  if (x[kInitialState].defined() && backward.wanted[kInitialState]) {
    d[kInitialState] = EmptyFloats(x[kInitialState].sizes(), x[kQ]);
    p.d_initial_state = d[kInitialState].mutable_data_ptr<float>();
  }
  device::CheckLaunch(TokenScanBackward(p, device::CurrentStream(x[kQ])), kName);
  if (d_memory.defined()) {
    const auto sums = d_memory.sum(1).unbind(0);
    d[kWriteMemory] = sums[0];
    d[kForgetMemory] = sums[1];
  }
  return d;
}

// Why there is no device code for this problem; empty when there is. Shared memory is no reason: 88
// KB at most, which every GPU from kMinComputeCapability on has.
std::string RefusalOf(const SilaArgs& args, const PreparedRecurrence& sizes) {
  if (PlainAten::IsAsked()) return std::string(kPlainAtenAsked);
  std::string reason = device::DeviceRefusal(args.q);
  if (!reason.empty()) return reason;
  const DevicePlan& plan = DevicePlans().front();
  reason = Refusal(plan.head_k_dim, "head_k_dim", sizes.head_k_dim);
  if (reason.empty()) reason = Refusal(plan.head_v_dim, "head_v_dim", sizes.head_v_dim);
  if (!reason.empty()) return reason;
  if (args.write_memory.defined() &&
      (args.write_memory.dim() == 3 || args.forget_memory.dim() == 3)) {
    return "gates see what other heads recall";
  }
  return sizes.batch_size * sizes.num_heads <= std::numeric_limits<std::int32_t>::max()
             ? ""
             : "more heads than a launch has blocks";
}

}  // namespace

DeviceAttempt<SilaResult> RunOnCuda(const SilaArgs& args, const PreparedRecurrence& sizes) {
  if (std::string reason = RefusalOf(args, sizes); !reason.empty()) return {{}, std::move(reason)};
  const std::vector<at::Tensor> inputs = {device::WithAdjacentChannels(args.q),
                                          device::WithAdjacentChannels(args.k),
                                          device::WithAdjacentChannels(args.v),
                                          Floats(args.write_logit),
                                          Floats(args.forget_logit),
                                          device::DenseFloats(args.write_memory),
                                          device::DenseFloats(args.forget_memory),
                                          device::DenseFloats(args.initial_state)};
  const bool needs_backward = NeedsBackward(inputs);
  RecordPlan("sila", kTokenScanPlan, needs_backward ? kTokenScanPlan : std::string_view());
  const at::Tensor &q = inputs[kQ], &v = inputs[kV];
  SilaResult result;
  Kept kept;
  {
    const at::NoGradGuard no_grad;
    const c10::DeviceGuard guard(q.device());
    kept.forced_write_gate = Floats(args.forced_write_gate);
    if (needs_backward || args.wants_gates) {
      kept.recalled = EmptyFloats(v.sizes(), q);
      kept.write_logit = EmptyFloats(args.write_logit.sizes(), q);
      kept.forget_logit = EmptyFloats(args.forget_logit.sizes(), q);
    }
    TokenScanProblem p = ProblemOf(inputs, kept, sizes.scale, args.decayed_erase);
    if (needs_backward) {
      kept.states = EmptyFloats({p.NumStates()}, q);
      p.states = kept.states.mutable_data_ptr<float>();
    }
    result.o = at::empty(v.sizes(), v.options().requires_grad(false));
    result.final_state = EmptyFloats({p.batch_size, p.num_heads, p.head_k_dim, p.head_v_dim}, q);
    p.o = View(result.o);
    p.final_state = result.final_state.mutable_data_ptr<float>();
    device::CheckLaunch(TokenScanForward(p, device::CurrentStream(q)), kName);
    if (args.wants_gates) {
      result.write_gate = WriteGate(kept.write_logit, kept.forced_write_gate);
      result.log_decay = LogForget(kept.forget_logit);
      result.recalled = kept.recalled;
    }
  }
  auto saved = inputs;
  for (const at::Tensor& x : kept.All()) saved.push_back(x);
  SetBackward(kName, inputs, {result.o, result.final_state}, saved,
              [scale = sizes.scale, decayed = args.decayed_erase](const BackwardArgs& backward) {
                return Backward(backward, scale, decayed);
              });
  return {std::move(result), {}};
}

}  // namespace mixerbench::kernels::sila
