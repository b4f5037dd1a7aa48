// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/rwkv6/rwkv6.h"

#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/gla/gla.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "rwkv6";

// The query of the token after each, zeros after the last. [B,T,H,K]
at::Tensor NextQueries(const at::Tensor& q) {
  return at::cat({q.narrow(1, 1, q.size(1) - 1), at::zeros_like(q.narrow(1, 0, 1))}, 1);
}

// What the first token reads of the initial state. [B,1,H,V], dtype of v
at::Tensor FirstRead(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  if (!args.initial_state.defined()) return at::zeros_like(args.v.narrow(1, 0, 1));
  const at::Tensor q = args.q.narrow(1, 0, 1).to(sizes.compute_dtype) * sizes.scale;
  return at::einsum("bthk,bhkv->bthv", {q, args.initial_state.to(sizes.compute_dtype)})
      .to(args.v.scalar_type());
}

// What a token adds to its own output. [B,T,H,V] in the compute dtype
at::Tensor OwnRead(const RecurrenceArgs& args, const at::Tensor& bonus,
                   const PreparedRecurrence& sizes) {
  const auto in_full = [&](const at::Tensor& x) { return x.to(sizes.compute_dtype); };
  const at::Tensor scores =
      at::einsum("bthk,hk->bth", {in_full(args.q) * in_full(args.k), in_full(bonus)});
  return (scores * sizes.scale).unsqueeze(-1) * in_full(args.v);
}

}  // namespace

RecurrenceResult ReadEarlierRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus) {
  const auto sizes = rwkv6::Prepare(args, bonus);
  RecurrenceArgs earlier = args;
  earlier.q = NextQueries(args.q);
  RecurrenceResult result = Gla(earlier, ExecutionPath::kFast);
  result.o = at::cat({FirstRead(args, sizes), result.o.narrow(1, 0, sizes.seq_len - 1)}, 1);
  if (bonus.defined()) {
    result.o = (result.o + OwnRead(args, bonus, sizes)).to(args.v.scalar_type());
  }
  return result;
}

RecurrenceResult Rwkv6(const RecurrenceArgs& args, const at::Tensor& bonus, ExecutionPath path) {
  if (path == ExecutionPath::kFast) return ReadEarlierRwkv6(args, bonus);
  RecordFallback(kCore, args, kReferencePlan, kReferenceAsked);
  return ReferenceRwkv6(args, bonus);
}

namespace rwkv6 {

void Register(CoreRegistry& registry) {
  // All but the bonus, which `run` has from its own input.
  CoreEntry entry = RecurrenceEntry(nullptr, DecayShape::kVector, /*has_beta=*/false);
  entry.summary = "linear attention with a decay per key channel that reads before it writes";
  entry.source = "arXiv 2404.05892";
  const auto state = entry.inputs.back();
  entry.inputs.back() = {.name = "bonus",
                         .shape = "H K",
                         .required = false,
                         .full_precision = true,
                         .help = "what a token adds to its own keys when it reads; none: zeros"};
  entry.inputs.push_back(state);
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = Rwkv6({.q = FindTensor(inputs, "q"),
                               .k = FindTensor(inputs, "k"),
                               .v = FindTensor(inputs, "v"),
                               .log_decay = FindTensor(inputs, "log_decay"),
                               .initial_state = FindTensor(inputs, "initial_state"),
                               .scale = options.scale,
                               .chunk_size = options.chunk_size},
                              FindTensor(inputs, "bonus"), options.path);
    return NamedTensors{{"o", result.o}, {"final_state", result.final_state}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace rwkv6
}  // namespace mixerbench::kernels
