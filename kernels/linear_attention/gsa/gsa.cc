// The chunked form; the names are those of gsa.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gsa/gsa.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/channel_decay.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/gla/gla.h"
#include "kernels/linear_attention/gla/gla_cuda.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "gsa";
constexpr std::int64_t kMaxScanned = 128;     // channels and slots of a head by device code
constexpr std::int64_t kScannedMultiple = 4;  // of fp32 channels: 16 bytes

std::vector<at::Tensor> Inputs(const GsaArgs& args) {
  return {args.q,
          args.k,
          args.v,
          args.slot_writes,
          args.log_decay,
          args.initial_keys,
          args.initial_values};
}

// What both passes start from, [N R,C,.] in the compute dtype. Keys and values are written to the
// slots alike, so they are one tensor, and so are both memories: slots [R,M,K+V].
struct Chunks {
  Chunking chunking;
  gsa::Prepared sizes;
  at::Tensor q;   // times the scale
  at::Tensor kv;  // [N R,C,K+V]
  at::Tensor s;
  ChannelDecay decay;

  at::Tensor Keys(const at::Tensor& x) const { return x.narrow(-1, 0, sizes.head_k_dim); }
  at::Tensor Values(const at::Tensor& x) const {
    return x.narrow(-1, sizes.head_k_dim, sizes.head_v_dim);
  }
  at::Tensor Merge(const at::Tensor& x, at::ScalarType dtype) const {
    return MergeChunks(x, chunking, sizes.num_heads).to(dtype).contiguous();
  }
};

Chunks Cut(const GsaArgs& args, const gsa::Prepared& sizes) {
  const auto chunking = CutInPowersOfTwo(sizes.seq_len, args.chunk_size);
  const auto split = [&](const at::Tensor& x) {
    return SplitChunks(x, chunking, sizes.compute_dtype).contiguous();
  };
  const auto s = split(args.slot_writes);
  return {
      .chunking = chunking,
      .sizes = sizes,
      .q = split(args.q) * sizes.scale,
      .kv = split(at::cat({args.k, args.v}, -1)),
      .s = s,
      .decay = ChannelDecay(args.log_decay.defined() ? split(args.log_decay) : at::zeros_like(s))};
}

// [R,M,K+V] from keys [B,H,K,M] and values [B,H,M,V].
at::Tensor JoinStates(const at::Tensor& keys, const at::Tensor& values) {
  return at::cat({keys.mT(), values}, -1).flatten(0, 1);
}

// Saved for the backward pass after the inputs, in this order.
struct Saved {
  at::Tensor entering, final_state;  // slots: [N R,M,K+V] before each chunk, [R,M,K+V]
  at::Tensor earlier_logits;         // without what the token itself wrote [N R,C,M]
  at::Tensor probs;                  // p [N R,C,M]
  at::Tensor scores;                 // A, with its diagonal [N R,C,C]
};

