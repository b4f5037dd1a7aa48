// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/titans/titans.h"

#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/linear_attention/titans/titans_steps.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "titans";
constexpr double kNoMomentum = -1000;  // its exponential is zero

// What the scalars of a chunk's tokens come to.
struct ChunkFactors {
  at::Tensor of_memory;             // of M_0 in M_t: e^{b_t} [N R,M,1]
  at::Tensor of_momentum;           // of S_0 in M_t: f_t [N R,M,1]
  at::Tensor of_writes;             // of -k_j^T error_j in M_t: 2 Gamma_tj [N R,M,M]
  at::Tensor momentum_of_writes;    // the same in S at the end [N R,M,1]
  at::Tensor momentum_of_momentum;  // of S_0 in S at the end [N R,1,1]
};

ChunkFactors FactorsOf(const titans::TitansTokens& tokens, const Chunking& chunking,
                       at::ScalarType dtype) {
  const auto split = [&](const at::Tensor& x) { return SplitChunks(x, chunking, dtype); };
  const LogDecaySums b(split(tokens.log_decay)), m(split(tokens.log_momentum));
  const auto step = 2 * split(tokens.step);  // [N R,M]
  const auto decay = CausalDecay(b);
  const auto m_last = LastToken(m);
  const auto momentum = at::exp(m.total()).unsqueeze(-1);  // [N R,M,1]
  return {.of_memory = at::exp(b.total()).unsqueeze(-1),
          .of_momentum = at::bmm(decay, momentum),
          // The steps of momentum from j to r, then the decay from r to t.
          .of_writes = at::bmm(decay, CausalDecay(m)) * step.unsqueeze(1),
          .momentum_of_writes = (at::exp(m_last - m) * step).unsqueeze(-1),
          .momentum_of_momentum = momentum.narrow(1, chunking.chunk_size - 1, 1)};
}

// All tokens are finite.
TitansResult InChunks(const TitansArgs& args, const titans::TitansTokens& tokens,
                      const PreparedRecurrence& sizes) {
  const auto dtype = sizes.compute_dtype;
  const std::int64_t chunk_size = args.mini_batch_size, head_k_dim = sizes.head_k_dim;
  const std::int64_t num_tokens = tokens.num_before + sizes.seq_len;
  const Chunking chunking{.seq_len = num_tokens,
                          .chunk_size = chunk_size,
                          .num_chunks = (num_tokens + chunk_size - 1) / chunk_size};
  // Nobody asks at the places of the tokens before the call.
  const auto all_q =
      at::constant_pad_nd(args.q.to(dtype) * sizes.scale, {0, 0, 0, 0, tokens.num_before, 0});
  const auto q = SplitChunks(all_q, chunking, dtype);     // [N R,M,K]
  const auto k = SplitChunks(tokens.k, chunking, dtype);  // [N R,M,K]
  const auto factors = FactorsOf(tokens, chunking, dtype);
  const auto last = [&](const at::Tensor& x) { return x.narrow(1, chunk_size - 1, 1); };
  const auto memory_row = at::cat({last(factors.of_memory), last(factors.of_momentum)}, 2);
  const auto momentum_row = at::constant_pad_nd(factors.momentum_of_momentum, {1, 0});
  const auto scanned = titans::Scan(
      {.k = k,
       .v = SplitChunks(tokens.v, chunking, dtype),
       .writes = at::cat({k * last(factors.of_writes).mT(), k * factors.momentum_of_writes}, 2),
       .mix = at::cat({memory_row, momentum_row}, 1),
       .memory = titans::InitialMemory(args, sizes).flatten(2, 3).flatten(0, 1)});

  const auto entering =
      scanned.memory.narrow(0, 0, k.size(0)).split_with_sizes({head_k_dim, head_k_dim}, 1);
  const auto carried = at::baddbmm(at::bmm(q * factors.of_memory, entering[0]),
                                   q * factors.of_momentum, entering[1]);
  const auto o = carried - at::bmm(at::bmm(q, k.mT()) * factors.of_writes, scanned.errors);
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  const auto after =
      scanned.memory.narrow(0, num_tokens / chunk_size * num_sequences, num_sequences)
          .unflatten(0, {sizes.batch_size, sizes.num_heads})
          .unflatten(2, {2, head_k_dim});
  const auto of_call = [&](const at::Tensor& x) {
    return MergeChunks(x, chunking, sizes.num_heads).narrow(1, tokens.num_before, sizes.seq_len);
  };
  const auto surprise = at::linalg_vector_norm(scanned.errors.detach(), 2, {-1}, /*keepdim=*/true);
  return {.o = of_call(o).to(args.v.scalar_type()),
          .final_state = titans::StateAfter(tokens, after, chunk_size),
          .surprise = of_call(surprise).squeeze(-1)};
}

}  // namespace

