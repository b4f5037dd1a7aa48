// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/selective_scan/selective_scan_cuda.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/device/host.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/selective_scan/selective_scan_kernels.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels::selective_scan {
namespace {

constexpr const char* kName = "selective_scan chunk_scan";

// Neighbouring channels are adjacent: `x` itself or a copy; undefined stays.
at::Tensor WithDenseRows(const at::Tensor& x) {
  return !x.defined() || x.size(-1) == 1 || x.stride(-1) == 1 ? x : x.contiguous();
}

// x [B,T,D] or [B,T,G,N].
device::Sequence View(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {.data = const_cast<void*>(x.const_data_ptr()),  // NOLINT: outputs have the same type
          .batch_stride = x.stride(0),
          .token_stride = x.stride(1),
          .head_stride = x.dim() == 4 ? x.stride(2) : 0};
}

ScanProblem ProblemOf(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  return {.batch_size = sizes.batch_size,
          .seq_len = sizes.seq_len,
          .num_channels = sizes.num_channels,
          .num_groups = sizes.num_groups,
          .state_size = sizes.state_size,
          .is_bf16 = args.u.scalar_type() == at::kBFloat16,
          .u = View(args.u),
          .delta = View(args.delta),
          .B = View(args.B),
          .C = View(args.C),
          .z = View(args.z),
          .A_log = FloatsOf(args.A_log),
          .D = FloatsOf(args.D),
          .delta_bias = FloatsOf(args.delta_bias),
          .initial_state = FloatsOf(args.initial_state)};
}

// As RunOnCuda saves them.
SelectiveScanArgs ArgsOf(const std::vector<at::Tensor>& saved) {
  return {.u = saved[0],
          .delta = saved[1],
          .A_log = saved[2],
          .B = saved[3],
          .C = saved[4],
          .D = saved[5],
          .delta_bias = saved[6],
          .z = saved[7],
          .initial_state = saved[8]};
}

// saved: the inputs, then the states that enter the chunks.
std::vector<at::Tensor> Backward(const BackwardArgs& backward) {
  const SelectiveScanArgs args = ArgsOf(backward.saved);
  const PreparedScan sizes = Prepare(args);
  const c10::DeviceGuard guard(args.u.device());
  ScanProblem p = ProblemOf(args, sizes);
  const ScanLayout layout = p.layout();
  const auto floats = args.A_log.options();
  const auto empty = [&](at::IntArrayRef shape) { return at::empty(shape, floats); };

  p.states = const_cast<float*>(backward.saved[9].const_data_ptr<float>());  // NOLINT: read only
  const at::Tensor d_o = backward.grads[0].defined() ? WithDenseRows(backward.grads[0])
                                                     : at::zeros(args.u.sizes(), args.u.options());
  const at::Tensor d_final_state = device::DenseFloats(backward.grads[1]);
  p.d_o = View(d_o);
  p.d_final_state = FloatsOf(d_final_state);

  std::vector<at::Tensor> like = {args.u, args.delta, args.B, args.C};
  if (args.z.defined()) like.push_back(args.z);
  const auto d = EmptyTogether(like);
  p.d_u = View(d[0]);
  p.d_delta = View(d[1]);
  p.d_B = View(d[2]);
  p.d_C = View(d[3]);
  const at::Tensor d_z = args.z.defined() ? d[4] : at::Tensor();
  p.d_z = View(d_z);

  at::Tensor d_initial_state;
  if (args.initial_state.defined() && backward.wanted[8]) {
    d_initial_state = empty(args.initial_state.sizes());
    p.d_initial_state = d_initial_state.mutable_data_ptr<float>();
  }
  const at::Tensor block_sums =
      empty({sizes.batch_size, sizes.seq_len, sizes.num_groups,
             layout.BlocksPerGroup(sizes.channels_per_group()), 2, layout.padded_states()});
  const at::Tensor d_A_log = empty({sizes.batch_size, sizes.num_channels, layout.padded_states()});
  const at::Tensor d_D = empty({sizes.batch_size, sizes.num_channels});
  const at::Tensor d_delta_bias = empty({sizes.batch_size, sizes.num_channels});
  p.block_sums = block_sums.mutable_data_ptr<float>();
  p.d_A_log = d_A_log.mutable_data_ptr<float>();
  p.d_D = d_D.mutable_data_ptr<float>();
  p.d_delta_bias = d_delta_bias.mutable_data_ptr<float>();

  device::CheckLaunch(ScanBackward(p, device::CurrentStream(args.u)), kName);
  device::CheckLaunch(SumBlocks(p, device::CurrentStream(args.u)), kName);
  return {d[0],
          d[1],
          d_A_log.narrow(2, 0, sizes.state_size).sum(0),
          d[2],
          d[3],
          args.D.defined() ? d_D.sum(0) : at::Tensor(),
          args.delta_bias.defined() ? d_delta_bias.sum(0) : at::Tensor(),
          d_z,
          d_initial_state};
}

// Why there is no device code for this problem; empty when there is.
std::string RefusalOf(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  std::string reason = device::DeviceRefusal(args.u);
  if (!reason.empty()) return reason;
  reason = Refusal(DevicePlans().front().head_k_dim, "state_size", sizes.state_size);
  if (!reason.empty()) return reason;
  const ScanLayout layout{ScanLayout::LanesFor(sizes.state_size)};
  // A launch has less than 2^31 CTAs; that of the sums over blocks has the most.
  const std::int64_t most = std::max(
      sizes.batch_size * sizes.num_groups * layout.BlocksPerGroup(sizes.channels_per_group()),
      sizes.batch_size * sizes.seq_len * sizes.num_groups * layout.padded_states() / 128 + 1);
  return most <= std::numeric_limits<std::int32_t>::max() ? "" : "more blocks than a launch has";
}

}  // namespace