std::vector<at::Tensor> Backward(const BackwardArgs& args, const GsaArgs& settings) {
  GsaArgs inputs = settings;
  inputs.q = args.saved[0];
  inputs.k = args.saved[1];
  inputs.v = args.saved[2];
  inputs.slot_writes = args.saved[3];
  inputs.log_decay = args.saved[4];
  const Saved saved{.entering = args.saved[5],
                    .final_state = args.saved[6],
                    .earlier_logits = args.saved[7],
                    .probs = args.saved[8],
                    .scores = args.saved[9]};
  const auto sizes = gsa::Prepare(inputs);
  const Chunks x = Cut(inputs, sizes);
  const auto &p = saved.probs, &s = x.s;
  const auto k = x.Keys(x.kv), v = x.Values(x.kv);
  const auto zeros_or = [&](const at::Tensor& grad, const at::Tensor& like) {
    return grad.defined() ? grad.to(like.scalar_type()) : at::zeros_like(like);
  };
  const auto d_o = args.grads[0].defined()
                       ? SplitChunks(args.grads[0], x.chunking, sizes.compute_dtype)
                       : at::zeros_like(v);

  // Second pass: o from p, s and v.
  const auto d_scores = at::bmm(d_o, v.mT());  // read for j <= i
  const auto d_own_score = DiagonalOf(d_scores);
  const auto d_p_earlier =
      x.decay.Gather(d_scores, s)
          .addcmul_(x.decay.from_start(), at::bmm(d_o, x.Values(saved.entering).mT()));
  const auto d_p = d_p_earlier + d_own_score * s;
  const auto d_logits = p * (d_p - (p * d_p).sum(-1, /*keepdim=*/true));

  // First pass: logits from q, k and s.
  const auto products = at::bmm(x.q, k.mT());
  auto d_products = x.decay.Scores(d_logits, s);
  DiagonalOf(d_products).copy_((d_logits * s).sum(-1, /*keepdim=*/true));
  const auto d_logits_from_start = d_logits * x.decay.from_start();

  // Both memories.
  const auto reads = at::cat(
      {at::bmm(d_logits_from_start.mT(), x.q), at::bmm((p * x.decay.from_start()).mT(), d_o)}, -1);
  const auto d_keys =
      zeros_or(args.grads[1],
               x.Keys(saved.final_state).mT().unflatten(0, {sizes.batch_size, sizes.num_heads}));
  const auto d_values = zeros_or(
      args.grads[2], x.Values(saved.final_state).unflatten(0, {sizes.batch_size, sizes.num_heads}));
  const auto states = ScanStateGradients(JoinStates(d_keys, d_values), reads, x.decay.whole());
  const auto d_kv = at::bmm(s * x.decay.to_end(), states.leaving);
  const auto d_s_earlier = (x.decay.to_end() * at::bmm(x.kv, states.leaving.mT()))
                               .add_(x.decay.Scatter(d_scores, p))
                               .add_(x.decay.Scatter(products, d_logits));

  const auto d_q = at::baddbmm(at::bmm(d_logits_from_start, x.Keys(saved.entering)), d_products, k);
  const auto d_k = at::baddbmm(x.Keys(d_kv), d_products.mT(), x.q);
  const auto d_v = at::baddbmm(x.Values(d_kv), saved.scores.mT(), d_o);
  const auto d_s = d_s_earlier + d_own_score * p + DiagonalOf(products) * d_logits;
  at::Tensor d_log_decay;
  if (args.wanted[4]) {
    const auto leaving =
        LeavingStates({.entering = saved.entering, .final_state = saved.final_state});
    d_log_decay = x.Merge(x.decay.LogDecayGradient(
                              p * d_p_earlier + d_logits * saved.earlier_logits - s * d_s_earlier,
                              (leaving * states.leaving).sum(-1)),
                          inputs.log_decay.scalar_type());
  }
  const auto d_initial = states.initial_state.unflatten(0, {sizes.batch_size, sizes.num_heads});
  const auto state_gradient = [&](std::size_t i, const at::Tensor& grad) {
    return args.wanted[i] ? grad.contiguous() : at::Tensor();
  };
  return {x.Merge(d_q * sizes.scale, inputs.q.scalar_type()),
          x.Merge(d_k, inputs.k.scalar_type()),
          x.Merge(d_v, inputs.v.scalar_type()),
          x.Merge(d_s, inputs.slot_writes.scalar_type()),
          d_log_decay,
          state_gradient(5, x.Keys(d_initial).mT()),
          state_gradient(6, x.Values(d_initial))};
}

// All tokens are finite.
GsaResult GsaInChunks(const GsaArgs& args, const gsa::Prepared& sizes) {
  GsaResult result;
  Saved saved;
  {
    const at::NoGradGuard no_grad;
    const Chunks x = Cut(args, sizes);
    const auto k = x.Keys(x.kv), v = x.Values(x.kv);
    const auto initial = JoinStates(gsa::InitialKeys(args, sizes), gsa::InitialValues(args, sizes));
    const auto states =
        ScanStates(initial, at::bmm((x.s * x.decay.to_end()).mT(), x.kv), x.decay.whole());
    saved.entering = states.entering;
    saved.final_state = states.final_state;

    const auto products = at::bmm(x.q, k.mT());
    saved.earlier_logits =
        x.decay.Gather(products, x.s)
            .addcmul_(x.decay.from_start(), at::bmm(x.q, x.Keys(states.entering).mT()));
    const auto& p = saved.probs =
        at::softmax(saved.earlier_logits + DiagonalOf(products) * x.s, -1);

    saved.scores = x.decay.Scores(p, x.s);
    DiagonalOf(saved.scores).copy_((p * x.s).sum(-1, /*keepdim=*/true));
    const auto o =
        at::baddbmm(at::bmm(p * x.decay.from_start(), x.Values(states.entering)), saved.scores, v);

    const auto final_state = states.final_state.unflatten(0, {sizes.batch_size, sizes.num_heads});
    result = {.o = x.Merge(o, args.v.scalar_type()),
              .final_keys = x.Keys(final_state).mT().contiguous(),
              .final_values = x.Values(final_state).contiguous(),
              .slot_probs = x.Merge(p, sizes.compute_dtype)};
  }
  GsaArgs settings;
  settings.scale = args.scale;
  settings.chunk_size = args.chunk_size;
  SetBackward("gsa", Inputs(args), {result.o, result.final_keys, result.final_values},
              {args.q, args.k, args.v, args.slot_writes, args.log_decay, saved.entering,
               saved.final_state, saved.earlier_logits, saved.probs, saved.scores},
              [settings](const BackwardArgs& backward) { return Backward(backward, settings); });
  return result;
}

