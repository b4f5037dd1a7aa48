// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/noise/dropout.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

void Check(const EmbeddingArgs& args) {
  Require(args.tokens.dim() == 2 && args.table.dim() == 2, "tokens are [B,T], the table is [V,D]");
  Require(args.tokens.scalar_type() == at::kInt || args.tokens.scalar_type() == at::kLong,
          "tokens are int32 or int64");
  if (args.positions.defined()) {
    RequireShape(args.positions, {args.tokens.size(1), args.table.size(1)}, "positions");
  }
  Require(args.norm.weight.defined(), "an embedding has a norm");
  Require(args.dropout_p == 0 || args.seed.defined(), "dropout needs a seed");
}

bool IsFloatOrAbsent(const at::Tensor& x) { return !x.defined() || x.scalar_type() == at::kFloat; }

std::string Refusal(const EmbeddingArgs& args) {
  std::string reason = DeviceRefusal(args.table);
  if (!reason.empty()) return reason;
  if (args.table.scalar_type() != at::kFloat || !args.table.is_contiguous() ||
      !IsFloatOrAbsent(args.positions) || !IsFloatOrAbsent(args.norm.weight) ||
      !IsFloatOrAbsent(args.norm.bias)) {
    return "weights are not fp32";
  }
  if (args.dtype && *args.dtype != at::kFloat && *args.dtype != at::kBFloat16) {
    return std::string("no kernel for ") + c10::toString(*args.dtype);
  }
  if (EmbeddingSupports(args.tokens.numel(), args.table.size(0), args.table.size(1))) return {};
  return "no kernel for " + std::to_string(args.table.size(0)) + " words of width " +
         std::to_string(args.table.size(1));
}

TokenIds IdsOf(const at::Tensor& tokens) {
  return {tokens.const_data_ptr(), tokens.scalar_type() == at::kLong};
}

NormWeights WeightsOf(const Norm& norm) {
  return {FloatsOf(norm.weight), FloatsOf(norm.bias), static_cast<float>(norm.eps)};
}

// Inputs of the function, and its outputs.
enum Input { kTable, kPositions, kNormWeight, kNormBias, kNumInputs };
enum Output { kStream, kNormalised, kTableAgain };
enum Saved { kSavedTokens, kSavedStream, kSavedKept, kSavedStatistics, kSavedWeight, kSavedBias };

// What the backward pass knows beside its tensors. Its sort begins while the kernel before it still
// runs, so the scratch for that belongs to the function since the forward pass.
struct BackwardPlan {
  EmbeddingSizes sizes;
  float dropout_scale = 1;
  double eps = 0;
  at::Tensor indices;
};

std::vector<at::Tensor> Backward(const BackwardArgs& args, const BackwardPlan& plan) {
  const EmbeddingSizes& sizes = plan.sizes;
  std::vector<at::Tensor> gradients(kNumInputs);
  const at::Tensor d_stream = AlignedRows(args.grads[kStream]);
  const at::Tensor d_normalised = AlignedRows(args.grads[kNormalised]);
  if (!d_stream.defined() && !d_normalised.defined()) {
    gradients[kTable] = args.grads[kTableAgain];
    return gradients;
  }
  const at::Tensor& stream = args.saved[kSavedStream];
  const at::Tensor& kept = args.saved[kSavedKept];
  const auto rows = stream.options().requires_grad(false);
  const auto floats = rows.dtype(at::kFloat);
  const at::Tensor d_shared =
      args.grads[kTableAgain].defined() ? args.grads[kTableAgain].contiguous() : at::Tensor();
  // All of these but the positions always: one kernel makes them.
  gradients[kTable] = at::empty({sizes.vocab_size, sizes.width}, floats);
  const at::Tensor d_weights = at::empty({2, sizes.width}, floats);
  gradients[kNormWeight] = d_weights.select(0, 0);
  if (args.saved[kSavedBias].defined()) gradients[kNormBias] = d_weights.select(0, 1);
  at::Tensor d_embedded;
  if (args.wanted[kPositions]) {
    gradients[kPositions] = at::empty({sizes.seq_len, sizes.width}, floats);
    d_embedded = at::empty(stream.sizes(), rows);
  }
  const at::Tensor partials = at::empty({EmbeddingScratch(sizes).floats}, floats);
  OnDeviceOf(stream, "Embedding backward", [&](CUstream_st* on) {
    return LaunchEmbeddingBackward(
        {.sizes = sizes,
         .tokens = IdsOf(args.saved[kSavedTokens]),
         .dropout_scale = plan.dropout_scale,
         .kept = kept.defined() ? kept.const_data_ptr<std::uint8_t>() : nullptr,
         .norm = WeightsOf({args.saved[kSavedWeight], args.saved[kSavedBias], plan.eps}),
         .element = ElementOf(stream),
         .stream = stream.const_data_ptr(),
         .statistics = FloatsOf(args.saved[kSavedStatistics]),
         .d_stream = RowsOf(d_stream),
         .d_normalised = RowsOf(d_normalised),
         .d_shared = FloatsOf(d_shared),
         .d_table = MutableFloatsOf(gradients[kTable]),
         .d_positions = MutableFloatsOf(gradients[kPositions]),
         .d_weights = MutableFloatsOf(d_weights),
         .d_embedded = d_embedded.defined() ? d_embedded.mutable_data_ptr() : nullptr,
         .indices = plan.indices.mutable_data_ptr<std::int32_t>(),
         .partials = MutableFloatsOf(partials)},
        on);
  });
  return gradients;
}

}  // namespace

