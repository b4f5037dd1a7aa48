// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr_cuda.h"

#include <cstddef>
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
#include "kernels/linear_attention/dplr/dplr_kernels.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels::dplr {
namespace {

constexpr const char* kName = "dplr token_scan";

// In a dtype and with channels that the kernels read: `x` itself or a copy; undefined stays.
at::Tensor Readable(const at::Tensor& x) {
  const bool is_read = !x.defined() || x.scalar_type() == at::kBFloat16;
  return device::WithAdjacentChannels(is_read ? x : x.to(at::kFloat));
}

bool InFours(const at::Tensor& x) {
  for (std::int64_t axis = 0; axis < x.dim() - 1; ++axis) {
    if (x.size(axis) > 1 && x.stride(axis) % 4 != 0) return false;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(x.const_data_ptr());
  return x.size(-1) % 4 == 0 && address % (4 * x.element_size()) == 0;
}

// x [B,T,H,D]; undefined: absent.
TokenRows View(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {.rows = device::AsSequence(x), .element = ElementOf(x), .in_fours = InFours(x)};
}

// In the order in which they are differentiated and saved.
struct Inputs {
  at::Tensor q, k, v, a, b, log_decay, beta, initial_state;

  explicit Inputs(const std::vector<at::Tensor>& x)
      : q(x[0]),
        k(x[1]),
        v(x[2]),
        a(x[3]),
        b(x[4]),
        log_decay(x[5]),
        beta(x[6]),
        initial_state(x[7]) {}
};

// Numbers of heads, [B,T,H], as rows of one channel; undefined stays.
at::Tensor AsRows(const at::Tensor& x) { return x.defined() ? x.unsqueeze(-1) : x; }

DecayKind KindOf(const at::Tensor& log_decay) {
  if (!log_decay.defined()) return DecayKind::kNone;
  return log_decay.dim() == 3 ? DecayKind::kOfHead : DecayKind::kOfChannel;
}

// What of the arguments is no tensor.
struct Rule {
  double scale;
  bool recalls_decayed;
};

// All but what one pass alone has.
TokenScanProblem ProblemOf(const Inputs& x, const Rule& rule) {
  const DecayKind decay_kind = KindOf(x.log_decay);
  return {.batch_size = x.q.size(0),
          .seq_len = x.q.size(1),
          .num_heads = x.q.size(2),
          .head_k_dim = x.q.size(3),
          .head_v_dim = x.v.size(3),
          .scale = static_cast<float>(rule.scale),
          .decay_kind = decay_kind,
          .q = View(x.q),
          .k = View(x.k),
          .a = View(x.a),
          .b = View(x.b),
          .v = View(x.v),
          .log_decay = View(decay_kind == DecayKind::kOfHead ? AsRows(x.log_decay) : x.log_decay),
          .beta = View(AsRows(x.beta)),
          .recalls_decayed = rule.recalls_decayed,
          .initial_state = FloatsOf(x.initial_state)};
}

at::TensorOptions Floats(const at::Tensor& like) {
  return like.options().dtype(at::kFloat).requires_grad(false);
}

// Where the kernels put the gradients of q, k, a, b and, if there are decays, of those of all
// channels.
void SetRowGradients(TokenScanProblem& p, const std::vector<at::Tensor>& d) {
  p.d_q = View(d[0]);
  p.d_k = View(d[1]);
  p.d_a = View(d[2]);
  p.d_b = View(d[3]);
  if (d.size() > 4) p.d_log_decay = View(d[4]);
}

void LaunchBackward(const TokenScanProblem& p, const at::Tensor& q) {
  device::CheckLaunch(TokenScanBackward(p, device::CurrentStream(q)), kName);
}

// Runs the pass of `p`, which has all but the gradients of tokens. Those of v, q, k, a, b and, if
// there are decays, of those of all channels.
std::vector<at::Tensor> TokenGradients(TokenScanProblem p, const Inputs& x) {
  const std::vector<at::Tensor> rows = {x.q, x.k, x.a, x.b};
  const std::int64_t num_blocks = p.tiling().num_blocks;
  const bool has_decay = x.log_decay.defined();
  if (num_blocks == 1) {
    auto d = EmptyTogether({x.v, x.q, x.k});
    for (const at::Tensor* factor : {&x.a, &x.b}) {  // often k itself
      d.push_back(at::empty(factor->sizes(), factor->options().requires_grad(false)));
    }
    if (has_decay) d.push_back(at::empty(x.q.sizes(), Floats(x.q)));
    p.d_v = View(d[0]);
    SetRowGradients(p, {d.begin() + 1, d.end()});
    LaunchBackward(p, x.q);
    return d;
  }
  std::vector<at::Tensor> d = EmptyTogether({x.v});
  p.d_v = View(d[0]);
  std::vector<std::int64_t> shape = x.q.sizes().vec();
  shape.insert(shape.begin(), {has_decay ? 5 : 4, num_blocks});
  const at::Tensor parts = at::empty(shape, Floats(x.q));  // [4 or 5,blocks,B,T,H,K]
  p.block_stride = parts.stride(1);
  SetRowGradients(p, parts.select(1, 0).unbind(0));
  LaunchBackward(p, x.q);
  const auto sums = parts.sum(1).unbind(0);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    d.push_back(i < 4 ? sums[i].to(rows[i].scalar_type()) : sums[i]);
  }
  return d;
}

// saved: the inputs, the states before the chunks, what was recalled.
std::vector<at::Tensor> Backward(const BackwardArgs& backward, const Rule& rule) {
  const Inputs x(backward.saved);
  const c10::DeviceGuard guard(x.q.device());
  TokenScanProblem p = ProblemOf(x, rule);
  p.states = const_cast<float*>(FloatsOf(backward.saved[8]));  // NOLINT: read only
  p.recalled = View(backward.saved[9]);
  const at::Tensor d_o = backward.grads[0].defined() ? Readable(backward.grads[0])
                                                     : at::zeros(x.v.sizes(), x.v.options());
  const at::Tensor d_final_state = device::DenseFloats(backward.grads[1]);
  p.d_o = View(d_o);
  p.d_final_state = FloatsOf(d_final_state);
  at::Tensor d_initial_state;
  if (x.initial_state.defined() && backward.wanted[7]) {
    d_initial_state = at::empty(x.initial_state.sizes(), Floats(x.q));
    p.d_initial_state = d_initial_state.mutable_data_ptr<float>();
  }
  at::Tensor d_beta;
  if (x.beta.defined()) {
    std::vector<std::int64_t> shape = x.beta.sizes().vec();
    shape.insert(shape.begin(), p.tiling().num_blocks);
    d_beta = at::empty(shape, Floats(x.q));
    p.d_beta = View(AsRows(d_beta[0]));
    p.beta_block_stride = d_beta.stride(0);
  }
  const auto d = TokenGradients(p, x);
  if (d_beta.defined()) d_beta = d_beta.sum(0).to(x.beta.scalar_type());
  at::Tensor d_log_decay;
  if (x.log_decay.defined()) d_log_decay = x.log_decay.dim() == 3 ? d[5].sum(-1) : d[5];
  return {d[1], d[2], d[0], d[3], d[4], d_log_decay, d_beta, d_initial_state};
}

// Why there is no device code for this problem; empty when there is. Shared memory is no reason:
// 89 KB at most, which every GPU from kMinComputeCapability on has.
std::string RefusalOf(const DplrArgs& args, const PreparedRecurrence& sizes) {
  if (PlainAten::IsAsked()) return std::string(kPlainAtenAsked);
  std::string reason = device::DeviceRefusal(args.recurrence.q);
  if (!reason.empty()) return reason;
  reason = Refusal(DevicePlans().front().head_k_dim, "head_k_dim", sizes.head_k_dim);
  if (!reason.empty()) return reason;
  const std::int64_t num_ctas = sizes.batch_size * sizes.num_heads *
                                ValueTiling::Of(sizes.head_k_dim, sizes.head_v_dim).num_blocks;
  return num_ctas <= std::numeric_limits<std::int32_t>::max() ? ""
                                                              : "more blocks than a launch has";
}

}  // namespace

