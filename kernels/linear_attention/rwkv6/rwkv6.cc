// The chunked form; the names are those of rwkv6.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/rwkv6/rwkv6.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/channel_decay.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "rwkv6";

std::vector<at::Tensor> Inputs(const RecurrenceArgs& args, const at::Tensor& bonus) {
  return {args.q, args.k, args.v, args.log_decay, bonus, args.initial_state};
}

// What both passes start from, [N R,C,.] in the compute dtype.
struct Chunks {
  Chunking chunking;
  std::int64_t num_heads;
  at::Tensor q;  // times the scale
  at::Tensor k, v;
  at::Tensor u;  // [N R,1,K]
  ChannelDecay decay;

  at::Tensor Merge(const at::Tensor& x, at::ScalarType dtype) const {
    return MergeChunks(x, chunking, num_heads).to(dtype).contiguous();
  }
};

Chunks Cut(const RecurrenceArgs& args, const at::Tensor& bonus, const PreparedRecurrence& sizes) {
  const auto chunking = CutInPowersOfTwo(sizes.seq_len, args.chunk_size);
  const auto split = [&](const at::Tensor& x) {
    return SplitChunks(x, chunking, sizes.compute_dtype).contiguous();
  };
  const auto k = split(args.k);
  const auto u = bonus.defined() ? bonus.to(sizes.compute_dtype)
                                 : at::zeros({sizes.num_heads, sizes.head_k_dim}, k.options());
  return {
      .chunking = chunking,
      .num_heads = sizes.num_heads,
      .q = split(args.q) * sizes.scale,
      .k = k,
      .v = split(args.v),
      .u = u.repeat({chunking.num_chunks * sizes.batch_size, 1}).unsqueeze(1),
      .decay = ChannelDecay(args.log_decay.defined() ? split(args.log_decay) : at::zeros_like(k),
                            ChannelDecay::Read::kBeforeDecay)};
}

std::vector<at::Tensor> Backward(const BackwardArgs& args, const RecurrenceArgs& settings) {
  RecurrenceArgs inputs = settings;
  inputs.q = args.saved[0];
  inputs.k = args.saved[1];
  inputs.v = args.saved[2];
  inputs.log_decay = args.saved[3];
  const at::Tensor &bonus = args.saved[4], &scores = args.saved[7];
  const ChunkStates entering{.entering = args.saved[5], .final_state = args.saved[6]};
  const auto sizes = rwkv6::Prepare(inputs, bonus);
  const Chunks x = Cut(inputs, bonus, sizes);
  const auto d_o = args.grads[0].defined()
                       ? SplitChunks(args.grads[0], x.chunking, sizes.compute_dtype)
                       : at::zeros_like(x.v);

  const auto d_scores = at::bmm(d_o, x.v.mT());  // read for j <= i
  const auto d_own_score = DiagonalOf(d_scores);
  const auto d_q_earlier =
      x.decay.Gather(d_scores, x.k)
          .addcmul_(x.decay.from_start(), at::bmm(d_o, entering.entering.mT()));

  const auto d_final = args.grads[1].defined() ? args.grads[1].to(sizes.compute_dtype).flatten(0, 1)
                                               : at::zeros_like(entering.final_state);
  const auto states =
      ScanStateGradients(d_final, at::bmm((x.q * x.decay.from_start()).mT(), d_o), x.decay.whole());
  const auto d_k_later =
      (x.decay.to_end() * at::bmm(x.v, states.leaving.mT())).add_(x.decay.Scatter(d_scores, x.q));
  const auto d_v = at::baddbmm(at::bmm(x.k * x.decay.to_end(), states.leaving), scores.mT(), d_o);

  const auto own_u = d_own_score * x.u;
  at::Tensor d_log_decay, d_bonus, d_initial;
  if (args.wanted[3]) {
    d_log_decay =
        x.Merge(x.decay.LogDecayGradient(x.q * d_q_earlier, -(x.k * d_k_later),
                                         (LeavingStates(entering) * states.leaving).sum(-1)),
                inputs.log_decay.scalar_type());
  }
  if (args.wanted[4]) {
    d_bonus = (d_own_score * x.q * x.k)
                  .sum(1)
                  .unflatten(0, {-1, sizes.num_heads})
                  .sum(0)
                  .to(bonus.scalar_type());
  }
  if (args.wanted[5]) {
    d_initial = states.initial_state.unflatten(0, {sizes.batch_size, sizes.num_heads});
  }
  return {x.Merge((d_q_earlier + own_u * x.k) * sizes.scale, inputs.q.scalar_type()),
          x.Merge(d_k_later + own_u * x.q, inputs.k.scalar_type()),
          x.Merge(d_v, inputs.v.scalar_type()),
          d_log_decay,
          d_bonus,
          d_initial};
}

// All tokens are finite.
RecurrenceResult Rwkv6InChunks(const RecurrenceArgs& args, const at::Tensor& bonus,
                               const PreparedRecurrence& sizes) {
  RecurrenceResult result;
  at::Tensor scores;
  ChunkStates states;
  {
    const at::NoGradGuard no_grad;
    const Chunks x = Cut(args, bonus, sizes);
    states = ScanStates(InitialState(args, sizes).flatten(0, 1),
                        at::bmm((x.k * x.decay.to_end()).mT(), x.v), x.decay.whole());
    scores = x.decay.Scores(x.q, x.k);
    DiagonalOf(scores).copy_((x.q * x.k * x.u).sum(-1, /*keepdim=*/true));
    const auto o = at::baddbmm(at::bmm(x.q * x.decay.from_start(), states.entering), scores, x.v);
    result = {.o = x.Merge(o, args.v.scalar_type()),
              .final_state =
                  states.final_state.unflatten(0, {sizes.batch_size, sizes.num_heads}).clone()};
  }
  RecurrenceArgs settings;
  settings.scale = args.scale;
  settings.chunk_size = args.chunk_size;
  SetBackward(
      "rwkv6", Inputs(args, bonus), {result.o, result.final_state},
      {args.q, args.k, args.v, args.log_decay, bonus, states.entering, states.final_state, scores},
      [settings](const BackwardArgs& backward) { return Backward(backward, settings); });
  return result;
}

void RecordRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus, std::string_view plan,
                 std::string_view reason) {
  RecordPlan(kCore, plan, NeedsBackward(Inputs(args, bonus)) ? plan : std::string_view(), reason);
}

}  // namespace

RecurrenceResult ChunkRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus) {
  const auto sizes = rwkv6::Prepare(args, bonus);
  return ContainNonFinite(
      args, [&](const RecurrenceArgs& finite) { return Rwkv6InChunks(finite, bonus, sizes); });
}

RecurrenceResult Rwkv6(const RecurrenceArgs& args, const at::Tensor& bonus, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    RecordRwkv6(args, bonus, kReferencePlan, kReferenceAsked);
    return ReferenceRwkv6(args, bonus);
  }
  RecordRwkv6(args, bonus, kAtenChunkPlan, args.q.is_cpu() ? kOnCpu : "has no device code");
  return ChunkRwkv6(args, bonus);
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
