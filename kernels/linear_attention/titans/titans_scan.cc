// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/titans/titans_steps.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::titans {
namespace {

// The rows of the memory, of those of memory and momentum.
at::Tensor MemoryOf(const at::Tensor& x) { return x.narrow(1, 0, x.size(1) / 2); }

// A mix [R,2,2] of memory and momentum x [R,2K,V].
at::Tensor Mixed(const at::Tensor& mix, const at::Tensor& x) {
  return at::bmm(mix, x.reshape({x.size(0), 2, -1})).view(x.sizes());
}

std::vector<at::Tensor> ScanBackward(const TitansScan& x, const TitansScanned& scanned,
                                     const at::Tensor& d_memory, const at::Tensor& d_errors) {
  const std::int64_t num_sequences = x.memory.size(0);
  const std::int64_t num_chunks = x.k.size(0) / num_sequences;
  const auto part = [&](const at::Tensor& t, std::int64_t n) {
    return t.narrow(0, n * num_sequences, num_sequences);
  };
  std::vector<at::Tensor> errors, leaving;  // gradients, the last chunk first
  auto gradient = part(d_memory, num_chunks);
  for (std::int64_t n = num_chunks - 1; n >= 0; --n) {
    leaving.push_back(gradient);
    errors.push_back(
        at::baddbmm(part(d_errors, n), part(x.writes, n), gradient, /*beta=*/1, /*alpha=*/-1));
    gradient = Mixed(part(x.mix, n).mT(), gradient) + part(d_memory, n);
    MemoryOf(gradient).baddbmm_(part(x.k, n).mT(), errors.back());
  }
  std::reverse(errors.begin(), errors.end());
  std::reverse(leaving.begin(), leaving.end());
  const auto all_errors = at::cat(errors), all_leaving = at::cat(leaving);
  const auto entering = scanned.memory.narrow(0, 0, x.k.size(0));
  const auto halves = [&](const at::Tensor& t) { return t.reshape({t.size(0), 2, -1}); };
  return {at::bmm(all_errors, MemoryOf(entering).mT()), all_errors.neg(),
          at::bmm(scanned.errors, all_leaving.mT()).neg_(),
          at::bmm(halves(all_leaving), halves(entering).mT()), gradient};
}

}  // namespace

TitansScanned Scan(const TitansScan& x) {
  const std::vector<at::Tensor> inputs = {x.k, x.v, x.writes, x.mix, x.memory};
  TitansScanned scanned;
  {
    const at::NoGradGuard no_grad;
    const std::int64_t num_sequences = x.memory.size(0);
    const std::int64_t num_chunks = x.k.size(0) / num_sequences;
    const auto part = [&](const at::Tensor& t, std::int64_t n) {
      return t.narrow(0, n * num_sequences, num_sequences);
    };
    std::vector<at::Tensor> memory = {x.memory}, errors;
    for (std::int64_t n = 0; n < num_chunks; ++n) {
      errors.push_back(at::baddbmm(part(x.v, n), part(x.k, n), MemoryOf(memory.back()),
                                   /*beta=*/-1, /*alpha=*/1));
      memory.push_back(at::baddbmm(Mixed(part(x.mix, n), memory.back()), part(x.writes, n).mT(),
                                   errors.back(), /*beta=*/1, /*alpha=*/-1));
    }
    scanned = {at::cat(memory), at::cat(errors)};
  }
  std::vector<at::Tensor> saved = inputs;
  saved.insert(saved.end(), {scanned.memory, scanned.errors});
  SetBackward("TitansScan", inputs, {scanned.memory, scanned.errors}, saved,
              [](const BackwardArgs& backward) {
                const auto& s = backward.saved;
                const auto defined = [](const at::Tensor& gradient, const at::Tensor& like) {
                  return gradient.defined() ? gradient : at::zeros_like(like);
                };
                return ScanBackward({s[0], s[1], s[2], s[3], s[4]}, {s[5], s[6]},
                                    defined(backward.grads[0], s[5]),
                                    defined(backward.grads[1], s[6]));
              });
  return scanned;
}

}  // namespace mixerbench::kernels::titans
