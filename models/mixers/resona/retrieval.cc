// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/resona/retrieval.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/non_finite.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models::resona {
namespace {

constexpr double kNormEps = 1e-8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor Norm(const at::Tensor& x) {
  return at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true);
}

// [B,T,N]
at::Tensor Cosines(const at::Tensor& queries, const at::Tensor& codes) {
  return at::bmm(queries, codes.mT()) / (at::bmm(Norm(queries), Norm(codes).mT()) + kNormEps);
}

// How many chunks each query may read: [T,1] int64.
at::Tensor NumEligible(const SearchArgs& args) {
  const std::int64_t end = args.first_position + args.queries.size(1);
  const at::Tensor positions = at::arange(
      args.first_position, end, args.queries.options().dtype(at::kLong).requires_grad(false));
  return positions.div(args.chunk_size, "floor").unsqueeze(1);
}

// Rows of chunks [B,N,W] at `index` [B,M] -> [B,M,W]. The gradient of a chunk is the sum over those
// who took it: a product with a matrix of ones and zeros, since sums in no fixed order would differ
// from run to run.
at::Tensor TakeChunks(const at::Tensor& chunks, const at::Tensor& index) {
  const std::int64_t num_chunks = chunks.size(1);
  at::Tensor taken;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor first =
        at::arange(chunks.size(0), index.options()).mul_(num_chunks).unsqueeze(1);
    taken = chunks.reshape({-1, chunks.size(2)})
                .index_select(0, (index + first).flatten())
                .view({chunks.size(0), index.size(1), chunks.size(2)});
  }
  kernels::SetBackward("TakeChunks", {chunks}, {taken}, {index},
                       [num_chunks](const kernels::BackwardArgs& args) {
                         const at::Tensor& grad = args.grads[0];
                         const at::Tensor& of = args.saved[0];
                         const at::Tensor took = at::arange(num_chunks, of.options())
                                                     .unsqueeze(1)
                                                     .eq(of.unsqueeze(1))
                                                     .to(grad.scalar_type());  // [B,N,M]
                         return std::vector<at::Tensor>{at::bmm(took, grad)};
                       });
  return taken;
}

// Keys and values of the chosen chunks, gathered for each query.
at::Tensor Gathered(const IntegrateArgs& args, double scale) {
  const at::Tensor &q = args.q, &kv = args.kv;
  const std::int64_t batch_size = q.size(0), seq_len = q.size(1),
                     top_k = args.choice.chunks.size(2);
  const std::int64_t num_chunks = kv.size(1) / args.chunk_size;
  const at::Tensor chunks =
      kv.narrow(1, 0, num_chunks * args.chunk_size).reshape({batch_size, num_chunks, -1});
  const auto per_token = [&](const at::Tensor& x) {  // [.,T,k] -> [.,T,k U,1]
    return x.repeat_interleave(args.chunk_size, -1).unsqueeze(-1);
  };
  const at::Tensor missing = per_token(args.choice.valid).logical_not();  // [T,k U,1]
  // Of a query without chunks nothing is hidden, so that its softmax is finite.
  const at::Tensor hidden = missing & missing.all(1, /*keepdim=*/true).logical_not();
  const at::Tensor rows =
      TakeChunks(chunks, args.choice.chunks.flatten(1))
          .view({batch_size, seq_len, top_k * args.chunk_size, 2, q.size(2), q.size(3)})
          .masked_fill(missing.unsqueeze(-1).unsqueeze(-1), 0);
  const at::Tensor k = AtLeastFloat(rows.select(3, 0));  // [B,T,k U,h,D]
  const at::Tensor v = AtLeastFloat(rows.select(3, 1));
  const at::Tensor scores = (AtLeastFloat(q).unsqueeze(2) * k).sum(-1) * scale;  // [B,T,k U,h]
  at::Tensor weights = at::softmax(scores.masked_fill(hidden, -kInfinity), 2);
  if (args.choice.gate.defined()) weights = weights * per_token(args.choice.gate);
  return (weights.unsqueeze(-1) * v).sum(2).to(q.scalar_type());
}

