// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila.h"

#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include "base/check.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/linear_attention/sila/sila_cuda.h"
#include "kernels/linear_attention/sila/sila_plan.h"
#include "kernels/linear_attention/sila/sila_steps.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "sila";

RecurrenceArgs Basics(const SilaArgs& args) {
  return {.q = args.q,
          .k = args.k,
          .v = args.v,
          .initial_state = args.initial_state,
          .scale = args.scale,
          .chunk_size = args.chunk_size};
}

void Record(const SilaArgs& args, std::string_view plan, std::string_view reason) {
  const bool differentiates =
      NeedsBackward({args.q, args.k, args.v, args.write_logit, args.forget_logit, args.write_memory,
                     args.forget_memory, args.initial_state});
  RecordPlan(kCore, plan, differentiates ? plan : std::string_view(), reason);
}

}  // namespace

namespace sila {

PreparedRecurrence PrepareSila(const SilaArgs& args) {
  const auto sizes = Prepare(Basics(args), DecayShape::kScalar, /*has_beta=*/false);
  const auto per_token = {sizes.batch_size, sizes.seq_len, sizes.num_heads};
  RequireShape(args.write_logit, per_token, "write_logit");
  RequireShape(args.forget_logit, per_token, "forget_logit");
  if (args.forced_write_gate.defined()) {
    RequireShape(args.forced_write_gate, per_token, "forced_write_gate");
  }
  Require(args.write_memory.defined() == args.forget_memory.defined(),
          "write_memory and forget_memory come together");
  if (!args.write_memory.defined()) return sizes;
  for (const auto& [memory, name] : {std::pair(&args.write_memory, "write_memory"),
                                     std::pair(&args.forget_memory, "forget_memory")}) {
    if (memory->dim() == 3) {
      RequireShape(*memory, {sizes.num_heads, sizes.num_heads, sizes.head_v_dim}, name);
    } else {
      RequireShape(*memory, {sizes.num_heads, sizes.head_v_dim}, name);
    }
  }
  return sizes;
}

at::Tensor OfEveryHead(const at::Tensor& memory) {
  if (!memory.defined() || memory.dim() == 3) return memory;
  return at::diag_embed(memory.t()).permute({1, 2, 0});
}

// For z < 0: ln(2 e^z / (1 + e^2z)) = z - ln(1 + (e^2z - 1) / 2), which is exactly 0 at 0.
at::Tensor LogForget(const at::Tensor& z) {
  const auto negative = z.clamp_max(0);
  return negative - at::log1p(at::expm1(2 * negative) / 2);
}

at::Tensor WriteGate(const at::Tensor& z, const at::Tensor& forced) {
  const auto free = at::sigmoid(z);
  return forced.defined() ? at::where(forced.isnan(), free, forced) : free;
}

at::Tensor InitialSilaState(const SilaArgs& args, const PreparedRecurrence& sizes) {
  return InitialState(Basics(args), sizes);
}

}  // namespace sila

SilaResult ChunkSila(const SilaArgs& args) {
  const auto sizes = sila::PrepareSila(args);
  const NonFiniteTokens tokens({args.k, args.v, args.write_logit, args.forget_logit});
  if (!tokens.exist()) return sila::SilaInChunks(args, sizes);
  SilaArgs cleared = args;
  cleared.k = tokens.Clear(args.k);
  cleared.v = tokens.Clear(args.v);
  cleared.write_logit = tokens.Clear(args.write_logit);
  cleared.forget_logit = tokens.Clear(args.forget_logit);
  SilaResult result = sila::SilaInChunks(cleared, sizes);
  const auto mark = [](at::Tensor& x, const at::Tensor& marks) {
    if (x.defined()) x = x + marks.to(x.scalar_type());
  };
  const at::Tensor at_end = tokens.mark().select(1, sizes.seq_len - 1);
  mark(result.o, tokens.mark().unsqueeze(-1));
  mark(result.final_state, at_end.unsqueeze(-1).unsqueeze(-1));
  mark(result.write_gate, tokens.mark());
  mark(result.log_decay, tokens.mark());
  mark(result.recalled, tokens.mark().unsqueeze(-1));
  return result;
}

SilaResult Sila(const SilaArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    Record(args, kReferencePlan, kReferenceAsked);
    return ReferenceSila(args);
  }
  auto on_device = sila::RunOnCuda(args, sila::PrepareSila(args));
  if (on_device.result) return *std::move(on_device.result);
  Record(args, kAtenChunkPlan, on_device.refusal);
  return ChunkSila(args);
}

namespace sila {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "delta rule whose write and forget gates depend on what the memory recalls";
  entry.source = "SILA: selective ignoring linear attention";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k",
       .shape = "B T H K",
       .kind = InputKind::kUnitNorm,
       .help = "keys, norm at most 1"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      {.name = "write_logit", .shape = "B T H", .help = "of the write gate, by the token"},
      {.name = "forget_logit", .shape = "B T H", .help = "of the forget gate, by the token"},
      {.name = "write_memory",
       .shape = "H V",
       .required = false,
       .help = "weights of the recalled value in the write gate; none: zeros"},
      {.name = "forget_memory",
       .shape = "H V",
       .required = false,
       .help = "weights of the recalled value in the forget gate; none: zeros"},
      InitialStateSpec("B H K V")};
  entry.outputs = {{.name = "o", .shape = "B T H V", .help = "what each query reads"},
                   FinalStateSpec("B H K V")};
  entry.state_pairs = {{"final_state", "initial_state"}};
  entry.device_plans = DevicePlans();
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = Sila({.q = FindTensor(inputs, "q"),
                              .k = FindTensor(inputs, "k"),
                              .v = FindTensor(inputs, "v"),
                              .write_logit = FindTensor(inputs, "write_logit"),
                              .forget_logit = FindTensor(inputs, "forget_logit"),
                              .write_memory = FindTensor(inputs, "write_memory"),
                              .forget_memory = FindTensor(inputs, "forget_memory"),
                              .initial_state = FindTensor(inputs, "initial_state"),
                              .scale = options.scale,
                              .chunk_size = options.chunk_size},
                             options.path);
    return NamedTensors{{"o", result.o}, {"final_state", result.final_state}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace sila
}  // namespace mixerbench::kernels