namespace titans {

PreparedRecurrence PrepareTitans(const TitansArgs& args) {
  const auto sizes = Prepare({.q = args.q,
                              .k = args.k,
                              .v = args.v,
                              .log_decay = args.log_decay,
                              .beta = args.step,
                              .initial_state = args.initial_state.memory,
                              .scale = args.scale},
                             DecayShape::kScalar, /*has_beta=*/true);
  const std::int64_t batch_size = sizes.batch_size, num_heads = sizes.num_heads;
  if (args.log_momentum.defined()) {
    RequireShape(args.log_momentum, {batch_size, sizes.seq_len, num_heads}, "log_momentum");
  }
  Require(args.mini_batch_size >= 1, "mini_batch_size must be at least 1");
  const auto& state = args.initial_state;
  Require(state.memory.defined() == state.momentum.defined(), "memory and momentum come together");
  if (state.momentum.defined()) {
    RequireShape(state.momentum, {batch_size, num_heads, sizes.head_k_dim, sizes.head_v_dim},
                 "initial momentum");
  }
  if (!state.k.defined()) return sizes;
  Require(state.k.dim() == 4 && state.k.size(1) < args.mini_batch_size,
          "an unfinished chunk has fewer tokens than a chunk");
  const std::int64_t num_before = state.k.size(1);
  RequireShape(state.k, {batch_size, num_before, num_heads, sizes.head_k_dim}, "unfinished k");
  RequireShape(state.v, {batch_size, num_before, num_heads, sizes.head_v_dim}, "unfinished v");
  RequireShape(state.log_decay, {batch_size, num_before, num_heads}, "unfinished log_decay");
  RequireShape(state.log_momentum, {batch_size, num_before, num_heads}, "unfinished log_momentum");
  RequireShape(state.step, {batch_size, num_before, num_heads}, "unfinished step");
  return sizes;
}

TitansTokens AllTokens(const TitansArgs& args, const PreparedRecurrence& sizes) {
  const auto dtype = sizes.compute_dtype;
  const auto& state = args.initial_state;
  const auto after = [&](const at::Tensor& before, const at::Tensor& x) {
    return before.defined() ? at::cat({before.to(dtype), x.to(dtype)}, 1) : x.to(dtype);
  };
  const auto or_constant = [&](const at::Tensor& x, double value) {
    return x.defined() ? x
                       : at::full_like(args.step.detach(), value, args.step.options().dtype(dtype));
  };
  return {.k = after(state.k, args.k),
          .v = after(state.v, args.v),
          .log_decay = after(state.log_decay, or_constant(args.log_decay, 0)),
          .log_momentum = after(state.log_momentum, or_constant(args.log_momentum, kNoMomentum)),
          .step = after(state.step, args.step),
          .num_before = state.k.defined() ? state.k.size(1) : 0};
}

at::Tensor InitialMemory(const TitansArgs& args, const PreparedRecurrence& sizes) {
  const auto& state = args.initial_state;
  if (state.memory.defined()) {
    return at::stack({state.memory, state.momentum}, 2).to(sizes.compute_dtype);
  }
  return at::zeros({sizes.batch_size, sizes.num_heads, 2, sizes.head_k_dim, sizes.head_v_dim},
                   args.q.options().dtype(sizes.compute_dtype));
}

TitansState StateAfter(const TitansTokens& tokens, const at::Tensor& memory,
                       std::int64_t mini_batch_size) {
  const std::int64_t num_tokens = tokens.k.size(1);
  const std::int64_t num_unfinished = num_tokens % mini_batch_size;
  const auto last = [&](const at::Tensor& x) {
    return x.narrow(1, num_tokens - num_unfinished, num_unfinished);
  };
  return {.memory = memory.select(2, 0),
          .momentum = memory.select(2, 1),
          .k = last(tokens.k),
          .v = last(tokens.v),
          .log_decay = last(tokens.log_decay),
          .log_momentum = last(tokens.log_momentum),
          .step = last(tokens.step)};
}

}  // namespace titans

