// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila_chunks.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>

#include "kernels/linear_attention/sila/sila_steps.h"

namespace mixerbench::kernels::sila {
namespace {

// The loop over the tokens of one chunk: fills in what SilaForward has of them. `recalled` [C,R,V]
// holds what the entering state recalls; key_products [C,C,R].
struct ChunkLoop {
  at::Tensor recalled, writes, logits;  // [C,R,V], [C,R,V], [C,B,2H]
  at::Tensor token_logits, forced;      // [C,B,2H], [C,B,H]
  at::Tensor values, key_products;      // [C,R,V], [C,C,R]
};

void RunLoop(const ChunkLoop& loop, const at::Tensor& memory, const SilaSizes& sizes) {
  const std::int64_t chunk_size = loop.recalled.size(0);
  const std::int64_t num_heads = sizes.num_heads;
  for (std::int64_t t = 0; t < chunk_size; ++t) {
    const auto p = loop.recalled.select(0, t);  // [R,V]
    auto logits = loop.logits.select(0, t);     // [B,2H]
    at::addmm_out(logits, loop.token_logits.select(0, t), p.view({sizes.batch_size, -1}), memory);
    const auto forced = loop.forced.defined() ? loop.forced.select(0, t) : at::Tensor();
    const auto beta = WriteGate(logits.narrow(1, 0, num_heads), forced).view({-1, 1});
    const auto gamma =
        at::cosh(logits.narrow(1, num_heads, num_heads).clamp_max(0)).reciprocal_().view({-1, 1});
    auto u = loop.writes.select(0, t);
    at::mul_out(u, loop.values.select(0, t) - (sizes.decayed_erase ? gamma * p : p), beta);
    const std::int64_t num_later = chunk_size - 1 - t;
    if (num_later == 0) continue;
    // What this token changes of what later ones recall.
    loop.recalled.narrow(0, t + 1, num_later)
        .mul_(gamma)
        .addcmul_(loop.key_products.select(0, t).narrow(0, t + 1, num_later).unsqueeze(-1), u);
  }
}

}  // namespace

at::Tensor TokensOfChunks(const at::Tensor& x, const SilaSizes& sizes) {
  return x.unflatten(0, {sizes.chunking.num_chunks, -1}).transpose(1, 2).contiguous();
}

at::Tensor ChunksOfTokens(const at::Tensor& x) { return x.transpose(1, 2).flatten(0, 1); }

ChunkDecays DecaysOf(const at::Tensor& logits, const SilaSizes& sizes) {
  const auto of_forget_gates = logits.narrow(-1, sizes.num_heads, sizes.num_heads);
  const auto log_decay = ChunksOfTokens(LogForget(of_forget_gates).flatten(2));  // [N R,C]
  const LogDecaySums b(log_decay);
  const auto b_last = LastToken(b);
  const std::int64_t chunk_size = log_decay.size(1);
  // A row above the first: before the first token nothing has decayed.
  const auto of_token_before = [&](const at::Tensor& x, double before_first) {
    return at::constant_pad_nd(x.narrow(1, 0, chunk_size - 1), {0, 0, 1, 0}, before_first);
  };
  return {.read = of_token_before(at::exp(b.total()).unsqueeze(-1), 1),
          .write = at::exp(b_last - b).unsqueeze(-1),
          .all = at::exp(b_last.total()).unsqueeze(-1),
          .pairs = of_token_before(CausalDecay(b), 0)};
}

SilaForward RunSilaForward(const SilaChunks& chunks, const SilaSizes& sizes,
                           const at::Tensor& initial_state) {
  const std::int64_t num_chunks = sizes.chunking.num_chunks;
  const auto count = static_cast<std::size_t>(num_chunks);
  SilaForward result;
  const auto values = TokensOfChunks(chunks.v, sizes);        // [N,C,R,V]
  const auto key_products = at::bmm(chunks.k, chunks.k.mT())  // [N R,C,C]
                                .unflatten(0, {num_chunks, -1})
                                .permute({0, 2, 3, 1})
                                .contiguous();  // [N,C,C,R]
  result.recalled = at::empty_like(values);
  result.writes = at::empty_like(values);
  result.logits = at::empty_like(chunks.logits);
  const auto keys = chunks.k.chunk(num_chunks);  // N x [R,C,K]
  std::vector<at::Tensor> entering;
  auto state = initial_state;
  for (std::size_t n = 0; n < count; ++n) {
    const auto i = static_cast<std::int64_t>(n);
    const ChunkLoop loop{
        .recalled = result.recalled.select(0, i),
        .writes = result.writes.select(0, i),
        .logits = result.logits.select(0, i),
        .token_logits = chunks.logits.select(0, i),
        .forced = chunks.forced.defined() ? chunks.forced.select(0, i) : at::Tensor(),
        .values = values.select(0, i),
        .key_products = key_products.select(0, i)};
    loop.recalled.copy_(at::bmm(keys[n], state).transpose(0, 1));
    RunLoop(loop, chunks.memory, sizes);
    entering.push_back(state);
    const auto decays = DecaysOf(loop.logits.unsqueeze(0), sizes);
    state =
        at::baddbmm(state * decays.all, (keys[n] * decays.write).mT(), loop.writes.transpose(0, 1));
  }
  result.entering = at::cat(entering);
  result.final_state = state;
  const auto decays = DecaysOf(result.logits, sizes);
  result.o =
      at::baddbmm(at::bmm(chunks.q * decays.read, result.entering),
                  at::bmm(chunks.q, chunks.k.mT()) * decays.pairs, ChunksOfTokens(result.writes));
  return result;
}

}  // namespace mixerbench::kernels::sila
