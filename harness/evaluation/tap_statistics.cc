// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/tap_statistics.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

namespace mixerbench::harness {
namespace {

enum Column { kCount, kSum, kSquares, kMin, kMax, kNumColumns };

// [samples, values] -> [samples, kNumColumns] in fp64 on the CPU, of what is finite.
at::Tensor Summarise(const at::Tensor& values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const at::Tensor wide = values.to(at::kDouble);
  const at::Tensor finite = at::isfinite(wide);
  const at::Tensor kept = wide.masked_fill(finite.logical_not(), 0);
  return at::stack({finite.sum(1).to(at::kDouble), kept.sum(1), (kept * kept).sum(1),
                    at::amin(wide.masked_fill(finite.logical_not(), kInfinity), {1}),
                    at::amax(wide.masked_fill(finite.logical_not(), -kInfinity), {1})},
                   1)
      .cpu();
}

}  // namespace

void TapStatistics::Add(const at::Tensor& record, std::int64_t batch_size) {
  if (record.numel() == 0) return;
  const bool is_per_sample = record.dim() > 1 && record.size(0) == batch_size;
  if (!is_per_sample && has_batch_) return;
  has_batch_ = true;
  const at::Tensor values = is_per_sample ? record.flatten(1) : record.reshape({1, -1});
  const at::Tensor summary = Summarise(values).contiguous();
  const double* row = summary.const_data_ptr<double>();
  num_values_ += values.numel();
  for (std::int64_t i = 0; i < summary.size(0); ++i, row += kNumColumns) {
    num_finite_ += static_cast<std::int64_t>(row[kCount]);
    sum_ += row[kSum];
    sum_of_squares_ += row[kSquares];
    min_ = std::min(min_, row[kMin]);
    max_ = std::max(max_, row[kMax]);
  }
}

reports::TapRow TapStatistics::Row() const {
  reports::TapRow row;
  row.num_values = num_values_;
  row.num_not_finite = num_values_ - num_finite_;
  if (num_finite_ == 0) return row;
  const auto count = static_cast<double>(num_finite_);
  const double mean = sum_ / count;
  row.mean = mean;
  row.std = std::sqrt(std::max(0.0, sum_of_squares_ / count - mean * mean));
  row.min = min_;
  row.max = max_;
  return row;
}

}  // namespace mixerbench::harness
