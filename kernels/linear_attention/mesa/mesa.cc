// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/mesa/mesa.h"

#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/mesa/mesa_plan.h"
#include "kernels/linear_attention/mesa/mesa_solve.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "mesa";

// The states before each chunk and the last, [N R,K,F] and [R,K,F]: every state is a product of
// decays between chunks with what all chunks before it write.
ChunkStates StatesOfChunks(const at::Tensor& initial_state, const at::Tensor& writes,
                           const at::Tensor& log_decay_of_chunks) {
  const std::int64_t num_chunks = log_decay_of_chunks.size(0);
  const LogDecaySums b(log_decay_of_chunks.t());                                   // [R,N]
  const auto by_sequence = writes.unflatten(0, {num_chunks, -1}).transpose(0, 1);  // [R,N,K,F]
  const auto first = initial_state.unsqueeze(1);                                   // [R,1,K,F]
  const auto kept = at::exp(b.total()).unsqueeze(-1) * first.flatten(2);           // [R,N,K F]
  const auto after =
      at::baddbmm(kept, CausalDecay(b), by_sequence.flatten(2)).view(by_sequence.sizes());
  return {.entering =
              at::cat({first, after.narrow(1, 0, num_chunks - 1)}, 1).transpose(0, 1).flatten(0, 1),
          .final_state = after.select(1, num_chunks - 1)};
}

// All tokens are finite.
MesaResult MesaInChunks(const MesaArgs& args, const PreparedRecurrence& sizes) {
  const auto dtype = sizes.compute_dtype;
  const auto chunking = CutEvenly(sizes.seq_len, args.chunk_size);
  const std::int64_t num_chunks = chunking.num_chunks, head_k_dim = sizes.head_k_dim;
  const auto q = SplitChunks(args.q, chunking, dtype) * sizes.scale;  // [N R,C,K]
  const auto k = SplitChunks(args.k, chunking, dtype);                // [N R,C,K]
  const auto v = SplitChunks(args.v, chunking, dtype);                // [N R,C,V]
  const auto beta = SplitChunks(args.beta, chunking, dtype);          // [N R,C]
  const auto log_decay = args.log_decay.defined() ? SplitChunks(args.log_decay, chunking, dtype)
                                                  : at::zeros_like(beta).detach();
  const LogDecaySums b(log_decay);
  const auto b_last = LastToken(b);
  const auto from_start = at::exp(b.total()).unsqueeze(-1);
  const auto pairs = CausalDecay(b) * beta.unsqueeze(1);

  const auto initial = [&](const at::Tensor& state, std::int64_t width) {
    if (state.defined()) return state.to(dtype).flatten(0, 1);
    return at::zeros({sizes.batch_size * sizes.num_heads, head_k_dim, width}, q.options());
  };
  const auto k_leaving = k * (at::exp(b_last - b) * beta).unsqueeze(-1);
  const auto states = StatesOfChunks(
      at::cat(
          {initial(args.initial_gram, head_k_dim), initial(args.initial_state, sizes.head_v_dim)},
          -1),
      at::bmm(k_leaving.mT(), at::cat({k, v}, -1)), b_last.total().view({num_chunks, -1}));
  const auto parts = [&](const at::Tensor& x) {
    return x.split_with_sizes({head_k_dim, sizes.head_v_dim}, -1);
  };
  const auto entering = parts(states.entering);

  const auto ridge =
      args.ridge.to(dtype).unsqueeze(1).expand({num_chunks * sizes.batch_size, -1, -1, -1});
  const mesa::MesaSystem system{.k = k,
                                .pairs = pairs,
                                .from_start = from_start,
                                .entering = entering[0],
                                .ridge = ridge.flatten(0, 1),
                                .log_decay = log_decay.detach(),
                                .beta = beta.detach()};
  const auto x = mesa::Solve(system, q, args.num_iterations);
  const auto o = at::baddbmm(at::bmm(x, entering[1]) * from_start, at::bmm(x, k.mT()) * pairs, v);

  const auto final_states = parts(states.final_state.unflatten(0, {-1, sizes.num_heads}));
  MesaResult result{.o = MergeChunks(o, chunking, sizes.num_heads).to(args.v.scalar_type()),
                    .final_gram = final_states[0],
                    .final_state = final_states[1]};
  if (args.wants_residual) {
    const at::NoGradGuard no_grad;
    const auto norm = [](const at::Tensor& rows) {
      return at::linalg_vector_norm(rows, 2, {-1}, /*keepdim=*/true);
    };
    result.residual =
        MergeChunks(norm(system.Apply(x) - q) / norm(q), chunking, sizes.num_heads).squeeze(-1);
  }
  return result;
}

}  // namespace

