// SPDX-License-Identifier: Apache-2.0
#include "harness/trainer.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "base/check.h"
#include "harness/device.h"

namespace mixerbench::harness {
namespace {

tasks::LabelMode ToLabelMode(LossMode mode) {
  switch (mode) {
    case LossMode::kScored:
      return tasks::LabelMode::kScored;
    case LossMode::kAllTokens:
      return tasks::LabelMode::kAllTokens;
    case LossMode::kTargetOnly:
      return tasks::LabelMode::kTargetOnly;
  }
  Require(false, "a loss mode without label mode");
  return tasks::LabelMode::kScored;
}

}  // namespace

Trainer::Trainer(const Cell& cell, const Model& model, at::Device device,
                 const Registries& registries)
    : cell_(cell),
      model_(model),
      sources_(MakeSources(cell.task, cell.task.train, cell.seed, tasks::Split::kTrain, device,
                           registries)),
      optimizer_(model.parameters->parameters(), cell.train),
      dropout_generator_(MakeGenerator(device, 0)) {
  steps_per_epoch_ = cell.train.steps_per_epoch;
  if (steps_per_epoch_ > 0) return;
  for (const SegmentSource& source : sources_) {
    steps_per_epoch_ += (source.size() + cell.train.batch_size - 1) / cell.train.batch_size;
  }
}

std::int64_t Trainer::num_steps() const {
  const std::int64_t all = steps_per_epoch_ * cell_.train.num_epochs;
  return cell_.train.max_steps > 0 ? std::min(all, cell_.train.max_steps) : all;
}

std::int64_t Trainer::max_seq_len() const {
  std::int64_t longest = 0;
  for (const auto& source : sources_) longest = std::max(longest, source.task().shape().seq_len);
  return longest;
}

void Trainer::BeginEpoch(std::int64_t epoch) {
  const TrainConfig& config = cell_.train;
  learning_rate_ = LearningRate(config, epoch);
  optimizer_.SetLearningRate(learning_rate_);
  orders_.clear();
  if (config.steps_per_epoch > 0) {  // online: fresh samples for every step, segments in turn
    const auto num_segments = static_cast<std::int64_t>(sources_.size());
    orders_.resize(sources_.size());
    batches_.clear();
    for (std::int64_t i = 0; i < steps_per_epoch_; ++i) {
      const std::int64_t step = epoch * steps_per_epoch_ + i;
      batches_.push_back({static_cast<std::size_t>(step % num_segments),
                          static_cast<std::uint64_t>(step / num_segments * config.batch_size),
                          config.batch_size});
    }
    return;
  }
  std::vector<std::int64_t> sizes;
  for (const SegmentSource& source : sources_) {
    sizes.push_back(source.size());
    orders_.push_back(EpochOrder(source.size(), config.batch_order, cell_.seed, epoch));
  }
  batches_ = EpochBatches(sizes, config.batch_size, config.batch_order, cell_.seed, epoch);
}

std::int64_t Trainer::BatchTokens(std::int64_t index) const {
  const BatchSlot& slot = batches_.at(static_cast<std::size_t>(index));
  return slot.count * sources_[slot.segment].task().shape().seq_len;
}

at::Tensor Trainer::Step(std::int64_t index, std::int64_t step) {
  const BatchSlot& slot = batches_.at(static_cast<std::size_t>(index));
  const Batch batch = sources_[slot.segment].Generate(slot.first, slot.count, orders_[slot.segment],
                                                      ToLabelMode(cell_.train.loss_mode));
  const ScoredPositions scored = FindScored(batch.labels);
  Require(scored.positions.numel() > 0, "batch has no scored positions");
  dropout_generator_.set_current_seed(
      DeriveSeed(cell_.seed, "dropout", static_cast<std::uint64_t>(step)));
  optimizer_.ZeroGrad();
  auto output = model_.backbone->Forward(
      batch.inputs,
      {.compute_dtype = ComputeDtype(cell_.train.dtype), .generator = dropout_generator_});
  const at::Tensor hidden = output.hidden.flatten(0, 1).index_select(0, scored.positions);
  const at::Tensor logits = model_.backbone->Logits(hidden).to(at::kFloat);
  const at::Tensor loss = at::cross_entropy_loss(logits, scored.targets);
  (output.auxiliary_loss.defined() ? loss + output.auxiliary_loss : loss).backward();
  optimizer_.Step();
  return loss.detach();
}

}  // namespace mixerbench::harness
