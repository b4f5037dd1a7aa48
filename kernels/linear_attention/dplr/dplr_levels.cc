// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr_levels.h"

#include <cstddef>
#include <cstdint>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

namespace mixerbench::kernels::dplr {
namespace {

constexpr std::int64_t kFirst = 0;
constexpr std::int64_t kSecond = 1;

// One half of each block of 2 h tokens: a view [M,P,h,2,K] of x [M,C,2,K].
at::Tensor Halves(const at::Tensor& x, std::int64_t h, std::int64_t which) {
  return x.unflatten(1, {-1, 2, h}).select(2, which);
}

// The same of blocks of one half each, x [M,C/h,W]: a view [M,P,1,1,W].
at::Tensor HalfDecays(const at::Tensor& x, std::int64_t which) {
  return x.unflatten(1, {-1, 2}).select(2, which).unsqueeze(2).unsqueeze(2);
}

// [M,P,h,2,K] -> [M P,2 h,K], a view.
at::Tensor AsMatrices(const at::Tensor& x) { return x.flatten(2, 3).flatten(0, 1); }

// What the readers of second halves find of the writers of first ones: a view [M,2h,2h,P] of
// scores [M,2C,2C].
at::Tensor LevelScores(const at::Tensor& scores, std::int64_t h) {
  const auto blocks = scores.unflatten(2, {-1, 2, 2 * h}).unflatten(1, {-1, 2, 2 * h});
  return blocks.select(5, kFirst).select(2, kSecond).diagonal(0, 1, 3);
}

// What the second reader of each token finds of its own token's writers: a view [M,2,C].
at::Tensor OwnScores(const at::Tensor& scores) {
  const auto tokens = scores.unflatten(2, {-1, 2}).unflatten(1, {-1, 2});  // [M,C,2,C,2]
  return tokens.select(2, kSecond).diagonal(0, 1, 2);
}

// Sums x [M,P,h,2,K] over what a decay [M,P,W] applies to.
at::Tensor SumOverBlock(const at::Tensor& x, std::int64_t width) {
  const auto sum = x.sum(at::IntArrayRef{2, 3});
  return width == 1 ? sum.sum(at::IntArrayRef{-1}, /*keepdim=*/true) : sum;
}

}  // namespace

std::vector<at::Tensor> BlockDecays(const at::Tensor& log_decay) {
  std::vector<at::Tensor> decays = {at::exp(log_decay)};
  auto sum = log_decay;
  while (sum.size(1) > 1) {
    sum = sum.unflatten(1, {-1, 2}).sum(at::IntArrayRef{2});
    decays.push_back(at::exp(sum));
  }
  return decays;
}

Levels ClimbLevels(const at::Tensor& readers, const at::Tensor& writers,
                   const std::vector<at::Tensor>& decays, LevelPass pass,
                   const at::Tensor& scores) {
  Levels levels;
  levels.readers = readers.clone();
  levels.writers = writers.clone();
  levels.readers.select(2, 1).mul_(decays[0]);  // its own token's decay comes before the read
  if (pass == LevelPass::kScores) {
    const auto own = (readers.select(2, 1).unsqueeze(2) * writers).sum(at::IntArrayRef{-1});
    OwnScores(scores).copy_(own.mT());
  }
  for (std::size_t level = 0; level + 1 < decays.size(); ++level) {
    const std::int64_t h = std::int64_t{1} << level;
    const auto later = Halves(levels.readers, h, kSecond);
    const auto earlier = Halves(levels.writers, h, kFirst);
    if (pass == LevelPass::kScores) {
      const auto found = at::bmm(AsMatrices(later), AsMatrices(earlier).mT());  // [M P,2h,2h]
      LevelScores(scores, h).copy_(found.unflatten(0, {scores.size(0), -1}).permute({0, 2, 3, 1}));
    } else {
      levels.operands.push_back({AsMatrices(later).clone(at::MemoryFormat::Contiguous),
                                 AsMatrices(earlier).clone(at::MemoryFormat::Contiguous)});
    }
    later.mul_(HalfDecays(decays[level], kFirst));
    earlier.mul_(HalfDecays(decays[level], kSecond));
  }
  return levels;
}

LevelGradients DescendLevels(const at::Tensor& readers, const at::Tensor& writers,
                             const std::vector<at::Tensor>& decays,
                             const std::vector<LevelOperands>& operands,
                             const at::Tensor& d_readers, const at::Tensor& d_writers,
                             const at::Tensor& d_scores, const at::Tensor& d_chunk_log_decay) {
  const std::int64_t width = d_chunk_log_decay.size(2);
  auto d_log_decay = d_chunk_log_decay;  // of blocks of 2 h tokens
  for (std::size_t level = operands.size(); level-- > 0;) {
    const std::int64_t h = std::int64_t{1} << level;
    const auto& [later, earlier] = operands[level];
    const auto d_later = Halves(d_readers, h, kSecond).mul_(HalfDecays(decays[level], kFirst));
    const auto d_earlier = Halves(d_writers, h, kFirst).mul_(HalfDecays(decays[level], kSecond));
    const auto of_first = SumOverBlock(later.view(d_later.sizes()) * d_later, width);
    const auto of_second = SumOverBlock(earlier.view(d_earlier.sizes()) * d_earlier, width);
    d_log_decay = (at::stack({of_first, of_second}, 2) + d_log_decay.unsqueeze(2)).flatten(1, 2);

    const auto d_found = LevelScores(d_scores, h).permute({0, 3, 1, 2}).flatten(0, 1);
    AsMatrices(d_later).baddbmm_(d_found, earlier);
    AsMatrices(d_earlier).baddbmm_(d_found.mT(), later);
  }

  const auto d_second = d_readers.select(2, 1).mul_(decays[0]);
  const auto d_own_decay = readers.select(2, 1) * d_second;
  d_log_decay = d_log_decay +
                (width == 1 ? d_own_decay.sum(at::IntArrayRef{-1}, /*keepdim=*/true) : d_own_decay);
  const auto d_own = OwnScores(d_scores).mT().unsqueeze(-1);  // [M,C,2,1]
  d_second.add_((d_own * writers).sum(at::IntArrayRef{2}));
  d_writers.addcmul_(d_own, readers.select(2, 1).unsqueeze(2));
  return {.readers = d_readers, .writers = d_writers, .log_decay = d_log_decay};
}

}  // namespace mixerbench::kernels::dplr