TitansResult ChunkTitans(const TitansArgs& args) {
  const auto sizes = titans::PrepareTitans(args);
  const auto tokens = titans::AllTokens(args, sizes);
  // A momentum that ends, -infinity, is a legal one.
  const NonFiniteTokens non_finite(
      {tokens.k, tokens.v, tokens.step, tokens.log_momentum.clamp_min(-1)}, tokens.log_decay);
  if (!non_finite.exist()) return InChunks(args, tokens, sizes);
  titans::TitansTokens cleared = tokens;
  for (at::Tensor* x :
       {&cleared.k, &cleared.v, &cleared.log_decay, &cleared.log_momentum, &cleared.step}) {
    *x = non_finite.Clear(*x);
  }
  TitansResult result = InChunks(args, cleared, sizes);
  const auto mark = non_finite.mark().narrow(1, tokens.num_before, sizes.seq_len);
  const auto at_end = mark.select(1, sizes.seq_len - 1).unsqueeze(-1).unsqueeze(-1);  // [B,H,1,1]
  const auto marked = [](const at::Tensor& x, const at::Tensor& marks) {
    return x + marks.to(x.scalar_type());
  };
  const auto memory = at::stack(
      {marked(result.final_state.memory, at_end), marked(result.final_state.momentum, at_end)}, 2);
  return {.o = marked(result.o, mark.unsqueeze(-1)),
          .final_state = titans::StateAfter(tokens, memory, args.mini_batch_size),
          .surprise = marked(result.surprise, mark)};
}

TitansResult Titans(const TitansArgs& args, ExecutionPath path) {
  const auto& state = args.initial_state;
  RecordAtenChunks(kCore, path, args.q,
                   NeedsBackward({args.q, args.k, args.v, args.step, args.log_decay,
                                  args.log_momentum, state.memory, state.momentum, state.k, state.v,
                                  state.log_decay, state.log_momentum, state.step}));
  return path == ExecutionPath::kReference ? ReferenceTitans(args) : ChunkTitans(args);
}

namespace titans {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary =
      "linear memory by gradient descent with momentum and forgetting, in chunks of 16 tokens";
  entry.source = "arXiv 2501.00663";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .kind = InputKind::kUnitNorm, .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      LogDecaySpec("B T H", "logarithm of what the memory keeps; none: it forgets nothing"),
      LogDecaySpec("B T H", "logarithm of what the momentum keeps; none: no momentum",
                   "log_momentum"),
      {.name = "step", .shape = "B T H", .kind = InputKind::kUnit, .help = "size of the step"}};
  // Without its state: what of it belongs to an unfinished chunk are inputs, handed on.
  entry.outputs = {{.name = "o", .shape = "B T H V", .help = "what each query reads"}};
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = Titans({.q = FindTensor(inputs, "q"),
                                .k = FindTensor(inputs, "k"),
                                .v = FindTensor(inputs, "v"),
                                .step = FindTensor(inputs, "step"),
                                .log_decay = FindTensor(inputs, "log_decay"),
                                .log_momentum = FindTensor(inputs, "log_momentum"),
                                .scale = options.scale},
                               options.path);
    return NamedTensors{{"o", result.o}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace titans
}  // namespace mixerbench::kernels
