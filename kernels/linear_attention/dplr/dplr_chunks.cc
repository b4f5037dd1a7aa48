// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr_chunks.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/dplr/dplr_levels.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::dplr {
namespace {

Chunking CutInPowersOfTwo(std::int64_t seq_len, std::int64_t max_chunk_size) {
  std::int64_t size = 1;
  while (2 * size <= max_chunk_size && size < seq_len) size *= 2;
  return {.seq_len = seq_len, .chunk_size = size, .num_chunks = (seq_len + size - 1) / size};
}

// M = N R chunks. The first reader of a token is b, the second q; the first writer is k, of v, the
// second a, of -y, where y is what b reads.
struct ChunkedTokens {
  at::Tensor readers;              // [M,C,2,K]
  at::Tensor writers;              // [M,C,2,K]
  std::vector<at::Tensor> decays;  // of blocks of 1, 2, ..., C tokens
};

ChunkedTokens SplitTokens(const DplrArgs& args, const Chunking& chunking,
                          const PreparedRecurrence& sizes) {
  const auto split = [&](const at::Tensor& x) {
    return SplitChunks(x, chunking, sizes.compute_dtype);
  };
  const auto& inputs = args.recurrence;
  ChunkedTokens tokens;
  tokens.readers = at::stack({split(args.b), split(inputs.q)}, 2);
  tokens.readers.select(2, 1).mul_(sizes.scale);
  tokens.writers = at::stack({split(inputs.k), split(args.a)}, 2);
  const auto log_decay =
      inputs.log_decay.defined()
          ? split(inputs.log_decay)
          : at::zeros({tokens.readers.size(0), chunking.chunk_size}, tokens.readers.options());
  tokens.decays = BlockDecays(log_decay.dim() == 2 ? log_decay.unsqueeze(-1) : log_decay);
  return tokens;
}

// (I + L)^-1 x, or with the transpose of it, for L [M,C,C] strictly lower triangular.
at::Tensor SolveUnitLower(const at::Tensor& lower, const at::Tensor& x, bool transposed) {
  return at::linalg_solve_triangular(transposed ? lower.mT() : lower, x, /*upper=*/transposed,
                                     /*left=*/true, /*unitriangular=*/true);
}

// Reader `reader` of every token and all writers, [M,C,2C] of scores [M,2C,2C].
at::Tensor ScoresOf(const at::Tensor& scores, std::int64_t reader) {
  return scores.unflatten(1, {-1, 2}).select(2, reader);
}

// The same of one writer of every token: [M,C,C].
at::Tensor ScoresOf(const at::Tensor& scores, std::int64_t reader, std::int64_t writer) {
  return ScoresOf(scores, reader).unflatten(2, {-1, 2}).select(3, writer);
}

// What the backward pass needs beside the inputs.
struct ChunkFactors {
  at::Tensor scores;       // [M,2C,2C]
  at::Tensor w;            // [M,C,K]: y = u + w S, S the state that enters the chunk
  at::Tensor transitions;  // [M,K,K]: the state that leaves is transition S + what is written
  at::Tensor entering;     // [M,K,V]
  at::Tensor written;      // [M,C,2,V]: v and -y
};

struct ChunkResult {
  at::Tensor o;            // [M,C,V]
  at::Tensor final_state;  // [R,K,V]
  ChunkFactors factors;
};

// initial_state [R,K,V]
ChunkResult Forward(const ChunkedTokens& tokens, const at::Tensor& v,
                    const at::Tensor& initial_state, std::int64_t num_chunks) {
  const std::int64_t rows = 2 * tokens.readers.size(1);
  ChunkFactors f;
  f.scores = at::zeros({v.size(0), rows, rows}, v.options());
  const Levels levels =
      ClimbLevels(tokens.readers, tokens.writers, tokens.decays, LevelPass::kScores, f.scores);
  const auto k_carried = levels.writers.select(2, 0);
  const auto a_carried = levels.writers.select(2, 1);

  const auto recalled = at::bmm(ScoresOf(f.scores, 0, 0), v);
  const auto wu =
      SolveUnitLower(ScoresOf(f.scores, 0, 1), at::cat({levels.readers.select(2, 0), recalled}, -1),
                     /*transposed=*/false)
          .split_with_sizes({tokens.readers.size(3), v.size(2)}, -1);
  f.w = wu[0];
  const auto& u = wu[1];  // [M,C,V]

  f.transitions = at::bmm(a_carried.mT(), f.w).neg_();
  f.transitions.diagonal(0, 1, 2).add_(tokens.decays.back().squeeze(1));
  const auto writes = at::bmm(k_carried.mT(), v).baddbmm_(a_carried.mT(), u, 1, -1);
  const auto transition = f.transitions.chunk(num_chunks);
  const auto write = writes.chunk(num_chunks);
  const auto states =
      ScanChunks(initial_state, num_chunks, [&](std::int64_t n, const at::Tensor& state) {
        const auto i = static_cast<std::size_t>(n);
        return at::baddbmm(write[i], transition[i], state);
      });
  f.entering = states.entering;

  const auto y = at::baddbmm(u, f.w, f.entering);
  f.written = at::stack({v, y.neg()}, 2);
  const auto o = at::bmm(levels.readers.select(2, 1), f.entering)
                     .baddbmm_(ScoresOf(f.scores, 1), f.written.flatten(1, 2));
  return {.o = o, .final_state = states.final_state, .factors = std::move(f)};
}

struct ChunkGradients {
  LevelGradients tokens;
  at::Tensor v;              // [M,C,V]
  at::Tensor initial_state;  // [R,K,V]
};

// d_o [M,C,V], d_final_state [R,K,V]
ChunkGradients Backward(const ChunkedTokens& tokens, const ChunkFactors& f, const at::Tensor& d_o,
                        const at::Tensor& d_final_state, std::int64_t num_chunks) {
  const Levels levels =
      ClimbLevels(tokens.readers, tokens.writers, tokens.decays, LevelPass::kOperands, {});
  const auto q_scores = ScoresOf(f.scores, 1);
  auto d_written = at::bmm(q_scores.mT(), d_o);  // [M,2C,V]
  const auto of_y = [](const at::Tensor& x) { return x.unflatten(1, {-1, 2}).select(2, 1); };

  // Of the states, from the last chunk to the first: S of each has q and w as its readers.
  auto d_writes = at::bmm(levels.readers.select(2, 1).mT(), d_o);
  d_writes.baddbmm_(f.w.mT(), of_y(d_written), 1, -1);
  const auto transition = f.transitions.chunk(num_chunks);
  const auto d_write = d_writes.chunk(num_chunks);
  std::vector<at::Tensor> leaving(static_cast<std::size_t>(num_chunks));
  auto d_state = d_final_state;
  for (std::size_t n = leaving.size(); n-- > 0;) {
    leaving[n] = d_state;
    d_state = at::baddbmm(d_write[n], transition[n].mT(), d_state);
  }
  const auto d_leaving = at::cat(leaving);  // [M,K,V]

  d_written.baddbmm_(levels.writers.flatten(1, 2), d_leaving);
  const auto p =
      SolveUnitLower(ScoresOf(f.scores, 0, 1), of_y(d_written).neg(), /*transposed=*/true);
  const auto d_read = at::stack({p, d_o}, 2).flatten(1, 2);  // [M,2C,V]
  const auto written = f.written.flatten(1, 2);              // [M,2C,V]
  const auto d_v =
      d_written.unflatten(1, {-1, 2}).select(2, 0).baddbmm(ScoresOf(f.scores, 0, 0).mT(), p);

  const auto& chunk_decay = tokens.decays.back();                                    // [M,1,W]
  auto d_log_decay = (f.entering * d_leaving).sum(at::IntArrayRef{2}).unsqueeze(1);  // [M,1,K]
  d_log_decay = d_log_decay * chunk_decay;
  if (chunk_decay.size(2) == 1) {
    d_log_decay = d_log_decay.sum(at::IntArrayRef{2}, /*keepdim=*/true);
  }
  const auto shape = tokens.readers.sizes();
  return {.tokens = DescendLevels(tokens.readers, tokens.writers, tokens.decays, levels.operands,
                                  at::bmm(d_read, f.entering.mT()).view(shape),
                                  at::bmm(written, d_leaving.mT()).view(shape),
                                  at::bmm(d_read, written.mT()), d_log_decay),
          .v = d_v,
          .initial_state = d_state};
}

std::vector<at::Tensor> InputsOf(const DplrArgs& args) {
  const auto& r = args.recurrence;
  return {r.q, r.k, r.v, args.a, args.b, r.log_decay, r.initial_state};
}

DplrArgs FromInputs(const std::vector<at::Tensor>& x) {
  return {.recurrence = {.q = x[0], .k = x[1], .v = x[2], .log_decay = x[5], .initial_state = x[6]},
          .a = x[3],
          .b = x[4]};
}

// `saved`: the inputs, then the factors.
std::vector<at::Tensor> InputGradients(const BackwardArgs& backward, const Chunking& chunking,
                                       const PreparedRecurrence& sizes) {
  const auto& saved = backward.saved;
  const DplrArgs args = FromInputs(saved);
  const auto& inputs = args.recurrence;
  const ChunkFactors factors{.scores = saved[7],
                             .w = saved[8],
                             .transitions = saved[9],
                             .entering = saved[10],
                             .written = saved[11]};
  const auto floats = inputs.v.options().dtype(sizes.compute_dtype);
  const auto d_o =
      backward.grads[0].defined()
          ? SplitChunks(backward.grads[0], chunking, sizes.compute_dtype)
          : at::zeros({factors.w.size(0), chunking.chunk_size, sizes.head_v_dim}, floats);
  const auto d_final_state =
      backward.grads[1].defined()
          ? backward.grads[1].flatten(0, 1)
          : at::zeros({sizes.batch_size * sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim},
                      floats);
  const ChunkGradients d = Backward(SplitTokens(args, chunking, sizes), factors, d_o, d_final_state,
                                    chunking.num_chunks);
  const auto merge = [&](const at::Tensor& x, const at::Tensor& like) {
    return MergeChunks(x, chunking, sizes.num_heads).to(like.scalar_type());
  };
  const auto d_log_decay = [&] {
    if (!inputs.log_decay.defined()) return at::Tensor();
    const auto merged = merge(d.tokens.log_decay, inputs.log_decay);
    return inputs.log_decay.dim() == 3 ? merged.squeeze(-1) : merged;
  };
  return {merge(d.tokens.readers.select(2, 1) * sizes.scale, inputs.q),
          merge(d.tokens.writers.select(2, 0), inputs.k),
          merge(d.v, inputs.v),
          merge(d.tokens.writers.select(2, 1), args.a),
          merge(d.tokens.readers.select(2, 0), args.b),
          d_log_decay(),
          inputs.initial_state.defined() ? d.initial_state.view(inputs.initial_state.sizes())
                                               .to(inputs.initial_state.scalar_type())
                                         : at::Tensor()};
}

}  // namespace

