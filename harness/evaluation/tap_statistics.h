// What taps record (models/taps.h), summarised over the samples of a segment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <ATen/core/Tensor.h>

#include "reports/result/result.h"

namespace mixerbench::harness {

// Of one tap in one place. Sums are of doubles, first over each sample, then over samples in their
// order, so that how samples are batched is of no influence.
class TapStatistics {
 public:
  // What a batch of so many samples recorded: samples come first in it, or it is the same for all
  // (a single axis), in which case it counts once.
  void Add(const at::Tensor& record, std::int64_t batch_size);

  // The numbers of the row, which says nothing else yet.
  reports::TapRow Row() const;

 private:
  void AddMoments(double count, double sum, double squared_deviations);

  std::int64_t num_values_ = 0;
  std::int64_t num_finite_ = 0;
  double sum_ = 0;
  double squared_deviations_ = 0;  // from the mean, summed
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  bool has_batch_ = false;
};

}  // namespace mixerbench::harness
