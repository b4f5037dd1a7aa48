// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/reference_pass.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "base/check.h"
#include "harness/device/device.h"
#include "harness/device/plain_products.h"

namespace mixerbench::harness {
namespace {

using kernels::ExecutionPath;

// The model of the cell with the same weights in float64.
Model ExactModel(const PassContext& context) {
  Model exact = BuildModel(context.cell, context.graphs.device(), context.registries,
                           context.max_seq_len, at::kDouble);
  const at::NoGradGuard no_grad;
  const auto& parameters = context.model.parameters->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    exact.parameters->parameters()[i].tensor.copy_(parameters[i].tensor);
  }
  return exact;
}

}  // namespace

ParitySample SampleOf(const PassContext& context, std::int64_t batch_size, std::int64_t seq_len) {
  // Caches grow with the tokens; the reference does not keep one for each.
  const std::int64_t state =
      models::SizeOf(context.model.backbone->InitialState(1), /*more_tokens=*/1).recurrent;
  return ChooseParitySample(batch_size, seq_len, state, context.graphs.device());
}

reports::Parity Describe(reports::Parity parity, const ParitySample& sample, std::string passes) {
  parity.passes = std::move(passes);
  parity.num_sequences = sample.num_sequences;
  parity.num_tokens = sample.num_tokens;
  return parity;
}

void RequireSamePlans(const RepeatedWork& timed, const kernels::PlanRecorder& compared) {
  for (const kernels::PlanRecord& plan : timed.plans()) {
    if (plan.function == "adamw") continue;
    const auto& found = compared.records();
    Require(std::find(found.begin(), found.end(), plan) != found.end(),
            plan.function + " was compared by another plan than the one that is timed");
  }
}

std::vector<Quantities> NaiveQuantities(const PassContext& context, const Evaluation& evaluate) {
  const Dtype dtype = context.cell.train.dtype;
  const auto run = [&](bool in_bf16) {
    const PlainProducts plain(context.graphs.device().type(), in_bf16);
    return evaluate(context.model, {.compute_dtype = ComputeDtype(dtype)});
  };
  std::vector<Quantities> runs = {run(false)};
  if (dtype != Dtype::kBf16) return runs;
  try {
    runs.push_back(run(true));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception&) {
    // Code that mixes dtypes by hand is not for autocast: one measure less, no tolerance more.
  }
  return runs;
}

Quantities ExactQuantities(const PassContext& context, const Evaluation& evaluate) {
  const at::Device device = context.graphs.device();
  const PlainProducts plain(device.type(), /*in_bf16=*/false);
  return evaluate(ExactModel(context),
                  {.path = device.is_cuda() ? ExecutionPath::kFast : ExecutionPath::kReference,
                   .compute_dtype = at::kDouble});
}

}  // namespace mixerbench::harness
