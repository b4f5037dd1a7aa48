// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/log_linear/log_linear.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/log_linear/levels.h"
#include "kernels/linear_attention/log_linear/log_linear_chunks.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCore = "log_linear";

// [B,T,H,...] -> [R,T,...]
at::Tensor BySequence(const at::Tensor& x, at::ScalarType dtype) {
  if (!x.defined()) return x;
  return x.to(dtype).transpose(1, 2).flatten(0, 1);
}

// All tokens are finite and lie in one span of the length `span`, which starts at a multiple of it.
LogLinearResult InSpan(const LogLinearArgs& args, const PreparedRecurrence& sizes,
                       std::int64_t span) {
  const auto dtype = sizes.compute_dtype;
  log_linear::LogLinearTokens x{.q = BySequence(args.q, dtype) * sizes.scale,
                                .k = BySequence(args.k, dtype),
                                .v = BySequence(args.v, dtype),
                                .level_weight = BySequence(args.level_weight, dtype),
                                .log_decay = BySequence(args.log_decay, dtype),
                                .beta = BySequence(args.beta, dtype)};
  const auto block =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(args.chunk_size)));
  const auto buckets = log_linear::BucketsBefore(args.position);
  std::vector<at::Tensor> states;
  for (const auto& bucket : buckets) {
    states.push_back(log_linear::InitialLevel(args, bucket.level, dtype).flatten(0, 1));
  }
  at::Tensor o;
  if (x.beta.defined()) {
    // From here on as without decay, of queries, keys and states that went through all tokens.
    const auto delta = log_linear::AmongDeltaTokens(x, args.position % span, block,
                                                    !buckets.empty() || args.wants_final_state);
    o = delta.o;
    x.q = delta.reads;
    x.k = delta.writes;
    x.log_decay = at::Tensor();
    if (!buckets.empty())
      o = o + log_linear::OfInitialLevels(x, buckets, states, args.position, {});
    if (args.wants_final_state) {
      for (at::Tensor& state : states) state = at::bmm(delta.kept, state);
    }
  } else {
    o = log_linear::AmongTokens(x, args.position % span, block);
    if (!buckets.empty()) {
      o = o + log_linear::OfInitialLevels(x, buckets, states, args.position,
                                          log_linear::DecayFromStart(x.log_decay));
    }
  }
  const auto by_batch = [&](const at::Tensor& t) {
    return t.unflatten(0, {sizes.batch_size, sizes.num_heads});
  };
  LogLinearResult result{.o = by_batch(o).transpose(1, 2).to(args.v.scalar_type())};
  if (args.wants_final_state) {
    result.final_state = by_batch(log_linear::FinalLevels(x, buckets, states, args.position));
  }
  return result;
}

LogLinearArgs Slice(const LogLinearArgs& args, std::int64_t begin, std::int64_t end) {
  LogLinearArgs part = args;
  for (at::Tensor* x :
       {&part.q, &part.k, &part.v, &part.level_weight, &part.log_decay, &part.beta}) {
    if (x->defined()) *x = x->slice(1, begin, end);
  }
  part.position = args.position + begin;
  return part;
}

// All tokens are finite. Two spans when a multiple of their length lies between the tokens.
LogLinearResult InSpans(const LogLinearArgs& args, const PreparedRecurrence& sizes) {
  const auto span =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sizes.seq_len)));
  const std::int64_t first = std::min(sizes.seq_len, span - args.position % span);
  if (first == sizes.seq_len) return InSpan(args, sizes, span);
  LogLinearArgs before = Slice(args, 0, first), after = Slice(args, first, sizes.seq_len);
  before.wants_final_state = true;
  const LogLinearResult begun = InSpan(before, sizes, span);
  after.initial_state = begun.final_state;
  LogLinearResult result = InSpan(after, sizes, span);
  result.o = at::cat({begun.o, result.o}, 1);
  return result;
}

}  // namespace

