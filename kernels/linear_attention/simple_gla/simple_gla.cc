// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/simple_gla/simple_gla.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/linear_attention/simple_gla/simple_gla_cuda.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "simple_gla";

// All tokens are finite.
RecurrenceResult SimpleGlaInChunks(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  const auto chunking = CutEvenly(sizes.seq_len, args.chunk_size);
  const std::int64_t num_chunks = chunking.num_chunks;
  const auto q = SplitChunks(args.q, chunking, sizes.compute_dtype) * sizes.scale;  // [N R,C,K]
  const auto k = SplitChunks(args.k, chunking, sizes.compute_dtype);                // [N R,C,K]
  const auto v = SplitChunks(args.v, chunking, sizes.compute_dtype);                // [N R,C,V]

  auto scores = at::bmm(q, k.mT());  // [N R,C,C]
  auto q_carried = q;                // reads the state that enters the chunk
  auto k_carried = k;                // writes to the state that leaves it
  std::vector<at::Tensor> decay;     // of a whole chunk, N x [R,1,1]
  if (args.log_decay.defined()) {
    const LogDecaySums b(SplitChunks(args.log_decay, chunking, sizes.compute_dtype));
    const auto b_last = LastToken(b);
    scores = scores * CausalDecay(b);
    q_carried = q * at::exp(b.total()).unsqueeze(-1);
    k_carried = k * at::exp(b_last - b).unsqueeze(-1);
    decay = at::exp(b_last.total()).unsqueeze(-1).chunk(num_chunks);
  } else {
    scores = scores.tril();
  }
  auto o = at::bmm(scores, v);                                       // [N R,C,V]
  const auto writes = at::bmm(k_carried.mT(), v).chunk(num_chunks);  // N x [R,K,V]

  const auto states = ScanChunks(InitialState(args, sizes).flatten(0, 1), num_chunks,
                                 [&](std::int64_t n, const at::Tensor& state) {
                                   const auto i = static_cast<std::size_t>(n);
                                   return (decay.empty() ? state : state * decay[i]) + writes[i];
                                 });
  if (num_chunks > 1 || args.initial_state.defined()) {
    o = at::baddbmm(o, q_carried, states.entering);
  }
  return {.o = MergeChunks(o, chunking, sizes.num_heads).to(args.v.scalar_type()),
          .final_state = states.final_state.unflatten(0, {-1, sizes.num_heads})};
}

}  // namespace

RecurrenceResult ChunkSimpleGla(const RecurrenceArgs& args) {
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/false);
  return ContainNonFinite(
      args, [&](const RecurrenceArgs& finite) { return SimpleGlaInChunks(finite, sizes); });
}

RecurrenceResult SimpleGla(const RecurrenceArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    RecordFallback(kCore, args, kReferencePlan, kReferenceAsked);
    return ReferenceSimpleGla(args);
  }
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/false);
  auto on_device = simple_gla::RunOnCuda(args, sizes);
  if (on_device.result) return *std::move(on_device.result);
  RecordFallback(kCore, args, kAtenChunkPlan, on_device.refusal);
  return ChunkSimpleGla(args);
}

namespace simple_gla {

void Register(CoreRegistry& registry) {
  auto entry = RecurrenceEntry(SimpleGla, DecayShape::kScalar, /*has_beta=*/false);
  entry.summary = "linear attention with a scalar decay per head (none: plain linear attention)";
  entry.source = "arXiv 2006.16236, 2307.08621, 2312.06635";
  entry.device_plans =
      WithTiledHeads(decay_scan::DecayScanPlans(decay_scan::DecayAxis::kNone), KeyTiles::kAny);
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace simple_gla
}  // namespace mixerbench::kernels
