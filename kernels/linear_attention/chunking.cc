// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/chunking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>

#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

// exp(-x) is zero from here on, rounded to the nearest number.
constexpr double kStrongestFloat = 105;
constexpr double kStrongestDouble = 746;

}  // namespace

Chunking CutEvenly(std::int64_t seq_len, std::int64_t max_chunk_size) {
  const std::int64_t num_chunks = (seq_len + max_chunk_size - 1) / max_chunk_size;
  return {.seq_len = seq_len,
          .chunk_size = (seq_len + num_chunks - 1) / num_chunks,
          .num_chunks = num_chunks};
}

at::Tensor SplitChunks(const at::Tensor& x, const Chunking& chunking, at::ScalarType dtype) {
  const std::int64_t num_padding = chunking.num_chunks * chunking.chunk_size - chunking.seq_len;
  auto padded = x.to(dtype);
  if (num_padding > 0) {
    // Pairs (before, after) from the last axis to the time axis.
    std::vector<std::int64_t> padding(2 * static_cast<std::size_t>(x.dim() - 1), 0);
    padding.back() = num_padding;
    padded = at::constant_pad_nd(padded, padding);
  }
  auto chunks = padded.unflatten(1, {chunking.num_chunks, chunking.chunk_size});  // [B,N,C,H,...]
  chunks = chunks.permute(x.dim() == 4 ? at::IntArrayRef{1, 0, 3, 2, 4}
                                       : at::IntArrayRef{1, 0, 3, 2});  // [N,B,H,C,...]
  return chunks.flatten(0, 2);
}

at::Tensor MergeChunks(const at::Tensor& x, const Chunking& chunking, std::int64_t num_heads) {
  const auto chunks = x.unflatten(0, {chunking.num_chunks, -1, num_heads});  // [N,B,H,C,D]
  const auto padded = chunks.permute({1, 0, 3, 2, 4}).flatten(1, 2);         // [B,N C,H,D]
  return padded.narrow(1, 0, chunking.seq_len);
}

at::Tensor FutureMask(std::int64_t length, const at::TensorOptions& options) {
  return at::full({length, length}, -std::numeric_limits<double>::infinity(), options).triu(1);
}

LogDecaySums::LogDecaySums(const at::Tensor& log_decay) {
  const bool is_double = log_decay.scalar_type() == at::kDouble;
  const double strongest = is_double ? kStrongestDouble : kStrongestFloat;
  const int digits =
      is_double ? std::numeric_limits<double>::digits : std::numeric_limits<float>::digits;
  // The largest sum is a whole number of units that has `digits` binary digits.
  const double largest_sum = strongest * static_cast<double>(log_decay.size(1));
  const double unit = std::exp2(std::ceil(std::log2(largest_sum)) - digits);
  const auto bounded = log_decay.clamp_min(-strongest);
  const auto rounded = bounded.detach().div(unit).round_().mul_(unit);
  coarse_ = rounded.cumsum(1);
  fine_ = (bounded - rounded).cumsum(1);
}

std::array<LogDecaySums, 2> LogDecaySums::Halves(std::int64_t half) const {
  const auto coarse = SplitHalves(coarse_, half);
  const auto fine = SplitHalves(fine_, half);
  return {LogDecaySums(coarse[0], fine[0]), LogDecaySums(coarse[1], fine[1])};
}

at::Tensor operator-(const LogDecaySums& later, const LogDecaySums& earlier) {
  return (later.coarse_ - earlier.coarse_).add_(later.fine_).sub_(earlier.fine_);
}

LogDecaySums LastToken(const LogDecaySums& b) {
  return b.Map([](const at::Tensor& x) { return x.narrow(1, x.size(1) - 1, 1); });
}

at::Tensor CausalDecay(const LogDecaySums& b) {
  const auto difference = b.Map([](const at::Tensor& x) { return x.unsqueeze(2); }) -
                          b.Map([](const at::Tensor& x) { return x.unsqueeze(1); });
  return at::exp(difference + FutureMask(difference.size(1), difference.options()));
}

std::array<at::Tensor, 2> SplitHalves(const at::Tensor& x, std::int64_t half) {
  const auto halves = x.reshape({-1, 2, half, x.size(-1)}).unbind(1);
  return {halves[0], halves[1]};
}

ChunkStates ScanChunks(
    const at::Tensor& initial_state, std::int64_t num_chunks,
    const std::function<at::Tensor(std::int64_t n, const at::Tensor& state)>& step) {
  std::vector<at::Tensor> entering;
  auto state = initial_state;
  for (std::int64_t n = 0; n < num_chunks; ++n) {
    entering.push_back(state);
    state = step(n, state);
  }
  return {.entering = at::cat(entering), .final_state = state};
}

void RecordAtenChunks(std::string_view core, ExecutionPath path, const at::Tensor& q,
                      bool needs_gradients) {
  const bool is_reference = path == ExecutionPath::kReference;
  const std::string_view plan = is_reference ? kReferencePlan : kAtenChunkPlan;
  const std::string_view reason = is_reference ? kReferenceAsked
                                  : q.is_cpu() ? kOnCpu
                                               : "has no device code";
  RecordPlan(core, plan, needs_gradients ? plan : std::string_view(), reason);
}

}  // namespace mixerbench::kernels
