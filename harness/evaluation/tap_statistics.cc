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

enum Column { kCount, kSum, kSquaredDeviations, kMin, kMax, kNumColumns };

// [samples, values] -> [samples, kNumColumns] in fp64 on the CPU, of what is finite.
at::Tensor Summarise(const at::Tensor& values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const at::Tensor wide = values.to(at::kDouble);
  const at::Tensor finite = at::isfinite(wide);
  const at::Tensor left_out = finite.logical_not();
  const at::Tensor count = finite.sum(1).to(at::kDouble);
  const at::Tensor sum = wide.masked_fill(left_out, 0).sum(1);
  const at::Tensor mean = (sum / count.clamp_min(1)).unsqueeze(1);
  const at::Tensor deviation = (wide - mean).masked_fill(left_out, 0);
  return at::stack({count, sum, (deviation * deviation).sum(1),
                    at::amin(wide.masked_fill(left_out, kInfinity), {1}),
                    at::amax(wide.masked_fill(left_out, -kInfinity), {1})},
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
    AddMoments(row[kCount], row[kSum], row[kSquaredDeviations]);
    min_ = std::min(min_, row[kMin]);
    max_ = std::max(max_, row[kMax]);
  }
}

// Of one sample, without the cancellation that sums of squares have.
void TapStatistics::AddMoments(double count, double sum, double squared_deviations) {
  if (count == 0) return;
  const auto before = static_cast<double>(num_finite_);
  if (before > 0) {
    const double distance = sum / count - sum_ / before;
    squared_deviations_ += distance * distance * before * count / (before + count);
  }
  squared_deviations_ += squared_deviations;
  num_finite_ += static_cast<std::int64_t>(count);
  sum_ += sum;
}

reports::TapRow TapStatistics::Row() const {
  reports::TapRow row;
  row.num_values = num_values_;
  row.num_not_finite = num_values_ - num_finite_;
  if (num_finite_ == 0) return row;
  const auto count = static_cast<double>(num_finite_);
  row.mean = sum_ / count;
  row.std = std::sqrt(squared_deviations_ / count);
  row.min = min_;
  row.max = max_;
  return row;
}

}  // namespace mixerbench::harness
