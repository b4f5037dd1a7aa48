// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr.h"

#include <string>
#include <string_view>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>

#include "base/check.h"
#include "kernels/linear_attention/dplr/dplr_chunks.h"
#include "kernels/linear_attention/dplr/dplr_cuda.h"
#include "kernels/linear_attention/dplr/dplr_plan.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "dplr";

}  // namespace

namespace dplr {

PreparedRecurrence Prepare(const DplrArgs& args) {
  const auto& inputs = args.recurrence;
  const bool is_scalar = inputs.log_decay.defined() && inputs.log_decay.dim() == 3;
  const auto sizes = kernels::Prepare(inputs, is_scalar ? DecayShape::kScalar : DecayShape::kVector,
                                      /*has_beta=*/inputs.beta.defined());
  for (const auto& [x, name] : {std::pair(&args.a, "a"), {&args.b, "b"}}) {
    RequireShape(*x, {sizes.batch_size, sizes.seq_len, sizes.num_heads, sizes.head_k_dim}, name);
    Require(x->is_floating_point(), std::string(name) + " must have a floating dtype");
    Require(x->device() == inputs.q.device(), std::string(name) + " and q share a device");
  }
  return sizes;
}

}  // namespace dplr

DplrArgs PlainFactors(const DplrArgs& args) {
  DplrArgs plain = args;
  const RecurrenceArgs& inputs = args.recurrence;
  if (inputs.beta.defined()) {
    const auto beta = inputs.beta.unsqueeze(-1);
    plain.a = beta * args.a;
    plain.recurrence.v = (beta * inputs.v).to(inputs.v.scalar_type());
    plain.recurrence.beta = at::Tensor();
  }
  if (args.recalls_decayed && inputs.log_decay.defined()) {
    const auto decay = at::exp(inputs.log_decay);
    plain.b = args.b * (decay.dim() == 3 ? decay.unsqueeze(-1) : decay);
  }
  plain.recalls_decayed = false;
  return plain;
}

RecurrenceResult ChunkDplr(const DplrArgs& given) {
  const auto sizes = dplr::Prepare(given);
  const DplrArgs args = PlainFactors(given);
  const auto& inputs = args.recurrence;
  const NonFiniteTokens tokens({inputs.k, inputs.v, args.a, args.b}, inputs.log_decay);
  if (!tokens.exist()) return dplr::RunInChunks(args, sizes);
  DplrArgs cleared = args;
  for (at::Tensor* x : {&cleared.recurrence.k, &cleared.recurrence.v, &cleared.a, &cleared.b,
                        &cleared.recurrence.log_decay}) {
    *x = tokens.Clear(*x);
  }
  RecurrenceResult result = dplr::RunInChunks(cleared, sizes);
  const at::Tensor at_end = tokens.mark().select(1, sizes.seq_len - 1);
  result.o = result.o + tokens.mark().unsqueeze(-1).to(result.o.scalar_type());
  result.final_state =
      result.final_state + at_end.unsqueeze(-1).unsqueeze(-1).to(result.final_state.scalar_type());
  return result;
}

RecurrenceResult Dplr(const DplrArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    RecordFallback(kCore, args.recurrence, kReferencePlan, kReferenceAsked);
    return ReferenceDplr(args);
  }
  auto on_device = dplr::RunOnCuda(args, dplr::Prepare(args));
  if (on_device.result) return *std::move(on_device.result);
  RecordFallback(kCore, args.recurrence, kAtenChunkPlan, on_device.refusal);
  return ChunkDplr(args);
}

DplrArgs DeltaRuleAsDplr(const RecurrenceArgs& args) {
  RequireShape(args.beta, {args.k.size(0), args.k.size(1), args.k.size(2)}, "beta");
  return {.recurrence = args, .a = args.k, .b = args.k, .recalls_decayed = true};
}

namespace dplr {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "a state whose transition is diagonal plus low rank: delta rules and RWKV-7";
  entry.source = "arXiv 2503.14456, 2510.26692";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      {.name = "a",
       .shape = "B T H K",
       .kind = InputKind::kUnitNorm,
       .help = "along what is erased; |a| |b| at most 2"},
      {.name = "b",
       .shape = "B T H K",
       .kind = InputKind::kUnitNorm,
       .help = "what is recalled, from the state before its decay"},
      LogDecaySpec("B T H K", "logarithm of the decay of the state; none: no decay"),
      InitialStateSpec("B H K V"),
  };
  entry.outputs = {
      {.name = "o", .shape = "B T H V", .help = "what each query reads"},
      FinalStateSpec("B H K V"),
  };
  entry.state_pairs = {{"final_state", "initial_state"}};
  entry.device_plans = DevicePlans();
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = Dplr({.recurrence = {.q = FindTensor(inputs, "q"),
                                             .k = FindTensor(inputs, "k"),
                                             .v = FindTensor(inputs, "v"),
                                             .log_decay = FindTensor(inputs, "log_decay"),
                                             .initial_state = FindTensor(inputs, "initial_state"),
                                             .scale = options.scale,
                                             .chunk_size = options.chunk_size},
                              .a = FindTensor(inputs, "a"),
                              .b = FindTensor(inputs, "b")},
                             options.path);
    return NamedTensors{{"o", result.o}, {"final_state", result.final_state}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace dplr
}  // namespace mixerbench::kernels