namespace log_linear {

PreparedRecurrence PrepareLogLinear(const LogLinearArgs& args) {
  const auto sizes = Prepare({.q = args.q,
                              .k = args.k,
                              .v = args.v,
                              .log_decay = args.log_decay,
                              .beta = args.beta,
                              .scale = args.scale,
                              .chunk_size = args.chunk_size},
                             DecayShape::kScalar, /*has_beta=*/args.beta.defined());
  Require(args.level_weight.defined() && args.level_weight.dim() == 4 &&
              args.level_weight.size(3) >= 1 && args.level_weight.size(3) <= 48,
          "level_weight must be [B,T,H,L] of 1 to 48 levels");
  const std::int64_t num_levels = NumLevels(args);
  RequireShape(args.level_weight, {sizes.batch_size, sizes.seq_len, sizes.num_heads, num_levels},
               "level_weight");
  if (args.position < 0 || args.position + sizes.seq_len > MaxPosition(num_levels)) {
    Require(false, std::to_string(num_levels) + " levels hold " +
                       std::to_string(MaxPosition(num_levels)) + " tokens, not " +
                       std::to_string(args.position + sizes.seq_len));
  }
  if (args.initial_state.defined()) {
    RequireShape(
        args.initial_state,
        {sizes.batch_size, sizes.num_heads, num_levels, sizes.head_k_dim, sizes.head_v_dim},
        "initial_state");
  }
  return sizes;
}

at::Tensor InitialLevel(const LogLinearArgs& args, std::int64_t level, at::ScalarType dtype) {
  if (args.initial_state.defined()) return args.initial_state.select(2, level - 1).to(dtype);
  return at::zeros({args.q.size(0), args.q.size(2), args.q.size(3), args.v.size(3)},
                   args.q.options().dtype(dtype));
}

}  // namespace log_linear

LogLinearResult ChunkLogLinear(const LogLinearArgs& args) {
  const auto sizes = log_linear::PrepareLogLinear(args);
  const NonFiniteTokens tokens({args.k, args.v, args.beta}, args.log_decay);
  if (!tokens.exist()) return InSpans(args, sizes);
  LogLinearArgs cleared = args;
  for (at::Tensor* x : {&cleared.k, &cleared.v, &cleared.log_decay, &cleared.beta}) {
    *x = tokens.Clear(*x);
  }
  LogLinearResult result = InSpans(cleared, sizes);
  result.o = result.o + tokens.mark().unsqueeze(-1).to(result.o.scalar_type());
  if (result.final_state.defined()) {
    const auto at_end = tokens.mark().select(1, sizes.seq_len - 1);
    result.final_state = result.final_state + at_end.unsqueeze(-1).unsqueeze(-1).unsqueeze(-1).to(
                                                  result.final_state.scalar_type());
  }
  return result;
}

LogLinearResult LogLinear(const LogLinearArgs& args, ExecutionPath path) {
  RecordAtenChunks(kCore, path, args.q,
                   NeedsBackward({args.q, args.k, args.v, args.level_weight, args.log_decay,
                                  args.beta, args.initial_state}));
  return path == ExecutionPath::kReference ? ReferenceLogLinear(args) : ChunkLogLinear(args);
}

namespace log_linear {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary =
      "scalar decay or delta rule whose past is split into levels with weights of their own";
  entry.source = "arXiv 2506.04761";
  entry.inputs = {
      {.name = "q", .shape = "B T H K", .help = "queries"},
      {.name = "k", .shape = "B T H K", .kind = InputKind::kUnitNorm, .help = "keys"},
      {.name = "v", .shape = "B T H V", .help = "values"},
      LogDecaySpec(
          "B T H",
          "logarithm of the decay of all levels, applied before the write; none: no decay"),
      {.name = "beta",
       .shape = "B T H",
       .kind = InputKind::kUnit,
       .required = false,
       .help = "write strength of the delta rule, on all levels; none: nothing is erased"},
      {.name = "level_weight", .shape = "B T H L", .help = "of each level, as the token reads it"}};
  entry.outputs = {{.name = "o", .shape = "B T H V", .help = "what each query reads"}};
  // From the first position of all; the state would come with one.
  entry.run = [](const NamedTensors& inputs, const CoreOptions& options) {
    const auto result = LogLinear({.q = FindTensor(inputs, "q"),
                                   .k = FindTensor(inputs, "k"),
                                   .v = FindTensor(inputs, "v"),
                                   .level_weight = FindTensor(inputs, "level_weight"),
                                   .log_decay = FindTensor(inputs, "log_decay"),
                                   .beta = FindTensor(inputs, "beta"),
                                   .scale = options.scale,
                                   .chunk_size = options.chunk_size,
                                   .wants_final_state = false},
                                  options.path);
    return NamedTensors{{"o", result.o}};
  };
  registry.Add(std::string(kCore), std::move(entry));
}

}  // namespace log_linear
}  // namespace mixerbench::kernels