RecurrenceResult RunInChunks(const DplrArgs& args, const PreparedRecurrence& sizes) {
  const auto& inputs = args.recurrence;
  const auto chunking = CutInPowersOfTwo(sizes.seq_len, inputs.chunk_size);
  ChunkResult result;
  RecurrenceResult merged;
  {
    const at::NoGradGuard no_grad;
    result = Forward(SplitTokens(args, chunking, sizes),
                     SplitChunks(inputs.v, chunking, sizes.compute_dtype),
                     InitialState(inputs, sizes).flatten(0, 1), chunking.num_chunks);
    merged.o =
        at::empty(inputs.v.sizes(), inputs.v.options().memory_format(at::MemoryFormat::Contiguous));
    merged.o.copy_(MergeChunks(result.o, chunking, sizes.num_heads));
    merged.final_state =
        at::empty({sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim},
                  result.final_state.options());
    merged.final_state.flatten(0, 1).copy_(result.final_state);
  }
  const ChunkFactors& f = result.factors;
  const auto tensors = InputsOf(args);
  auto saved = tensors;
  saved.insert(saved.end(), {f.scores, f.w, f.transitions, f.entering, f.written});
  SetBackward("Dplr", tensors, {merged.o, merged.final_state}, saved,
              [chunking, sizes](const BackwardArgs& backward) {
                return InputGradients(backward, chunking, sizes);
              });
  return merged;
}

}  // namespace mixerbench::kernels::dplr
