// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/sila/sila_chunks.h"

namespace mixerbench::kernels::sila {
namespace {

// What the reverse loop multiplies with, [N,C,R,1] and [N,C,R,V].
struct Factors {
  at::Tensor beta;
  at::Tensor beta_slope;    // of beta by its logit
  at::Tensor forget_slope;  // of ln gamma by its logit
  at::Tensor decayed_beta;  // beta times the decay of what is erased
  at::Tensor errors;        // v less what is erased
};

Factors FactorsOf(const SilaChunks& chunks, const SilaSizes& sizes, const SilaForward& saved) {
  const auto column = [](const at::Tensor& x) { return x.flatten(2).unsqueeze(-1); };
  const auto halves = saved.logits.chunk(2, -1);  // [N,C,B,H]
  auto beta = at::sigmoid(halves[0]);
  auto beta_slope = beta * (1 - beta);
  if (chunks.forced.defined()) {
    const auto free = chunks.forced.isnan();
    beta = at::where(free, beta, chunks.forced);
    beta_slope = beta_slope * free;
  }
  const auto negative = halves[1].clamp_max(0);
  Factors factors;
  factors.beta = column(beta);
  factors.beta_slope = column(beta_slope);
  factors.forget_slope = column(at::tanh(negative).neg_());
  const auto erase = sizes.decayed_erase ? column(at::cosh(negative).reciprocal_()) : at::Tensor();
  factors.decayed_beta = erase.defined() ? factors.beta * erase : factors.beta;
  factors.errors =
      TokensOfChunks(chunks.v, sizes) - (erase.defined() ? erase * saved.recalled : saved.recalled);
  return factors;
}

// One chunk in the reverse loop. y [C,R,V] holds what is known of dL/du before it; the loop adds
// what later tokens of the chunk recall.
struct ReverseLoop {
  Factors factors;                   // of the chunk, [C,R,.]
  at::Tensor y, d_recalled, logits;  // [C,R,V], [C,R,V], [C,B,2H]: the last two are results
  at::Tensor recalled;               // [C,R,V]
  at::Tensor read_products;          // <do, o> [C,R,1]
  at::Tensor pairs;                  // <k_j, k_t> e^{b_{j-1} - b_t}, [C,C,R] of (j, t)
};

// `product`: <G, S> of the state that leaves the chunk and its gradient, [R,1].
void RunReverseLoop(const ReverseLoop& loop, const at::Tensor& memory, const SilaSizes& sizes,
                    at::Tensor product) {
  const std::int64_t num_heads = sizes.num_heads;
  for (std::int64_t t = loop.y.size(0) - 1; t >= 0; --t) {
    const auto at_token = [t](const at::Tensor& x) { return x.select(0, t); };
    const auto y = at_token(loop.y);                                                    // [R,V]
    const auto p = at_token(loop.recalled);                                             // [R,V]
    const auto d_beta = (at_token(loop.factors.errors) * y).sum(-1, /*keepdim=*/true);  // [R,1]
    const auto decayed_beta = at_token(loop.factors.decayed_beta);
    // gamma <G, S_{t-1}>, without a division by gamma.
    const auto kept = product - at_token(loop.factors.beta) * d_beta;
    auto d_log_gamma = kept;
    if (sizes.decayed_erase) {
      d_log_gamma = kept - decayed_beta * (p * y).sum(-1, /*keepdim=*/true);
    }
    auto d_logits = at_token(loop.logits);  // [B,2H]
    d_logits.narrow(1, 0, num_heads)
        .copy_((at_token(loop.factors.beta_slope) * d_beta).view({-1, num_heads}));
    d_logits.narrow(1, num_heads, num_heads)
        .copy_((at_token(loop.factors.forget_slope) * d_log_gamma).view({-1, num_heads}));
    auto d_p = at_token(loop.d_recalled);
    auto d_p_rows = d_p.view({sizes.batch_size, -1});
    at::addmm_out(d_p_rows, (decayed_beta * y).view({sizes.batch_size, -1}), d_logits, memory.t(),
                  /*beta=*/-1);
    product = kept + (d_p * p).sum(-1, /*keepdim=*/true) + at_token(loop.read_products);
    if (t > 0) {
      loop.y.narrow(0, 0, t).addcmul_(at_token(loop.pairs).narrow(0, 0, t).unsqueeze(-1), d_p);
    }
  }
}

}  // namespace

SilaGradients RunSilaBackward(const SilaChunks& chunks, const SilaSizes& sizes,
                              const SilaForward& saved, const at::Tensor& d_o,
                              const at::Tensor& d_final_state) {
  const std::int64_t num_chunks = sizes.chunking.num_chunks;
  const auto decays = DecaysOf(saved.logits, sizes);
  const auto factors = FactorsOf(chunks, sizes, saved);
  const auto qk = at::bmm(chunks.q, chunks.k.mT()) * decays.pairs;  // [N R,C,C]
  const auto pairs = (at::bmm(chunks.k, chunks.k.mT()) * decays.pairs)
                         .unflatten(0, {num_chunks, -1})
                         .permute({0, 2, 3, 1})
                         .contiguous();  // [N,C,C,R]
  const auto y_of_reads = at::bmm(qk.mT(), d_o).chunk(num_chunks);
  const auto read_products =
      TokensOfChunks((d_o * saved.o).sum(-1, /*keepdim=*/true), sizes);  // [N,C,R,1]
  const auto k_leaving = (chunks.k * decays.write).chunk(num_chunks);    // N x [R,C,K]
  const auto k_reading = (chunks.k * decays.read).chunk(num_chunks);
  const auto dS_of_reads = at::bmm((chunks.q * decays.read).mT(), d_o).chunk(num_chunks);
  const auto all = decays.all.chunk(num_chunks);
  const auto entering = saved.entering.chunk(num_chunks);

  SilaGradients result;
  result.logits = at::empty_like(saved.logits);
  auto y = at::empty_like(saved.recalled);
  auto d_recalled = at::empty_like(saved.recalled);
  std::vector<at::Tensor> leaving(static_cast<std::size_t>(num_chunks));  // G, N x [R,K,V]
  auto gradient = d_final_state;
  for (std::int64_t i = num_chunks - 1; i >= 0; --i) {
    const auto n = static_cast<std::size_t>(i);
    leaving[n] = gradient;
    const auto of_chunk = [i](const at::Tensor& x) { return x.select(0, i); };
    const ReverseLoop loop{.factors = {of_chunk(factors.beta), of_chunk(factors.beta_slope),
                                       of_chunk(factors.forget_slope),
                                       of_chunk(factors.decayed_beta), of_chunk(factors.errors)},
                           .y = of_chunk(y),
                           .d_recalled = of_chunk(d_recalled),
                           .logits = of_chunk(result.logits),
                           .recalled = of_chunk(saved.recalled),
                           .read_products = of_chunk(read_products),
                           .pairs = of_chunk(pairs)};
    loop.y.copy_(at::baddbmm(y_of_reads[n], k_leaving[n], gradient).transpose(0, 1));
    const auto& state = i + 1 < num_chunks ? entering[n + 1] : saved.final_state;
    RunReverseLoop(loop, chunks.memory, sizes, (gradient * state).sum({-2, -1}).unsqueeze(-1));
    gradient = at::baddbmm(dS_of_reads[n] + gradient * all[n], k_reading[n].mT(),
                           loop.d_recalled.transpose(0, 1));
  }
  result.initial_state = gradient;
  // Both have a row a token of a sequence of the batch; padding has zeros in the first.
  result.memory = at::mm(saved.recalled.reshape({-1, chunks.memory.size(0)}).t(),
                         result.logits.view({-1, chunks.memory.size(1)}));
  result.v = ChunksOfTokens(y * factors.beta);
  const auto d_p = ChunksOfTokens(d_recalled);  // [N R,C,V]
  const auto u = ChunksOfTokens(saved.writes);
  const auto by_reads = at::bmm(d_o, u.mT()) * decays.pairs;    // dO U^T
  const auto by_recalls = at::bmm(d_p, u.mT()) * decays.pairs;  // dP U^T
  result.q = at::baddbmm(at::bmm(d_o, saved.entering.mT()) * decays.read, by_reads, chunks.k);
  result.k = at::bmm(d_p, saved.entering.mT()) * decays.read +
             at::bmm(u, at::cat(leaving).mT()) * decays.write;
  result.k = at::baddbmm(result.k, by_recalls + by_recalls.mT(), chunks.k);
  result.k = at::baddbmm(result.k, by_reads.mT(), chunks.q);
  return result;
}

}  // namespace mixerbench::kernels::sila
