// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/state_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/xlogy.h>

namespace mixerbench::harness {
namespace {

constexpr double kShortest = 1e-12;        // rows below have no direction
constexpr std::int64_t kLastTokens = 128;  // whose receptive field is taken
constexpr double kThreshold = 0.001;       // what has to be left of a write

bool IsMatrixState(const at::Tensor& record) { return record.dim() == 4; }

// Rows of length one, those without a direction 0, and how many have one: [B,H,K,V], [B,H].
std::pair<at::Tensor, at::Tensor> Directions(const at::Tensor& state) {
  const at::Tensor wide = state.to(at::kDouble);
  const at::Tensor length = wide.norm(2, -1, /*keepdim=*/true);
  const at::Tensor has_direction = length.ge(kShortest);
  const at::Tensor rows = (wide / length.clamp_min(kShortest)) * has_direction;
  return {rows, has_direction.squeeze(-1).sum(-1).to(at::kDouble)};
}

// 0 / 0 where fewer than two rows count.
at::Tensor PerPair(const at::Tensor& sum, const at::Tensor& count) {
  return sum / (count * (count - 1));
}

at::Tensor OfMatrix(const at::Tensor& record, at::Tensor (*metric)(const at::Tensor&)) {
  return IsMatrixState(record) ? metric(record) : at::Tensor();
}

constexpr std::array<StateMetric, 4> kMetrics = {
    {{"state_row_cosine", "state",
      [](const at::Tensor& record) { return OfMatrix(record, RowCosine); }},
     {"state_row_abs_cosine", "state",
      [](const at::Tensor& record) { return OfMatrix(record, AbsoluteRowCosine); }},
     {"state_entropy", "state",
      [](const at::Tensor& record) { return OfMatrix(record, SingularEntropy); }},
     {"receptive_field", "log_decay", [](const at::Tensor& record) {
        return record.dim() >= 3 ? ReceptiveField(record) : at::Tensor();
      }}}};

}  // namespace

// The cosines of all pairs add up to the square of the sum of the directions.
at::Tensor RowCosine(const at::Tensor& state) {
  const auto [rows, count] = Directions(state);
  return PerPair(rows.sum(-2).square().sum(-1) - count, count);
}

at::Tensor AbsoluteRowCosine(const at::Tensor& state) {
  const auto [rows, count] = Directions(state);
  return PerPair(rows.matmul(rows.mT()).abs().sum(at::IntArrayRef({-2, -1})) - count, count);
}

at::Tensor SingularEntropy(const at::Tensor& state) {
  // Of a state that is not finite there are none; it becomes one of zeros, which has no entropy.
  const at::Tensor is_finite = at::isfinite(state).all(-1, true).all(-2, true);
  const at::Tensor matrix = state.to(at::kDouble).masked_fill(is_finite.logical_not(), 0);
  const at::Tensor energy = at::linalg_svdvals(matrix).square();
  const at::Tensor share = energy / energy.sum(-1, /*keepdim=*/true);
  return -at::xlogy(share, share).sum(-1) / std::log(static_cast<double>(energy.size(-1)));
}

at::Tensor ReceptiveField(const at::Tensor& log_decay) {
  const std::int64_t num_tokens = log_decay.size(1);
  const double limit = -std::log(kThreshold);
  // A step past the limit ends every sum that it is in, however far past: none need be infinite.
  // Minus the sums up to each token, [B,...,T], which do not fall from token to token.
  const at::Tensor decayed =
      -log_decay.to(at::kDouble).clamp_min(-2 * limit).movedim(1, -1).cumsum(-1).contiguous();
  const std::int64_t first = std::max<std::int64_t>(num_tokens - kLastTokens, 0);
  const at::Tensor of_last = decayed.narrow(-1, first, num_tokens - first).contiguous();
  const at::Tensor nearest_kept = at::searchsorted(decayed, of_last - limit);
  const at::Tensor token = at::arange(first, num_tokens, nearest_kept.options());
  return (token - nearest_kept).movedim(-1, 1).to(at::kDouble);
}

std::span<const StateMetric> StateMetrics() { return kMetrics; }

}  // namespace mixerbench::harness