DeviceAttempt<SelectiveScanResult> RunOnCuda(const SelectiveScanArgs& args,
                                             const PreparedScan& sizes) {
  if (PlainAten::IsAsked()) return {{}, std::string(kPlainAtenAsked)};
  if (std::string reason = RefusalOf(args, sizes); !reason.empty()) return {{}, std::move(reason)};
  const std::vector<at::Tensor> inputs = {WithDenseRows(args.u),
                                          WithDenseRows(args.delta),
                                          device::DenseFloats(args.A_log),
                                          WithDenseRows(args.B),
                                          WithDenseRows(args.C),
                                          device::DenseFloats(args.D),
                                          device::DenseFloats(args.delta_bias),
                                          WithDenseRows(args.z),
                                          device::DenseFloats(args.initial_state)};
  const bool needs_backward = NeedsBackward(inputs);
  RecordPlan("selective_scan", kChunkScanPlan,
             needs_backward ? kChunkScanPlan : std::string_view());
  const SelectiveScanArgs dense = ArgsOf(inputs);
  at::Tensor o, final_state, states;
  {
    const at::NoGradGuard no_grad;
    const c10::DeviceGuard guard(args.u.device());
    const auto floats = dense.A_log.options();
    o = at::empty({sizes.batch_size, sizes.seq_len, sizes.num_channels}, args.u.options());
    final_state = at::empty({sizes.batch_size, sizes.num_channels, sizes.state_size}, floats);
    ScanProblem p = ProblemOf(dense, sizes);
    p.o = View(o);
    p.final_state = final_state.mutable_data_ptr<float>();
    if (needs_backward) {
      const ScanLayout layout = p.layout();
      states = at::empty({sizes.batch_size, layout.NumChunks(sizes.seq_len), sizes.num_channels,
                          layout.padded_states()},
                         floats);
      p.states = states.mutable_data_ptr<float>();
    }
    device::CheckLaunch(ScanForward(p, device::CurrentStream(args.u)), kName);
  }
  auto saved = inputs;
  saved.push_back(states);
  SetBackward(kName, inputs, {o, final_state}, saved, Backward);
  return {SelectiveScanResult{.o = std::move(o), .final_state = std::move(final_state)}, {}};
}

}  // namespace mixerbench::kernels::selective_scan
