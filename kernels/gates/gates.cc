// SPDX-License-Identifier: Apache-2.0
#include "kernels/gates/gates.h"

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/gates/gates_cuda.h"
#include "kernels/layout/columns.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

at::Tensor Wide(const at::Tensor& x) {
  return x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
}

// Elementwise kernels take rows of any alignment at one distance.
bool HasRows(const at::Tensor& x) {
  if (x.dim() < 2 || x.stride(-1) != 1) return false;
  for (std::int64_t axis = x.dim() - 3; axis >= 0; --axis) {
    if (x.stride(axis) != x.stride(axis + 1) * x.size(axis + 1)) return false;
  }
  return true;
}

std::string Refusal(const at::Tensor& z) {
  std::string reason = DeviceRefusal(z);
  return reason.empty() && !HasRows(z) ? "its rows are not equally far apart" : reason;
}

std::string Refusal(const DeltaGatesArgs& args, std::int64_t num_heads) {
  std::string reason = Refusal(args.z);
  if (!reason.empty()) return reason;
  if (args.A_log.defined() &&
      (args.A_log.scalar_type() != at::kFloat || args.dt_bias.scalar_type() != at::kFloat)) {
    return "weights are not fp32";
  }
  if (num_heads <= kMaxGateHeads) return {};
  return std::to_string(num_heads) + " heads are above " + std::to_string(kMaxGateHeads);
}

ConstRows ElementRows(const at::Tensor& x) {
  return {x.const_data_ptr(), ElementOf(x), x.stride(-2)};
}

Rows MutableElementRows(const at::Tensor& x) {
  return {x.mutable_data_ptr(), ElementOf(x), x.stride(-2)};
}

at::Tensor Dense(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

DeltaGates ReferenceDeltaGates(const DeltaGatesArgs& args) {
  const std::int64_t num_heads = args.z.size(-1) / (args.A_log.defined() ? 2 : 1);
  const at::Tensor wide = Wide(args.z);
  DeltaGates gates;
  gates.beta = at::sigmoid(wide.narrow(-1, 0, num_heads));
  if (args.beta_scale != 1) gates.beta = gates.beta * args.beta_scale;
  if (args.A_log.defined()) {
    gates.log_decay =
        -args.A_log.exp() * at::softplus(wide.narrow(-1, num_heads, num_heads) + args.dt_bias);
  }
  return gates;
}

DeltaGatesDeviceArgs DeviceArgs(const at::Tensor& z, const at::Tensor& A_log,
                                const at::Tensor& dt_bias, double beta_scale) {
  DeltaGatesDeviceArgs args;
  args.num_heads = static_cast<int>(z.size(-1) / (A_log.defined() ? 2 : 1));
  args.num_rows = z.numel() / z.size(-1);
  args.z = ElementRows(z);
  args.beta_scale = static_cast<float>(beta_scale);
  args.A_log = FloatsOf(A_log);
  args.dt_bias = FloatsOf(dt_bias);
  return args;
}

// saved: z, A_log, dt_bias.
std::vector<at::Tensor> DeltaGatesBackward(const BackwardArgs& args, double beta_scale) {
  const at::Tensor& z = args.saved[0];
  const at::Tensor d_beta = Dense(args.grads[0]);
  const at::Tensor d_log_decay = args.grads.size() > 1 ? Dense(args.grads[1]) : at::Tensor();
  DeltaGatesDeviceArgs device = DeviceArgs(z, args.saved[1], args.saved[2], beta_scale);
  const auto floats = z.options().dtype(at::kFloat);
  const PaddedColumns d_z = EmptyWithPadding(z);
  const at::Tensor partials = at::empty(
      {DeltaGatesPartials(device.num_rows, device.num_heads), 2, device.num_heads}, floats);
  const at::Tensor d_parameters = at::empty({2, device.num_heads}, floats);
  device.d_beta = FloatsOf(d_beta);
  device.d_log_decay = FloatsOf(d_log_decay);
  device.d_z = MutableElementRows(d_z.columns);
  device.padding = static_cast<int>(d_z.padding);
  device.partials = MutableFloatsOf(partials);
  device.d_parameters = MutableFloatsOf(d_parameters);
  OnDeviceOf(z, "DeltaGates backward",
             [&](CUstream_st* stream) { return LaunchDeltaGatesBackward(device, stream); });
  if (!args.saved[1].defined()) return {d_z.columns, {}, {}};
  return {d_z.columns, d_parameters.select(0, 0), d_parameters.select(0, 1)};
}

}  // namespace