namespace mesa {

PreparedRecurrence PrepareMesa(const MesaArgs& args) {
  const auto sizes = Prepare({.q = args.q,
                              .k = args.k,
                              .v = args.v,
                              .log_decay = args.log_decay,
                              .beta = args.beta,
                              .initial_state = args.initial_state,
                              .scale = args.scale,
                              .chunk_size = args.chunk_size},
                             DecayShape::kScalar, /*has_beta=*/true);
  RequireShape(args.ridge, {sizes.num_heads, sizes.head_k_dim}, "ridge");
  if (args.initial_gram.defined()) {
    RequireShape(args.initial_gram,
                 {sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_k_dim},
                 "initial_gram");
  }
  Require(args.num_iterations >= 1, "num_iterations must be at least 1");
  return sizes;
}

}  // namespace mesa

MesaResult ChunkMesa(const MesaArgs& args) {
  const auto sizes = mesa::PrepareMesa(args);
  const NonFiniteTokens tokens({args.k, args.v, args.beta}, args.log_decay);
  if (!tokens.exist()) return MesaInChunks(args, sizes);
  MesaArgs cleared = args;
  for (at::Tensor* x : {&cleared.k, &cleared.v, &cleared.beta, &cleared.log_decay}) {
    *x = tokens.Clear(*x);
  }
  MesaResult result = MesaInChunks(cleared, sizes);
  const auto at_end =
      tokens.mark().select(1, sizes.seq_len - 1).unsqueeze(-1).unsqueeze(-1);  // [B,H,1,1]
  result.o = result.o + tokens.mark().unsqueeze(-1).to(result.o.scalar_type());
  result.final_gram = result.final_gram + at_end.to(result.final_gram.scalar_type());
  result.final_state = result.final_state + at_end.to(result.final_state.scalar_type());
  if (args.wants_residual) {
    result.residual = result.residual + tokens.mark().to(result.residual.scalar_type());
  }
  return result;
}

MesaResult Mesa(const MesaArgs& args, ExecutionPath path) {
  if (path != ExecutionPath::kReference) return ChunkMesa(args);
  RecordAtenChunks(kCore, path, args.q,
                   NeedsBackward({args.q, args.k, args.v, args.beta, args.ridge, args.log_decay,
                                  args.initial_gram, args.initial_state}));
  return ReferenceMesa(args);
}

namespace mesa {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "least squares over the past with a scalar decay, solved for every token";
  entry.source = "arXiv 2506.05233";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .kind = InputKind::kUnitNorm, .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      LogDecaySpec(
          "B T H",
          "logarithm of the decay of both states, applied before the write; none: no decay"),
      {.name = "beta", .shape = "B T H", .kind = InputKind::kUnit, .help = "write strength"}};
  // Both states, for which random values would be no legal ones: a gram matrix is positive.
  entry.outputs = {{.name = "o", .shape = "B T H V", .help = "what each query reads"},
                   FinalStateSpec("B H K K", "sum of k k^T after the last token", "final_gram"),
                   FinalStateSpec("B H K V", "sum of k v^T after the last token")};
  entry.device_plans = DevicePlans();
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const at::Tensor q = FindTensor(inputs, "q");
    Require(q.defined() && q.dim() == 4, "q must be [B,T,H,K]");
    const auto dtype = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto result = Mesa({.q = q,
                              .k = FindTensor(inputs, "k"),
                              .v = FindTensor(inputs, "v"),
                              .beta = FindTensor(inputs, "beta"),
                              .ridge = at::ones({q.size(2), q.size(3)}, q.options().dtype(dtype)),
                              .log_decay = FindTensor(inputs, "log_decay"),
                              .scale = options.scale,
                              .chunk_size = options.chunk_size},
                             options.path);
    return NamedTensors{
        {"o", result.o}, {"final_gram", result.final_gram}, {"final_state", result.final_state}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace mesa
}  // namespace mixerbench::kernels
