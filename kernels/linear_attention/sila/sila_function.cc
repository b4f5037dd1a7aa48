// SILA in chunks as a function that autograd can record.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/sila/sila_chunks.h"
#include "kernels/linear_attention/sila/sila_steps.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::sila {
namespace {

enum Input { kQ, kK, kV, kWriteLogit, kForgetLogit, kMemory, kInitialState, kNumInputs };

// [B,T,H] -> [N,C,B,H]
at::Tensor LogitsOfTokens(const at::Tensor& x, const SilaSizes& sizes, at::ScalarType dtype) {
  return TokensOfChunks(SplitChunks(x, sizes.chunking, dtype), sizes)
      .unflatten(-1, {sizes.batch_size, sizes.num_heads});
}

// [N,C,B,H] -> [B,T,H]
at::Tensor TokensInOrder(const at::Tensor& x, const SilaSizes& sizes) {
  const auto batch_first = x.flatten(0, 1).transpose(0, 1);  // [B,N C,H]
  return batch_first.narrow(1, 0, sizes.chunking.seq_len);
}

// [H V,2H] of [2,H,H,V], gate before head before value.
at::Tensor MemoryMatrix(const at::Tensor& memory) {
  return memory.flatten(0, 1).flatten(1).t().contiguous();
}

// What recalled values add to the gates, [2,H,H,V]: the write gates, then the forget gates.
at::Tensor Memory(const SilaArgs& args, const PreparedRecurrence& sizes) {
  if (!args.write_memory.defined()) {
    return at::zeros({2, sizes.num_heads, sizes.num_heads, sizes.head_v_dim},
                     args.q.options().dtype(sizes.compute_dtype));
  }
  return at::stack({OfEveryHead(args.write_memory), OfEveryHead(args.forget_memory)})
      .to(sizes.compute_dtype);
}

// The gradients of SilaArgs from those of the chunks.
std::vector<at::Tensor> GradientsOfInputs(const std::vector<at::Tensor>& inputs,
                                          const SilaGradients& d, const SilaSizes& sizes,
                                          double scale) {
  const auto of_tokens = [&](const at::Tensor& x) {
    return MergeChunks(x, sizes.chunking, sizes.num_heads);
  };
  const auto logits = d.logits.chunk(2, -1);
  std::vector<at::Tensor> result(kNumInputs);
  result[kQ] = of_tokens(d.q * scale);
  result[kK] = of_tokens(d.k);
  result[kV] = of_tokens(d.v);
  result[kWriteLogit] = TokensInOrder(logits[0], sizes);
  result[kForgetLogit] = TokensInOrder(logits[1], sizes);
  result[kMemory] = d.memory.t().reshape(inputs[kMemory].sizes());
  result[kInitialState] = d.initial_state.view(inputs[kInitialState].sizes());
  for (std::size_t i = 0; i < kNumInputs; ++i) {
    result[i] = result[i].to(inputs[i].scalar_type());
  }
  return result;
}

}  // namespace

SilaResult SilaInChunks(const SilaArgs& args, const PreparedRecurrence& prepared) {
  const auto dtype = prepared.compute_dtype;
  const std::vector<at::Tensor> inputs = {args.q,
                                          args.k,
                                          args.v,
                                          args.write_logit,
                                          args.forget_logit,
                                          Memory(args, prepared),
                                          InitialSilaState(args, prepared)};
  SilaResult result;
  SilaChunks chunks;
  SilaForward forward;
  const SilaSizes sizes{.chunking = CutEvenly(prepared.seq_len, args.chunk_size),
                        .batch_size = prepared.batch_size,
                        .num_heads = prepared.num_heads,
                        .decayed_erase = args.decayed_erase};
  {
    const at::NoGradGuard no_grad;
    chunks.q = SplitChunks(args.q, sizes.chunking, dtype) * prepared.scale;
    chunks.k = SplitChunks(args.k, sizes.chunking, dtype);
    chunks.v = SplitChunks(args.v, sizes.chunking, dtype);
    chunks.logits = at::cat({LogitsOfTokens(args.write_logit, sizes, dtype),
                             LogitsOfTokens(args.forget_logit, sizes, dtype)},
                            -1);
    chunks.memory = MemoryMatrix(inputs[kMemory]);
    if (args.forced_write_gate.defined()) {
      chunks.forced = LogitsOfTokens(args.forced_write_gate, sizes, dtype);
    }
    forward = RunSilaForward(chunks, sizes, inputs[kInitialState].flatten(0, 1));
    result.o = MergeChunks(forward.o, sizes.chunking, sizes.num_heads)
                   .to(args.v.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    result.final_state = forward.final_state.unflatten(0, {-1, sizes.num_heads}).clone();
    if (args.wants_gates) {
      const auto logits = forward.logits.chunk(2, -1);
      result.write_gate = TokensInOrder(WriteGate(logits[0], chunks.forced), sizes);
      result.log_decay = TokensInOrder(LogForget(logits[1]), sizes);
      result.recalled =
          MergeChunks(ChunksOfTokens(forward.recalled), sizes.chunking, sizes.num_heads);
    }
  }
  std::vector<at::Tensor> saved = inputs;
  saved.insert(saved.end(), {chunks.q, chunks.k, chunks.v, chunks.logits, chunks.memory,
                             chunks.forced, forward.o, forward.final_state, forward.entering,
                             forward.logits, forward.recalled, forward.writes});
  SetBackward(
      "Sila", inputs, {result.o, result.final_state}, saved,
      [sizes, scale = prepared.scale](const BackwardArgs& backward) {
        const std::vector<at::Tensor> original(backward.saved.begin(),
                                               backward.saved.begin() + kNumInputs);
        const auto* const s = backward.saved.data() + kNumInputs;
        const SilaChunks of_chunks{s[0], s[1], s[2], s[3], s[4], s[5]};
        const SilaForward of_forward{s[6], s[7], s[8], s[9], s[10], s[11]};
        const auto& d_o = backward.grads[0];
        const auto& d_state = backward.grads[1];
        return GradientsOfInputs(
            original,
            RunSilaBackward(
                of_chunks, sizes, of_forward,
                d_o.defined() ? SplitChunks(d_o, sizes.chunking, of_forward.o.scalar_type())
                              : at::zeros_like(of_forward.o),
                d_state.defined() ? d_state.flatten(0, 1) : at::zeros_like(of_forward.final_state)),
            sizes, scale);
      });
  return result;
}

}  // namespace mixerbench::kernels::sila
