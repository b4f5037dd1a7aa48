// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/class_recall.h"

#include "reports/result/result.h"

namespace mixerbench::reports {

void ClassRecall::Add(std::int64_t label, std::int64_t prediction) {
  if (prediction == label) {
    ++hits_[label];
  } else {
    ++misses_[label];
    ++false_alarms_[prediction];
  }
}

double ClassRecall::Mean() const {
  std::map<std::int64_t, double> recall;
  for (const auto& [label, count] : false_alarms_) recall[label] = 0;
  for (const auto& [label, count] : misses_) recall[label] = 0;
  for (const auto& [label, count] : hits_) {
    const auto missed = misses_.find(label);
    const std::int64_t total = count + (missed == misses_.end() ? 0 : missed->second);
    recall[label] = static_cast<double>(count) / static_cast<double>(total);
  }
  double sum = 0;
  for (const auto& [label, value] : recall) sum += value;
  return sum / static_cast<double>(recall.size());
}

void BatchedClassRecall::BeginSample() {
  if (batch_size_ == kMacroBatch) {
    full_batches_sum_ += BatchSum();
    batch_ = {};
    batch_size_ = 0;
  }
  ++batch_size_;
  ++num_samples_;
}

double BatchedClassRecall::Mean() const {
  return (full_batches_sum_ + BatchSum()) / static_cast<double>(num_samples_);
}

double BatchedClassRecall::BatchSum() const {
  return static_cast<double>(batch_size_) * batch_.Mean();
}

}  // namespace mixerbench::reports
