// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/dispatch.h"

#include <c10/core/ScalarType.h>

#include "kernels/device/launch.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {

std::string DeviceRefusal(const at::Tensor& x) {
  if (!x.is_cuda()) return std::string(kOnCpu);
  if (PlainAten::IsAsked()) return std::string(kPlainAtenAsked);
  if (!RunsOnDevice(x)) return std::string("no kernel for ") + c10::toString(x.scalar_type());
  return x.numel() > 0 ? "" : "no elements";
}

bool RunsByKernels(std::string_view function, ExecutionPath path, std::string_view refusal,
                   std::initializer_list<at::Tensor> inputs) {
  RecordDispatch(function, path, refusal, inputs);
  return path == ExecutionPath::kFast && refusal.empty();
}

void RecordDispatch(std::string_view function, ExecutionPath path, std::string_view refusal,
                    std::initializer_list<at::Tensor> inputs) {
  if (!RecordsPlans()) return;
  if (path == ExecutionPath::kReference) refusal = kReferenceAsked;
  const std::string_view plan = refusal.empty() ? kFusedPlan : kAtenPlan;
  RecordPlan(function, plan, NeedsBackward(inputs) ? plan : std::string_view(), refusal);
}

}  // namespace mixerbench::kernels
