// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/gla/gla_cuda.h"
#include "kernels/linear_attention/gla/gla_plan.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "gla";

// Blocks of at most this many tokens compare every pair; larger ones are halved first. 4 was the
// fastest of 1, 2, 4, 8 for forward and backward (gla.md).
constexpr std::int64_t kMaxPairwiseBlock = 4;

// A chunk is 2^levels blocks. `chunking.chunk_size` = block << levels.
struct BlockedChunking {
  Chunking chunking;
  std::int64_t block = 0;
};

BlockedChunking CutInBlocks(std::int64_t seq_len, std::int64_t max_chunk_size) {
  BlockedChunking cut{.chunking = CutEvenly(seq_len, max_chunk_size)};
  std::int64_t num_blocks = 1;
  while (cut.chunking.chunk_size > kMaxPairwiseBlock * num_blocks) num_blocks *= 2;
  cut.block = (cut.chunking.chunk_size + num_blocks - 1) / num_blocks;
  cut.chunking.chunk_size = cut.block * num_blocks;
  return cut;
}

// Reads inside blocks of L tokens: o_i = sum_{j<=i} (sum_d q_id k_jd exp(b_id - b_jd)) v_j.
// q, k, b [P,L,K], v [P,L,V] -> [P,L,V]. Every pair has its own exponentials: [P,L,L,K].
at::Tensor ReadPairwise(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const LogDecaySums& b) {
  const auto difference = b.Map([](const at::Tensor& x) { return x.unsqueeze(2); }) -
                          b.Map([](const at::Tensor& x) { return x.unsqueeze(1); });
  const auto exponent = difference + FutureMask(q.size(1), q.options()).unsqueeze(-1);
  const auto decayed_k = at::exp(exponent) * k.unsqueeze(1);  // [P,L,L,K]
  const auto scores = at::matmul(decayed_k, q.unsqueeze(-1)).squeeze(-1);
  return at::bmm(scores, v);
}

// Reads inside blocks of twice `half` tokens, given those inside each half: the second half reads
// the first through b at the last token of the first, so that both factors decay.
// q, k, b, v as above in blocks of any length; o [M,C,V] -> [M,C,V].
at::Tensor ReadFirstHalf(const at::Tensor& o, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const LogDecaySums& b, std::int64_t half) {
  const auto q_halves = SplitHalves(q, half);
  const auto k_halves = SplitHalves(k, half);
  const auto v_halves = SplitHalves(v, half);
  const auto b_halves = b.Halves(half);
  const auto o_halves = SplitHalves(o, half);
  const auto boundary = LastToken(b_halves[0]);
  const auto scores = at::bmm(q_halves[1] * at::exp(b_halves[1] - boundary),
                              (k_halves[0] * at::exp(boundary - b_halves[0])).mT());
  const auto second = at::baddbmm(o_halves[1], scores, v_halves[0]);
  return at::stack({o_halves[0], second}, 1).view_as(o);
}

// All tokens are finite.
RecurrenceResult GlaInChunks(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  const auto [chunking, block] = CutInBlocks(sizes.seq_len, args.chunk_size);
  const std::int64_t num_chunks = chunking.num_chunks;
  const auto q = SplitChunks(args.q, chunking, sizes.compute_dtype) * sizes.scale;  // [N R,C,K]
  const auto k = SplitChunks(args.k, chunking, sizes.compute_dtype);                // [N R,C,K]
  const auto v = SplitChunks(args.v, chunking, sizes.compute_dtype);                // [N R,C,V]
  const LogDecaySums b(args.log_decay.defined()
                           ? SplitChunks(args.log_decay, chunking, sizes.compute_dtype)
                           : at::zeros_like(k));  // [N R,C,K]

  const auto blocks = [length = block](const at::Tensor& x) {
    return x.reshape({-1, length, x.size(-1)});
  };
  auto o = ReadPairwise(blocks(q), blocks(k), blocks(v), b.Map(blocks)).view_as(v);
  for (std::int64_t half = block; half < chunking.chunk_size; half *= 2) {
    o = ReadFirstHalf(o, q, k, v, b, half);
  }

  const auto b_last = LastToken(b);                                                  // [N R,1,K]
  const auto writes = at::bmm((k * at::exp(b_last - b)).mT(), v).chunk(num_chunks);  // N x [R,K,V]
  const auto decay = at::exp(b_last.total()).mT().chunk(num_chunks);                 // N x [R,K,1]
  const auto states = ScanChunks(InitialState(args, sizes).flatten(0, 1), num_chunks,
                                 [&](std::int64_t n, const at::Tensor& state) {
                                   const auto i = static_cast<std::size_t>(n);
                                   return state * decay[i] + writes[i];
                                 });
  if (num_chunks > 1 || args.initial_state.defined()) {
    o = at::baddbmm(o, q * at::exp(b.total()), states.entering);
  }
  return {.o = MergeChunks(o, chunking, sizes.num_heads).to(args.v.scalar_type()),
          .final_state = states.final_state.unflatten(0, {-1, sizes.num_heads})};
}

}  // namespace

RecurrenceResult ChunkGla(const RecurrenceArgs& args) {
  const auto sizes = Prepare(args, DecayShape::kVector, /*has_beta=*/false);
  return ContainNonFinite(args,
                          [&](const RecurrenceArgs& finite) { return GlaInChunks(finite, sizes); });
}

RecurrenceResult Gla(const RecurrenceArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    RecordFallback(kCore, args, kReferencePlan, kReferenceAsked);
    return ReferenceGla(args);
  }
  const auto sizes = Prepare(args, DecayShape::kVector, /*has_beta=*/false);
  auto on_device = gla::RunOnCuda(args, sizes);
  if (on_device.result) return *std::move(on_device.result);
  RecordFallback(kCore, args, kAtenChunkPlan, on_device.refusal);
  return ChunkGla(args);
}

namespace gla {

void Register(CoreRegistry& registry) {
  auto entry = RecurrenceEntry(Gla, DecayShape::kVector, /*has_beta=*/false);
  entry.summary = "linear attention with a decay per key channel";
  entry.source = "arXiv 2312.06635";
  entry.device_plans = WithTiledHeads(gla::DevicePlans(), KeyTiles::kAny);
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace gla
}  // namespace mixerbench::kernels