at::Tensor LogSigmoidDecay(const at::Tensor& z, double temperature, double floor,
                           ExecutionPath path) {
  Require(temperature > 0 && floor <= 0, "a temperature is positive, a floor negative or none");
  if (!RunsByKernels("log_sigmoid_decay", path, Refusal(z), {z})) {
    const at::Tensor decay = at::log_sigmoid(Wide(z)) / temperature;
    return floor < 0 ? decay.clamp_min(floor) : decay;
  }
  const at::Tensor log_decay = at::empty(z.sizes(), z.options().dtype(at::kFloat));
  LogSigmoidDecayArgs args;
  args.num_rows = z.numel() / z.size(-1);
  args.width = static_cast<int>(z.size(-1));
  args.z = ElementRows(z);
  args.inverse_temperature = static_cast<float>(1 / temperature);
  args.floor = static_cast<float>(floor);
  args.log_decay = MutableFloatsOf(log_decay);
  OnDeviceOf(z, "LogSigmoidDecay",
             [&](CUstream_st* stream) { return LaunchLogSigmoidDecayForward(args, stream); });
  SetBackward("LogSigmoidDecay", {z}, {log_decay}, {z},
              [args](const BackwardArgs& backward) -> std::vector<at::Tensor> {
                const at::Tensor& saved = backward.saved[0];
                const at::Tensor d_log_decay = backward.grads[0].contiguous();
                const at::Tensor d_z = EmptyTogether({saved})[0];
                LogSigmoidDecayArgs device = args;
                device.z = ElementRows(saved);
                device.log_decay = nullptr;
                device.d_log_decay = FloatsOf(d_log_decay);
                device.d_z = MutableElementRows(d_z);
                OnDeviceOf(saved, "LogSigmoidDecay backward", [&](CUstream_st* stream) {
                  return LaunchLogSigmoidDecayBackward(device, stream);
                });
                return {d_z};
              });
  return log_decay;
}

DeltaGates ComputeDeltaGates(const DeltaGatesArgs& args, ExecutionPath path) {
  const at::Tensor& z = args.z;
  Require(args.A_log.defined() == args.dt_bias.defined(), "a decay has A_log and dt_bias");
  const std::int64_t num_heads = z.size(-1) / (args.A_log.defined() ? 2 : 1);
  if (args.A_log.defined()) {
    RequireShape(args.A_log, {num_heads}, "A_log");
    RequireShape(args.dt_bias, {num_heads}, "dt_bias");
  }
  if (!RunsByKernels("delta_gates", path, Refusal(args, num_heads),
                     {z, args.A_log, args.dt_bias})) {
    return ReferenceDeltaGates(args);
  }
  std::vector<std::int64_t> shape = z.sizes().vec();
  shape.back() = num_heads;
  DeltaGates gates;
  gates.beta = at::empty(shape, z.options().dtype(at::kFloat));
  if (args.A_log.defined()) gates.log_decay = at::empty(shape, gates.beta.options());
  DeltaGatesDeviceArgs device = DeviceArgs(z, args.A_log, args.dt_bias, args.beta_scale);
  device.beta = MutableFloatsOf(gates.beta);
  device.log_decay = MutableFloatsOf(gates.log_decay);
  OnDeviceOf(z, "DeltaGates",
             [&](CUstream_st* stream) { return LaunchDeltaGatesForward(device, stream); });
  std::vector<at::Tensor> outputs = {gates.beta};
  if (gates.log_decay.defined()) outputs.push_back(gates.log_decay);
  const std::vector<at::Tensor> inputs = {z, args.A_log, args.dt_bias};
  SetBackward("DeltaGates", inputs, outputs, inputs,
              [beta_scale = args.beta_scale](const BackwardArgs& backward) {
                return DeltaGatesBackward(backward, beta_scale);
              });
  return gates;
}

at::Tensor Swiglu(const at::Tensor& x, ExecutionPath path) {
  Require(x.dim() >= 2 && x.size(-1) % 2 == 0, "x is [..., 2 C]");
  const std::int64_t width = x.size(-1) / 2;
  std::string refusal = DeviceRefusal(x);
  if (refusal.empty() && width % 8 != 0) {
    refusal = std::to_string(width) + " channels are no multiple of 8";
  }
  if (!RunsByKernels("swiglu", path, refusal, {x})) {
    const std::vector<at::Tensor> halves = x.chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  }
  const at::Tensor rows = AlignedRows(x);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = width;
  const at::Tensor y = at::empty(shape, rows.options());
  SwigluArgs args;
  args.num_rows = rows.numel() / (2 * width);
  args.width = static_cast<int>(width);
  args.x = RowsOf(rows);
  args.y = MutableRowsOf(y);
  OnDeviceOf(rows, "Swiglu",
             [&](CUstream_st* stream) { return LaunchSwigluForward(args, stream); });
  SetBackward("Swiglu", {rows}, {y}, {rows},
              [args](const BackwardArgs& backward) -> std::vector<at::Tensor> {
                const at::Tensor& saved = backward.saved[0];
                const at::Tensor d_y = AlignedRows(backward.grads[0]);
                const at::Tensor d_x = at::empty(saved.sizes(), saved.options());
                SwigluArgs device = args;
                device.x = RowsOf(saved);
                device.y = {};
                device.d_y = RowsOf(d_y);
                device.d_x = MutableRowsOf(d_x);
                OnDeviceOf(saved, "Swiglu backward", [&](CUstream_st* stream) {
                  return LaunchSwigluBackward(device, stream);
                });
                return {d_x};
              });
  return y;
}

}  // namespace mixerbench::kernels