// Why device code does not take these heads; empty when it does.
std::string SizeRefusal(const gsa::Prepared& sizes) {
  constexpr SizeRange kSlots = {.multiple_of = 1, .max = kMaxScanned};
  const DevicePlan& plan = gsa::DevicePlans().front();
  std::string refusal = Refusal(plan.head_k_dim, "head_k_dim", sizes.head_k_dim);
  return refusal.empty() ? Refusal(kSlots, "num_slots", sizes.num_slots) : refusal;
}

// Zeros after the channels of `axis`, up to a multiple of what scans take. Undefined stays so.
at::Tensor Padded(const at::Tensor& x, std::int64_t axis) {
  if (!x.defined()) return x;
  const std::int64_t rest = x.size(axis) % kScannedMultiple;
  if (rest == 0) return x;
  std::vector<std::int64_t> pad(static_cast<std::size_t>(-2 * axis), 0);
  pad.back() = kScannedMultiple - rest;
  return at::constant_pad_nd(x, pad);
}

// The logits of the softmax, `o`, and the keys of the slots by device code (gsa.md, "On a GPU"), in
// fp32: the softmax has an exponential of each.
DeviceAttempt<RecurrenceResult> ReadSlotKeys(const GsaArgs& args, const at::Tensor& writes,
                                             const at::Tensor& log_decay,
                                             const gsa::Prepared& sizes) {
  const RecurrenceArgs keys{.q = Padded(args.q.to(at::kFloat), -1),
                            .k = Padded(args.k.to(at::kFloat), -1),
                            .v = Padded(writes, -1),
                            .log_decay = Padded(log_decay, -1),
                            .initial_state = Padded(Padded(args.initial_keys, -1), -2),
                            .scale = sizes.scale};
  auto attempt = gla::RunByValueOnCuda(keys, {.batch_size = sizes.batch_size,
                                              .seq_len = sizes.seq_len,
                                              .num_heads = sizes.num_heads,
                                              .head_k_dim = keys.q.size(-1),
                                              .head_v_dim = keys.v.size(-1),
                                              .scale = sizes.scale});
  if (!attempt.result) return attempt;
  at::Tensor &logits = attempt.result->o, &state = attempt.result->final_state;
  logits = logits.narrow(-1, 0, sizes.num_slots);
  state = state.narrow(-1, 0, sizes.num_slots).narrow(-2, 0, sizes.head_k_dim);
  return attempt;
}

// The two recurrences one after the other, each by device code with a backward pass of its own.
DeviceAttempt<GsaResult> GsaInTwoPasses(const GsaArgs& args, const gsa::Prepared& sizes) {
  if (sizes.compute_dtype != at::kFloat) return {{}, "no device code for fp64"};
  if (std::string refusal = SizeRefusal(sizes); !refusal.empty()) return {{}, std::move(refusal)};
  const at::Tensor writes = args.slot_writes.to(at::kFloat);
  const at::Tensor log_decay =
      args.log_decay.defined() ? args.log_decay.to(at::kFloat) : at::zeros_like(writes);
  const auto keys = ReadSlotKeys(args, writes, log_decay, sizes);
  if (!keys.result) return {{}, keys.refusal};
  const at::Tensor probs = at::softmax(keys.result->o, -1);
  const auto values = Gla({.q = probs.to(args.v.scalar_type()),
                           .k = writes.to(args.v.scalar_type()),
                           .v = args.v,
                           .log_decay = log_decay,
                           .initial_state = args.initial_values,
                           .scale = 1},
                          ExecutionPath::kFast);
  return {GsaResult{.o = values.o,
                    .final_keys = keys.result->final_state,
                    .final_values = values.final_state,
                    .slot_probs = probs.detach()},
          {}};
}

}  // namespace

