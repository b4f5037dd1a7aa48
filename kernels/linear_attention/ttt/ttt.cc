// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/ttt/ttt.h"

#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/linear_attention/ttt/ttt_steps.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "ttt";
constexpr std::int64_t kRegisteredMiniBatch = 8;

// A column, or a row, for the bias.
at::Tensor WithOne(const at::Tensor& x) { return at::constant_pad_nd(x, {0, 1}, 1); }

// [H,K] for every mini-batch, [N R,1,K].
at::Tensor ForAll(const at::Tensor& x, std::int64_t times, at::ScalarType dtype) {
  return x.to(dtype).expand({times, -1, -1}).flatten(0, 1).unsqueeze(1);
}

// All tokens are finite.
TttResult InMiniBatches(const TttArgs& args, const ttt::TttTokens& tokens,
                        const PreparedRecurrence& sizes) {
  const auto dtype = sizes.compute_dtype;
  const std::int64_t mini_batch = args.token_scale.size(0);
  const std::int64_t num_tokens = tokens.num_before + sizes.seq_len;
  const std::int64_t num_batches = (num_tokens + mini_batch - 1) / mini_batch;
  const Chunking chunking{
      .seq_len = num_tokens, .chunk_size = mini_batch, .num_chunks = num_batches};
  // Nobody asks at the places of the tokens before the call.
  const auto all_q =
      at::constant_pad_nd(args.q.to(dtype) * sizes.scale, {0, 0, 0, 0, tokens.num_before, 0});
  const auto q = WithOne(SplitChunks(all_q, chunking, dtype));     // [N R,M,K+1]
  const auto k = SplitChunks(WithOne(tokens.k), chunking, dtype);  // [N R,M,K+1], padding is zero
  const auto target = SplitChunks(tokens.v - tokens.k, chunking, dtype);
  const auto token_scale = args.token_scale.to(dtype);
  const auto& state = args.initial_state;
  const ttt::TttLearner learner{
      .k = k,
      .target = target,
      .rate = SplitChunks(tokens.learning_rate, chunking, dtype).unsqueeze(-1),
      .norm_weight = ForAll(args.norm_weight, num_batches * sizes.batch_size, dtype),
      .norm_bias = ForAll(args.norm_bias, num_batches * sizes.batch_size, dtype),
      .step = token_scale.narrow(0, mini_batch - 1, 1),
      .weights = at::cat({state.weight, state.bias.unsqueeze(2)}, 2).to(dtype).flatten(0, 1)};
  const auto learned = ttt::Learn(learner, args.norm_eps);

  const auto entering = learned.weights.narrow(0, 0, k.size(0));
  const auto seen = at::bmm(at::bmm(q, k.mT()).tril(), learned.steps);  // [N R,M,K]
  const auto o = at::baddbmm(seen * -token_scale.unsqueeze(-1), q, entering);
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  const auto after =
      learned.weights.narrow(0, num_tokens / mini_batch * num_sequences, num_sequences)
          .unflatten(0, {sizes.batch_size, sizes.num_heads});
  const auto of_call = [&](const at::Tensor& x) {
    return MergeChunks(x, chunking, sizes.num_heads).narrow(1, tokens.num_before, sizes.seq_len);
  };
  const auto surprise = at::linalg_vector_norm(learned.steps.detach(), 2, {-1}, /*keepdim=*/true);
  TttResult result{.o = of_call(o).to(args.v.scalar_type()),
                   .final_state = ttt::StateAfter(tokens, after.narrow(2, 0, sizes.head_k_dim),
                                                  after.select(2, sizes.head_k_dim), mini_batch),
                   .surprise = of_call(surprise).squeeze(-1)};
  if (args.wants_loss) {
    const at::NoGradGuard no_grad;
    const auto u = ttt::GradientOfLoss(at::bmm(k, entering), target, learner.norm_weight,
                                       learner.norm_bias, args.norm_eps);
    const auto loss = ttt::Loss(u, target, learner.norm_weight, learner.norm_bias);
    result.loss = of_call(loss.unsqueeze(-1)).squeeze(-1);
  }
  return result;
}

}  // namespace

