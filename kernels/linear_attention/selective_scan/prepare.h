// Checks of the arguments of the selective scan, and what its implementations share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/selective_scan/selective_scan.h"

namespace mixerbench::kernels::selective_scan {

// Arguments after the checks.
struct PreparedScan {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_channels = 0;
  std::int64_t num_groups = 0;
  std::int64_t state_size = 0;
  // fp64 for fp64 inputs, else fp32: steps, decays and states never lose precision to a bf16 input.
  at::ScalarType compute_dtype = at::kFloat;

  std::int64_t channels_per_group() const { return num_channels / num_groups; }
};

// Throws std::logic_error when a shape, dtype or device disagrees with the comments of
// SelectiveScanArgs. Values are not inspected: that would wait for the device.
PreparedScan Prepare(const SelectiveScanArgs& args);

// All tensors of `args`, in the order of its members; some may be undefined.
std::vector<at::Tensor> InputsOf(const SelectiveScanArgs& args);

// Tells (plan.h) that the core runs by `plan` in both passes, without device code for this
// `reason`.
void RecordFallback(const SelectiveScanArgs& args, std::string_view plan, std::string_view reason);

// args.initial_state in the compute dtype, zeros when there is none. [B,D,N]
at::Tensor InitialState(const SelectiveScanArgs& args, const PreparedScan& sizes);

// softplus, as exact for a small step as for a large one.
at::Tensor Softplus(const at::Tensor& x);

// softplus(delta + delta_bias) [B,T,D] in the compute dtype.
at::Tensor Steps(const SelectiveScanArgs& args, const PreparedScan& sizes);

// (y + D u) silu(z), as far as D and z are there, in the dtype of u. y [B,T,D] in the compute
// dtype.
at::Tensor SkipAndGate(const at::Tensor& y, const SelectiveScanArgs& args);

}  // namespace mixerbench::kernels::selective_scan