EmbeddingResult ReferenceEmbedding(const EmbeddingArgs& args) {
  Check(args);
  at::Tensor out = at::embedding(args.table, args.tokens);
  if (args.positions.defined()) out = out + args.positions;
  if (args.dropout_p > 0) {
    out = out * DropoutMask(out.sizes(), args.dropout_p, args.seed)
                    .to(out.scalar_type())
                    .div_(KeptShare(args.dropout_p));
  }
  out = out.to(args.dtype.value_or(out.scalar_type()));
  const auto norm = ReferenceResidualNorm({.added = out, .norm = args.norm});
  return {out, norm.normalised, args.table};
}

EmbeddingResult Embedding(const EmbeddingArgs& args, ExecutionPath path) {
  Check(args);
  if (!RunsByKernels("embedding", path, Refusal(args),
                     {args.table, args.positions, args.norm.weight, args.norm.bias})) {
    return ReferenceEmbedding(args);
  }
  const at::Tensor tokens = args.tokens.contiguous();
  const at::Tensor positions =
      args.positions.defined() ? args.positions.contiguous() : args.positions;
  const DropoutRule dropout = MakeDropoutRule(args.dropout_p);
  const EmbeddingSizes sizes{.num_tokens = tokens.numel(),
                             .seq_len = static_cast<int>(tokens.size(1)),
                             .vocab_size = static_cast<int>(args.table.size(0)),
                             .width = static_cast<int>(args.table.size(1))};
  const auto floats = args.table.options().requires_grad(false);
  const auto rows = floats.dtype(args.dtype.value_or(at::kFloat));
  // The alias is never written to.
  const EmbeddingResult result{at::empty({tokens.size(0), tokens.size(1), sizes.width}, rows),
                               at::empty({tokens.size(0), tokens.size(1), sizes.width}, rows),
                               args.table.variable_data()};
  const std::vector<at::Tensor> inputs = {args.table, positions, args.norm.weight, args.norm.bias};
  at::Tensor kept;
  at::Tensor statistics;
  at::Tensor indices;
  if (NeedsBackward(inputs)) {
    indices = at::empty({EmbeddingScratch(sizes).indices}, floats.dtype(at::kInt));
    statistics = at::empty({sizes.num_tokens, kEmbeddingStatistics}, floats);
    if (dropout.threshold > 0) {
      kept = at::empty({EmbeddingMaskBytes(sizes)}, floats.dtype(at::kByte));
    }
  }
  OnDeviceOf(args.table, "Embedding", [&](CUstream_st* stream) {
    return LaunchEmbeddingForward(
        {.sizes = sizes,
         .tokens = IdsOf(tokens),
         .table = FloatsOf(args.table),
         .positions = FloatsOf(positions),
         .dropout = dropout,
         .seed = args.seed.defined() ? args.seed.const_data_ptr<std::int64_t>() : nullptr,
         .norm = WeightsOf(args.norm),
         .element = ElementOf(result.stream),
         .stream = result.stream.mutable_data_ptr(),
         .normalised = result.normalised.mutable_data_ptr(),
         .kept = kept.defined() ? kept.mutable_data_ptr<std::uint8_t>() : nullptr,
         .statistics = MutableFloatsOf(statistics)},
        stream);
  });
  SetBackward("Embedding", inputs, {result.stream, result.normalised, result.table},
              {tokens, result.stream, kept, statistics, args.norm.weight, args.norm.bias},
              [plan = BackwardPlan{sizes, dropout.scale, args.norm.eps, indices}](
                  const BackwardArgs& backward) { return Backward(backward, plan); });
  return result;
}

}  // namespace mixerbench::kernels