namespace ttt {

PreparedRecurrence PrepareTtt(const TttArgs& args) {
  const auto sizes = Prepare({.q = args.q, .k = args.k, .v = args.v, .scale = args.scale},
                             DecayShape::kScalar, /*has_beta=*/false);
  const std::int64_t batch_size = sizes.batch_size, num_heads = sizes.num_heads;
  const std::int64_t head_dim = sizes.head_k_dim;
  RequireShape(args.v, {batch_size, sizes.seq_len, num_heads, head_dim}, "v");
  RequireShape(args.learning_rate, {batch_size, sizes.seq_len, num_heads}, "learning_rate");
  Require(
      args.token_scale.defined() && args.token_scale.dim() == 1 && args.token_scale.size(0) >= 1,
      "token_scale must be [M]");
  RequireShape(args.norm_weight, {num_heads, head_dim}, "norm_weight");
  RequireShape(args.norm_bias, {num_heads, head_dim}, "norm_bias");
  const auto& state = args.initial_state;
  RequireShape(state.weight, {batch_size, num_heads, head_dim, head_dim}, "initial weight");
  RequireShape(state.bias, {batch_size, num_heads, head_dim}, "initial bias");
  if (!state.k.defined()) return sizes;
  Require(state.k.dim() == 4 && state.k.size(1) < args.token_scale.size(0),
          "an unfinished mini-batch has fewer tokens than a mini-batch");
  const std::int64_t num_before = state.k.size(1);
  RequireShape(state.k, {batch_size, num_before, num_heads, head_dim}, "unfinished k");
  RequireShape(state.v, {batch_size, num_before, num_heads, head_dim}, "unfinished v");
  RequireShape(state.learning_rate, {batch_size, num_before, num_heads},
               "unfinished learning_rate");
  return sizes;
}

TttTokens AllTokens(const TttArgs& args, const PreparedRecurrence& sizes) {
  const auto dtype = sizes.compute_dtype;
  const auto& state = args.initial_state;
  const auto after = [&](const at::Tensor& before, const at::Tensor& x) {
    return before.defined() ? at::cat({before.to(dtype), x.to(dtype)}, 1) : x.to(dtype);
  };
  return {.k = after(state.k, args.k),
          .v = after(state.v, args.v),
          .learning_rate = after(state.learning_rate, args.learning_rate),
          .num_before = state.k.defined() ? state.k.size(1) : 0};
}

TttState StateAfter(const TttTokens& tokens, const at::Tensor& weight, const at::Tensor& bias,
                    std::int64_t mini_batch_size) {
  const std::int64_t num_tokens = tokens.k.size(1);
  const std::int64_t num_unfinished = num_tokens % mini_batch_size;
  const auto last = [&](const at::Tensor& x) {
    return x.narrow(1, num_tokens - num_unfinished, num_unfinished);
  };
  return {weight, bias, last(tokens.k), last(tokens.v), last(tokens.learning_rate)};
}

}  // namespace ttt

TttResult MiniBatchTtt(const TttArgs& args) {
  const auto sizes = ttt::PrepareTtt(args);
  const auto tokens = ttt::AllTokens(args, sizes);
  const NonFiniteTokens non_finite({tokens.k, tokens.v, tokens.learning_rate});
  if (!non_finite.exist()) return InMiniBatches(args, tokens, sizes);
  const ttt::TttTokens cleared{.k = non_finite.Clear(tokens.k),
                               .v = non_finite.Clear(tokens.v),
                               .learning_rate = non_finite.Clear(tokens.learning_rate),
                               .num_before = tokens.num_before};
  TttResult result = InMiniBatches(args, cleared, sizes);
  const auto mark = non_finite.mark().narrow(1, tokens.num_before, sizes.seq_len);
  const auto at_end = mark.select(1, sizes.seq_len - 1).unsqueeze(-1);  // [B,H,1]
  const auto add = [](at::Tensor& x, const at::Tensor& marks) {
    x = x + marks.to(x.scalar_type());
  };
  add(result.o, mark.unsqueeze(-1));
  add(result.surprise, mark);
  if (args.wants_loss) add(result.loss, mark);
  auto& state = result.final_state;
  state = ttt::StateAfter(tokens, state.weight, state.bias, args.token_scale.size(0));
  add(state.weight, at_end.unsqueeze(-1));
  add(state.bias, at_end);
  return result;
}

TttResult Ttt(const TttArgs& args, ExecutionPath path) {
  const auto& state = args.initial_state;
  RecordAtenChunks(kCore, path, args.q,
                   NeedsBackward({args.q, args.k, args.v, args.learning_rate, args.token_scale,
                                  args.norm_weight, args.norm_bias, state.weight, state.bias,
                                  state.k, state.v, state.learning_rate}));
  return path == ExecutionPath::kReference ? ReferenceTtt(args) : MiniBatchTtt(args);
}

