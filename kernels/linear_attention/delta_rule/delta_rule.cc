// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/delta_rule/delta_rule_cuda.h"
#include "kernels/linear_attention/delta_rule/delta_rule_plan.h"
#include "kernels/linear_attention/head_tiles.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "delta_rule";

// (I + L)^-1 x for strictly lower triangular L [M,C,C], x [M,C,D]. Substitution, because it stays
// accurate for equal keys, where the powers of L that a doubling scheme forms reach C over C/2. In
// the dtype of x: under autocast products come in a narrower one, which has no such solver.
at::Tensor SolveUnitLower(const at::Tensor& lower, const at::Tensor& x) {
  return at::linalg_solve_triangular(lower.to(x.scalar_type()), x, /*upper=*/false, /*left=*/true,
                                     /*unitriangular=*/true);
}

// All tokens are finite.
RecurrenceResult DeltaRuleInChunks(const RecurrenceArgs& args, const PreparedRecurrence& sizes) {
  const auto chunking = CutEvenly(sizes.seq_len, args.chunk_size);
  const std::int64_t num_chunks = chunking.num_chunks;
  const bool has_entering_state = num_chunks > 1 || args.initial_state.defined();
  const auto q = SplitChunks(args.q, chunking, sizes.compute_dtype) * sizes.scale;  // [N R,C,K]
  const auto k = SplitChunks(args.k, chunking, sizes.compute_dtype);                // [N R,C,K]
  const auto v = SplitChunks(args.v, chunking, sizes.compute_dtype);                // [N R,C,V]
  const auto beta = SplitChunks(args.beta, chunking, sizes.compute_dtype).unsqueeze(-1);

  const auto beta_k = k * beta;
  auto scores = at::bmm(q, k.mT());      // [N R,C,C]
  auto lower = at::bmm(beta_k, k.mT());  // [N R,C,C]
  auto q_carried = q;                    // reads the state that enters the chunk
  auto k_carried = k;                    // writes to the state that leaves it
  auto k_erasing = beta_k;               // erases from the state that enters
  std::vector<at::Tensor> decay;         // of a whole chunk, N x [R,1,1]
  if (args.log_decay.defined()) {
    const LogDecaySums b(SplitChunks(args.log_decay, chunking, sizes.compute_dtype));
    const auto b_last = LastToken(b);
    const auto pair_decay = CausalDecay(b);
    const auto entering_decay = at::exp(b.total()).unsqueeze(-1);
    scores = scores * pair_decay;
    lower = lower * pair_decay;
    q_carried = q * entering_decay;
    k_carried = k * at::exp(b_last - b).unsqueeze(-1);
    k_erasing = beta_k * entering_decay;
    decay = at::exp(b_last.total()).unsqueeze(-1).chunk(num_chunks);
  } else {
    scores = scores.tril();
  }
  lower = lower.tril(-1);
  const auto beta_v = v * beta;

  auto initial_state = InitialState(args, sizes).flatten(0, 1);  // [R,K,V]
  if (!has_entering_state) {
    const auto y = SolveUnitLower(lower, beta_v);  // [R,C,V]
    return {
        .o = MergeChunks(at::bmm(scores, y), chunking, sizes.num_heads).to(args.v.scalar_type()),
        .final_state = at::bmm(k_carried.mT(), y).unflatten(0, {-1, sizes.num_heads})};
  }

  // With pseudo-values Y = U - W S, the chunk maps the entering state to
  // exp(b_C) S + k_carried^T Y = (exp(b_C) I - k_carried^T W) S + k_carried^T U.
  const auto wu = SolveUnitLower(lower, at::cat({k_erasing, beta_v}, -1))
                      .split_with_sizes({sizes.head_k_dim, sizes.head_v_dim}, -1);
  const auto& w = wu[0];                                               // [N R,C,K]
  const auto& u = wu[1];                                               // [N R,C,V]
  const auto erasures = at::bmm(k_carried.mT(), w).chunk(num_chunks);  // N x [R,K,K]
  const auto writes = at::bmm(k_carried.mT(), u).chunk(num_chunks);    // N x [R,K,V]
  const auto states =
      ScanChunks(initial_state, num_chunks, [&](std::int64_t n, const at::Tensor& state) {
        const auto i = static_cast<std::size_t>(n);
        const auto kept = decay.empty() ? state : state * decay[i];
        return at::baddbmm(kept + writes[i], erasures[i], state, /*beta=*/1, /*alpha=*/-1);
      });
  const auto y = at::baddbmm(u, w, states.entering, /*beta=*/1, /*alpha=*/-1);
  const auto o = at::baddbmm(at::bmm(scores, y), q_carried, states.entering);
  return {.o = MergeChunks(o, chunking, sizes.num_heads).to(args.v.scalar_type()),
          .final_state = states.final_state.unflatten(0, {-1, sizes.num_heads})};
}

}  // namespace

RecurrenceResult ChunkDeltaRule(const RecurrenceArgs& args) {
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/true);
  return ContainNonFinite(
      args, [&](const RecurrenceArgs& finite) { return DeltaRuleInChunks(finite, sizes); });
}

RecurrenceResult DeltaRule(const RecurrenceArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    RecordFallback(kCore, args, kReferencePlan, kReferenceAsked);
    return ReferenceDeltaRule(args);
  }
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/true);
  auto on_device = delta_rule::RunOnCuda(args, sizes);
  if (on_device.result) return *std::move(on_device.result);
  RecordFallback(kCore, args, kAtenChunkPlan, on_device.refusal);
  return ChunkDeltaRule(args);
}

namespace delta_rule {

void Register(CoreRegistry& registry) {
  auto entry = RecurrenceEntry(DeltaRule, DecayShape::kScalar, /*has_beta=*/true);
  entry.summary = "delta rule: overwrites what a key recalls; optional scalar decay";
  entry.source = "arXiv 2406.06484, 2412.06464";
  entry.device_plans = WithTiledHeads(delta_rule::DevicePlans(), KeyTiles::kOne);
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace delta_rule
}  // namespace mixerbench::kernels