DeviceAttempt<RecurrenceResult> RunOnCuda(const DplrArgs& args, const PreparedRecurrence& sizes) {
  if (std::string reason = RefusalOf(args, sizes); !reason.empty()) return {{}, std::move(reason)};
  const RecurrenceArgs& given = args.recurrence;
  const std::vector<at::Tensor> inputs = {
      Readable(given.q),    Readable(given.k),
      Readable(given.v),    Readable(args.a),
      Readable(args.b),     Readable(given.log_decay),
      Readable(given.beta), device::DenseFloats(given.initial_state)};
  const Rule rule{.scale = sizes.scale, .recalls_decayed = args.recalls_decayed};
  const bool needs_backward = NeedsBackward(inputs);
  RecordPlan("dplr", kTokenScanPlan, needs_backward ? kTokenScanPlan : std::string_view());
  const Inputs x(inputs);
  at::Tensor o, final_state, states, recalled;
  {
    const at::NoGradGuard no_grad;
    const c10::DeviceGuard guard(x.q.device());
    TokenScanProblem p = ProblemOf(x, rule);
    o = at::empty(x.v.sizes(), x.v.options().requires_grad(false));
    final_state = at::empty({p.batch_size, p.num_heads, p.head_k_dim, p.head_v_dim}, Floats(x.q));
    p.o = View(o);
    p.final_state = final_state.mutable_data_ptr<float>();
    if (needs_backward) {
      states = at::empty({p.NumStates()}, Floats(x.q));
      recalled = at::empty(x.v.sizes(), Floats(x.q));
      p.states = states.mutable_data_ptr<float>();
      p.recalled = View(recalled);
    }
    device::CheckLaunch(TokenScanForward(p, device::CurrentStream(x.q)), kName);
  }
  auto saved = inputs;
  saved.insert(saved.end(), {states, recalled});
  SetBackward(kName, inputs, {o, final_state}, saved,
              [rule](const BackwardArgs& backward) { return Backward(backward, rule); });
  return {RecurrenceResult{.o = std::move(o), .final_state = std::move(final_state)}, {}};
}

}  // namespace mixerbench::kernels::dplr