namespace ttt {
namespace {

TttResult RunRegistered(const NamedTensors& inputs, const CoreOptions& options) {
  TttArgs args{.q = FindTensor(inputs, "q"),
               .k = FindTensor(inputs, "k"),
               .v = FindTensor(inputs, "v"),
               .learning_rate = FindTensor(inputs, "learning_rate"),
               .norm_weight = FindTensor(inputs, "norm_weight"),
               .norm_bias = FindTensor(inputs, "norm_bias"),
               .initial_state = {.weight = FindTensor(inputs, "initial_weight"),
                                 .bias = FindTensor(inputs, "initial_bias"),
                                 .k = FindTensor(inputs, "unfinished_k"),
                                 .v = FindTensor(inputs, "unfinished_v"),
                                 .learning_rate = FindTensor(inputs, "unfinished_learning_rate")},
               .scale = options.scale};
  Require(args.q.defined() && args.q.dim() == 4, "q must be [B,T,H,K]");
  const std::int64_t batch_size = args.q.size(0), num_heads = args.q.size(2);
  const std::int64_t head_dim = args.q.size(3);
  const auto floats =
      args.q.options().dtype(args.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  args.token_scale = at::arange(1, kRegisteredMiniBatch + 1, floats).reciprocal();
  if (!args.norm_weight.defined()) args.norm_weight = at::ones({num_heads, head_dim}, floats);
  if (!args.norm_bias.defined()) args.norm_bias = at::zeros({num_heads, head_dim}, floats);
  auto& state = args.initial_state;
  if (!state.weight.defined()) {
    state.weight = at::eye(head_dim, floats).expand({batch_size, num_heads, -1, -1});
  }
  if (!state.bias.defined()) state.bias = at::zeros({batch_size, num_heads, head_dim}, floats);
  return Ttt(args, options.path);
}

}  // namespace

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "a linear layer trained on the sequence in mini-batches of " +
                  std::to_string(kRegisteredMiniBatch) + " tokens";
  entry.source = "arXiv 2407.04620";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .help = "inputs of the layer"},
      {.name = "v", .shape = "B T H K", .help = "its targets, k added"},
      {.name = "learning_rate",
       .shape = "B T H",
       .kind = InputKind::kUnit,
       .help = "of the token's gradient"},
      {.name = "norm_weight",
       .shape = "H K",
       .required = false,
       .full_precision = true,
       .help = "of the norm in the loss; none: ones"},
      {.name = "norm_bias",
       .shape = "H K",
       .required = false,
       .full_precision = true,
       .help = "of the norm in the loss; none: zeros"},
      InitialStateSpec("B H K K", "at the start of the mini-batch; none: the identity",
                       "initial_weight"),
      InitialStateSpec("B H K", "at the start of the mini-batch; none: zeros", "initial_bias"),
      InitialStateSpec("B U H K", "of its tokens before the first; none: it starts",
                       "unfinished_k"),
      InitialStateSpec("B U H K", "the same of v", "unfinished_v"),
      InitialStateSpec("B U H", "the same of learning_rate", "unfinished_learning_rate")};
  entry.outputs = {{.name = "o", .shape = "B T H K", .help = "what the layer makes of each query"},
                   FinalStateSpec("B H K K", "at the start of the last mini-batch", "final_weight"),
                   FinalStateSpec("B H K", "at the start of the last mini-batch", "final_bias"),
                   FinalStateSpec("B U H K", "of the tokens that it has", "final_k"),
                   FinalStateSpec("B U H K", "of the tokens that it has", "final_v"),
                   FinalStateSpec("B U H", "of the tokens that it has", "final_learning_rate")};
  entry.state_pairs = {{"final_weight", "initial_weight"},
                       {"final_bias", "initial_bias"},
                       {"final_k", "unfinished_k"},
                       {"final_v", "unfinished_v"},
                       {"final_learning_rate", "unfinished_learning_rate"}};
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = RunRegistered(inputs, options);
    const auto& state = result.final_state;
    return NamedTensors{{"o", result.o},
                        {"final_weight", state.weight},
                        {"final_bias", state.bias},
                        {"final_k", state.k},
                        {"final_v", state.v},
                        {"final_learning_rate", state.learning_rate}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace ttt
}  // namespace mixerbench::kernels
