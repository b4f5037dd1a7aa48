// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/embedding.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/differentiable.h"
#include "kernels/fused/dropout.h"
#include "kernels/fused/embedding_device.h"
#include "kernels/fused/launch.h"
#include "kernels/shape.h"

namespace mixerbench::kernels::fused {
namespace {

void Check(const EmbeddingArgs& args) {
  Require(args.tokens.dim() == 2 && args.table.dim() == 2, "tokens are [B,T], the table is [V,D]");
  Require(args.tokens.scalar_type() == at::kInt || args.tokens.scalar_type() == at::kLong,
          "tokens are int32 or int64");
  if (args.positions.defined()) {
    RequireShape(args.positions, {args.tokens.size(1), args.table.size(1)}, "positions");
  }
  Require(args.dropout_p == 0 || args.seed.defined(), "dropout needs a seed");
}

bool CanLaunch(const EmbeddingArgs& args) {
  return RunsOnDevice(args.table) && args.table.scalar_type() == at::kFloat &&
         args.table.is_contiguous() &&
         (!args.positions.defined() || args.positions.scalar_type() == at::kFloat) &&
         (!args.dtype || *args.dtype == at::kFloat || *args.dtype == at::kBFloat16) &&
         EmbeddingSupports(args.tokens.numel(), args.table.size(0), args.table.size(1));
}

TokenIds IdsOf(const at::Tensor& tokens) {
  return {tokens.const_data_ptr(), tokens.scalar_type() == at::kLong};
}

const std::int64_t* SeedOf(const at::Tensor& seed) {
  return seed.defined() ? seed.const_data_ptr<std::int64_t>() : nullptr;
}

struct Sizes {
  std::int64_t vocab_size, width;
};

// saved: tokens, seed.
std::vector<at::Tensor> Backward(const BackwardArgs& args, Sizes sizes, DropoutRule dropout) {
  const at::Tensor& tokens = args.saved[0];
  const at::Tensor d_out = args.grads[0].contiguous();
  const auto floats = d_out.options().dtype(at::kFloat);
  std::vector<at::Tensor> gradients(2);
  if (args.wanted[0]) gradients[0] = at::empty({sizes.vocab_size, sizes.width}, floats);
  if (args.wanted[1]) gradients[1] = at::empty({tokens.size(1), sizes.width}, floats);
  const auto scratch = EmbeddingScratch(tokens.numel(), static_cast<int>(sizes.vocab_size),
                                        static_cast<int>(sizes.width));
  const at::Tensor indices = at::empty({scratch.indices}, floats.dtype(at::kInt));
  const at::Tensor partials = at::empty({scratch.floats}, floats);
  OnDeviceOf(d_out, "Embedding backward", [&](CUstream_st* stream) {
    return LaunchEmbeddingBackward({.tokens = IdsOf(tokens),
                                    .num_tokens = tokens.numel(),
                                    .seq_len = static_cast<int>(tokens.size(1)),
                                    .vocab_size = static_cast<int>(sizes.vocab_size),
                                    .width = static_cast<int>(sizes.width),
                                    .dropout = dropout,
                                    .seed = SeedOf(args.saved[1]),
                                    .d_out = d_out.const_data_ptr(),
                                    .d_out_element = ElementOf(d_out),
                                    .d_table = MutableFloatsOf(gradients[0]),
                                    .d_positions = MutableFloatsOf(gradients[1]),
                                    .indices = indices.mutable_data_ptr<std::int32_t>(),
                                    .partials = MutableFloatsOf(partials)},
                                   stream);
  });
  return gradients;
}

}  // namespace

at::Tensor ReferenceEmbedding(const EmbeddingArgs& args) {
  Check(args);
  at::Tensor out = at::embedding(args.table, args.tokens);
  if (args.positions.defined()) out = out + args.positions;
  if (args.dropout_p > 0) {
    out = out * DropoutMask(out.sizes(), args.dropout_p, args.seed)
                    .to(out.scalar_type())
                    .div_(KeptShare(args.dropout_p));
  }
  return out.to(args.dtype.value_or(out.scalar_type()));
}

at::Tensor Embedding(const EmbeddingArgs& args, ExecutionPath path) {
  Check(args);
  if (path == ExecutionPath::kReference || !CanLaunch(args)) return ReferenceEmbedding(args);
  const at::Tensor tokens = args.tokens.contiguous();
  const at::Tensor positions =
      args.positions.defined() ? args.positions.contiguous() : args.positions;
  const DropoutRule dropout = MakeDropoutRule(args.dropout_p);
  const Sizes sizes{args.table.size(0), args.table.size(1)};
  const at::Tensor out =
      at::empty({tokens.size(0), tokens.size(1), sizes.width},
                args.table.options().dtype(args.dtype.value_or(args.table.scalar_type())));
  OnDeviceOf(out, "Embedding", [&](CUstream_st* stream) {
    return LaunchEmbeddingForward({.tokens = IdsOf(tokens),
                                   .num_tokens = tokens.numel(),
                                   .seq_len = static_cast<int>(tokens.size(1)),
                                   .vocab_size = static_cast<int>(sizes.vocab_size),
                                   .width = static_cast<int>(sizes.width),
                                   .table = FloatsOf(args.table),
                                   .positions = FloatsOf(positions),
                                   .dropout = dropout,
                                   .seed = SeedOf(args.seed),
                                   .out = out.mutable_data_ptr(),
                                   .out_element = ElementOf(out)},
                                  stream);
  });
  SetBackward("Embedding", {args.table, positions}, {out}, {tokens, args.seed},
              [sizes, dropout](const BackwardArgs& backward) {
                return Backward(backward, sizes, dropout);
              });
  return out;
}

}  // namespace mixerbench::kernels::fused