// A mask of all tokens of the chosen chunks.
at::Tensor Masked(const IntegrateArgs& args, double scale) {
  const at::Tensor& q = args.q;
  const std::int64_t num_tokens = args.kv.size(1), seq_len = q.size(1);
  const std::int64_t num_chunks = num_tokens / args.chunk_size;
  const std::int64_t num_chunked = num_chunks * args.chunk_size;
  const kernels::NonFiniteTokens tokens({args.kv.select(2, 0), args.kv.select(2, 1)});
  const auto heads = [&](std::int64_t part) {  // [B,h,N U,D]
    const at::Tensor x = args.kv.select(2, part);
    return AtLeastFloat((tokens.exist() ? tokens.Clear(x) : x).narrow(1, 0, num_chunked))
        .transpose(1, 2);
  };
  const at::Tensor n = at::arange(num_chunks, args.choice.chunks.options());
  const at::Tensor chose =
      (args.choice.chunks.unsqueeze(-1).eq(n) & args.choice.valid.unsqueeze(-1));  // [B,T,k,N]
  const auto per_token = [&](const at::Tensor& x) {  // [B,T,N] -> [B,1,T,N U]
    return x.repeat_interleave(args.chunk_size, -1).unsqueeze(1);
  };
  const at::Tensor missing = chose.any(2).logical_not();
  const at::Tensor hidden = missing & missing.all(-1, /*keepdim=*/true).logical_not();
  const at::Tensor scores = at::matmul(AtLeastFloat(q).transpose(1, 2), heads(0).mT()) * scale;
  at::Tensor weights = at::softmax(scores.masked_fill(per_token(hidden), -kInfinity), -1);
  if (args.choice.gate.defined()) {
    const at::Tensor gate = args.choice.gate;
    weights = weights * per_token((gate.unsqueeze(-1) * chose.to(gate.scalar_type())).sum(2));
  }
  const at::Tensor o = at::matmul(weights, heads(1)).transpose(1, 2);
  if (!tokens.exist()) return o.to(q.scalar_type());
  const at::Tensor mark = tokens.mark().narrow(1, num_tokens - seq_len, seq_len).unsqueeze(-1);
  return (o + mark).to(q.scalar_type());
}

}  // namespace

Choice Search(const SearchArgs& args) {
  const at::Tensor eligible = NumEligible(args);
  const at::Tensor n = at::arange(args.codes.size(1), eligible.options());
  const at::Tensor hidden = n.ge(eligible);  // [T,N]
  const at::Tensor rank = at::arange(args.top_k, eligible.options());
  Choice choice{.chunks = {}, .valid = rank.lt(eligible), .gate = {}};
  const at::Tensor cosines = Cosines(args.queries, args.codes);
  std::vector<at::Tensor> chunks;
  {
    const at::NoGradGuard no_grad;
    at::Tensor left = cosines.masked_fill(hidden, -kInfinity);
    for (std::int64_t r = 0; r < args.top_k; ++r) {
      chunks.push_back(left.argmax(-1));  // of equal ones the first
      if (r + 1 < args.top_k) left.masked_fill_(n.eq(chunks.back().unsqueeze(-1)), -kInfinity);
    }
  }
  choice.chunks = at::stack(chunks, -1);
  if (args.gradient == SearchGradient::kNone) return choice;

  // A query without chunks has equal scores instead of none, so that its softmax is finite.
  const at::Tensor scores =
      cosines.masked_fill(hidden, -kInfinity).masked_fill(eligible.eq(0), 0) / args.temperature;
  const at::Tensor p = at::softmax(scores, -1);
  std::vector<at::Tensor> gates;
  for (const at::Tensor& chunk : chunks) {
    gates.push_back((p * n.eq(chunk.unsqueeze(-1)).to(p.scalar_type())).sum(-1));
  }
  choice.gate = at::stack(gates, -1);
  if (args.gradient == SearchGradient::kStraightThrough) {
    choice.gate = choice.gate - choice.gate.detach() + 1;
  }
  return choice;
}

at::Tensor HasChunk(const SearchArgs& args, const at::Tensor& like) {
  return NumEligible(args).gt(0).to(like.scalar_type());
}

at::Tensor Integrate(const IntegrateArgs& args, kernels::ExecutionPath path) {
  const std::int64_t head_dim = args.q.size(3);
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const bool is_reference = path == kernels::ExecutionPath::kReference;
  const std::int64_t gathered = args.choice.chunks.size(2) * args.chunk_size * head_dim;
  const bool gathers = !is_reference && gathered <= args.kv.size(1);
  const std::string_view plan = is_reference ? kernels::kReferencePlan
                                : gathers    ? "gather"
                                             : "mask";
  kernels::RecordPlan("resona", plan,
                      kernels::NeedsBackward({args.q, args.kv}) ? plan : std::string_view(),
                      is_reference      ? kernels::kReferenceAsked
                      : args.q.is_cpu() ? kernels::kOnCpu
                                        : "no device code for retrieval");
  return gathers ? Gathered(args, scale) : Masked(args, scale);
}

}  // namespace mixerbench::models::resona
