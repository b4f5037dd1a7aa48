// The training step: sample, forward, loss on the labelled positions, backward, update.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "harness/batch.h"
#include "harness/data.h"
#include "harness/model.h"
#include "harness/optimizer.h"

namespace mixerbench::harness {

class Trainer {
 public:
  // The model must outlive the trainer.
  Trainer(const Cell& cell, const Model& model, at::Device device, const Registries& registries);

  // Number of optimiser steps in an epoch and in the whole run.
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t num_steps() const;

  // Plans the epoch's batches and sets its learning rate.
  void BeginEpoch(std::int64_t epoch);

  // One optimiser step on batch `index` of the epoch. Returns the mean cross-entropy as a scalar on
  // the device; nothing waits for it. `step` counts from 0 over the whole run and keys the dropout.
  at::Tensor Step(std::int64_t index, std::int64_t step);

  double learning_rate() const { return learning_rate_; }
  // Longest training input.
  std::int64_t max_seq_len() const;
  // Input tokens of the batches of this epoch up to and including `index`.
  std::int64_t BatchTokens(std::int64_t index) const;

 private:
  const Cell& cell_;
  const Model& model_;
  std::vector<SegmentSource> sources_;
  AdamW optimizer_;
  at::Generator dropout_generator_;
  std::int64_t steps_per_epoch_ = 0;
  std::vector<BatchSlot> batches_;
  std::vector<tasks::SampleOrder> orders_;
  double learning_rate_ = 0;
};

}  // namespace mixerbench::harness