GsaResult ChunkGsa(const GsaArgs& args) {
  const auto sizes = gsa::Prepare(args);
  const NonFiniteTokens tokens({args.k, args.v, args.slot_writes}, args.log_decay);
  if (!tokens.exist()) return GsaInChunks(args, sizes);
  GsaArgs cleared = args;
  cleared.k = tokens.Clear(args.k);
  cleared.v = tokens.Clear(args.v);
  cleared.slot_writes = tokens.Clear(args.slot_writes);
  cleared.log_decay = tokens.Clear(args.log_decay);
  GsaResult result = GsaInChunks(cleared, sizes);
  const auto mark = tokens.mark().unsqueeze(-1);
  const auto at_end = mark.select(1, mark.size(1) - 1).unsqueeze(-1);
  return {.o = result.o + mark.to(result.o.scalar_type()),
          .final_keys = result.final_keys + at_end.to(sizes.compute_dtype),
          .final_values = result.final_values + at_end.to(sizes.compute_dtype),
          .slot_probs = result.slot_probs + mark.to(sizes.compute_dtype)};
}

GsaResult Gsa(const GsaArgs& args, ExecutionPath path) {
  const bool needs_gradients = NeedsBackward(Inputs(args));
  if (path == ExecutionPath::kReference || args.q.is_cpu()) {
    RecordAtenChunks(kCore, path, args.q, needs_gradients);
    return path == ExecutionPath::kReference ? ReferenceGsa(args) : ChunkGsa(args);
  }
  auto on_device = GsaInTwoPasses(args, gsa::Prepare(args));
  if (on_device.result) return *std::move(on_device.result);
  RecordPlan(kCore, kAtenChunkPlan, needs_gradients ? kAtenChunkPlan : std::string_view(),
             on_device.refusal);
  return ChunkGsa(args);
}

namespace gsa {

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = [] {
    DevicePlan plan = {.name = std::string(kChunkParallelPlan),
                       .dtypes = {"bf16", "tf32", "fp32"},
                       .head_k_dim = {.multiple_of = 1, .max = kMaxScanned},
                       .head_v_dim = {.multiple_of = 1},
                       .when =
                           "at most 128 slots; tiles of 64 slots of all heads are at most half "
                           "as many as multiprocessors, and seq_len > 256"};
    std::vector<DevicePlan> both = {plan};
    plan.name = kChunkScanPlan;
    plan.when = "at most 128 slots";
    both.push_back(plan);
    return both;
  }();
  return plans;
}

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "slots written by gates and read by a softmax over them";
  entry.source = "arXiv 2409.07146";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      {.name = "slot_writes",
       .shape = "B T H M",
       .kind = InputKind::kUnit,
       .full_precision = true,
       .help = "how much of k and v goes to each slot"},
      LogDecaySpec("B T H M",
                   "logarithm of the decay of each slot, applied before the write; none: no decay"),
      InitialStateSpec("B H K M", "keys of the slots before the first token; none: zeros",
                       "initial_keys"),
      InitialStateSpec("B H M V", "values of the slots before the first token; none: zeros",
                       "initial_values"),
  };
  entry.outputs = {
      {.name = "o", .shape = "B T H V", .help = "what each query reads"},
      FinalStateSpec("B H K M", "keys of the slots after the last token", "final_keys"),
      FinalStateSpec("B H M V", "values of the slots after the last token", "final_values"),
  };
  entry.state_pairs = {{"final_keys", "initial_keys"}, {"final_values", "initial_values"}};
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = Gsa({.q = FindTensor(inputs, "q"),
                             .k = FindTensor(inputs, "k"),
                             .v = FindTensor(inputs, "v"),
                             .slot_writes = FindTensor(inputs, "slot_writes"),
                             .log_decay = FindTensor(inputs, "log_decay"),
                             .initial_keys = FindTensor(inputs, "initial_keys"),
                             .initial_values = FindTensor(inputs, "initial_values"),
                             .scale = options.scale,
                             .chunk_size = options.chunk_size},
                            options.path);
    return NamedTensors{
        {"o", result.o}, {"final_keys", result.final_keys}, {"final_values", result.final_values}};
  };
  entry.device_plans = DevicePlans();
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace gsa
}  // namespace mixerbench::kernels
