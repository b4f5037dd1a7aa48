// Recall by class: the share of a label's positions at which it was predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace mixerbench::reports {

class ClassRecall {
 public:
  void Add(std::int64_t label, std::int64_t prediction);
  // Over the classes that were a label or were predicted (torchmetrics' rule); there must be one.
  double Mean() const;

 private:
  std::map<std::int64_t, std::int64_t> hits_, misses_, false_alarms_;
};

// The same for each batch of kMacroBatch samples, averaged over samples (MAD's figure).
class BatchedClassRecall {
 public:
  void BeginSample();
  void Add(std::int64_t label, std::int64_t prediction) { batch_.Add(label, prediction); }
  double Mean() const;  // there must be a sample, and each must have a position

 private:
  double BatchSum() const;  // of the batch at hand: its recall times its samples

  ClassRecall batch_;
  std::int64_t batch_size_ = 0;
  double full_batches_sum_ = 0;  // BatchSum() of those before
  std::int64_t num_samples_ = 0;
};

}  // namespace mixerbench::reports
