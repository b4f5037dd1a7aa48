// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/mesa/mesa_cuda.h"

#include <limits>
#include <string>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/device/host.h"
#include "kernels/device/launch.h"
#include "kernels/linear_attention/mesa/mesa_kernels.h"
#include "kernels/linear_attention/mesa/mesa_plan.h"

namespace mixerbench::kernels::mesa {
namespace {

// Why there is no device code for these systems; empty when there is.
std::string RefusalOf(const MesaSystem& system) {
  std::string reason = device::DeviceRefusal(system.k);
  if (!reason.empty()) return reason;
  reason = Refusal(DevicePlans().front().head_k_dim, "head_k_dim", system.k.size(2));
  if (!reason.empty()) return reason;
  return system.k.size(0) <= std::numeric_limits<std::int32_t>::max()
             ? ""
             : "more chunks than a launch has blocks";
}

}  // namespace

DeviceAttempt<at::Tensor> SolveOnCuda(const MesaSystem& system, const at::Tensor& b,
                                      std::int64_t num_iterations) {
  if (std::string reason = RefusalOf(system); !reason.empty()) return {{}, std::move(reason)};
  const c10::DeviceGuard guard(b.device());
  const auto dense = [](const at::Tensor& x) { return device::DenseFloats(x); };
  const at::Tensor k = dense(system.k), log_decay = dense(system.log_decay),
                   beta = dense(system.beta), ridge = dense(system.ridge), rows = dense(b);
  const at::Tensor entering =
      system.entering.stride(2) == 1 ? system.entering : system.entering.contiguous();
  at::Tensor x = at::empty_like(rows);
  const SystemsProblem problem{.num_chunks = k.size(0),
                               .chunk_size = k.size(1),
                               .head_k_dim = static_cast<int>(k.size(2)),
                               .num_iterations = num_iterations,
                               .k = FloatsOf(k),
                               .log_decay = FloatsOf(log_decay),
                               .beta = FloatsOf(beta),
                               .ridge = FloatsOf(ridge),
                               .entering = entering.const_data_ptr<float>(),
                               .entering_stride = entering.stride(0),
                               .entering_row_stride = entering.stride(1),
                               .b = FloatsOf(rows),
                               .x = x.mutable_data_ptr<float>()};
  device::CheckLaunch(SolveSystems(problem, device::CurrentStream(x)), "mesa conjugate_gradient");
  return {std::move(x), {}};
}

}  // namespace mixerbench::kernels::mesa
