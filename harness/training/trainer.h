// The training step: sample, forward, loss on the scored positions, backward, update. On a GPU the
// whole step is one graph for each shape of batch, and what differs between steps of a shape (which
// samples, learning rate, step count) lies in device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/plans.h"
#include "harness/suite/data.h"
#include "harness/suite/step_count.h"
#include "harness/training/batch.h"
#include "harness/training/loss_ring.h"
#include "harness/training/model.h"
#include "harness/training/optimizer.h"

namespace mixerbench::harness {

tasks::LabelMode ToLabelMode(LossMode mode);

// Weights of the auxiliary losses of a backbone: those of the configuration, else those that its
// mixers give. Names of the configuration that the backbone does not have are not looked at.
using LossWeights = std::map<std::string, double>;
LossWeights LossWeightsOf(const models::Backbone& backbone, const TrainConfig& config);

// What a training step minimises.
struct StepLoss {
  at::Tensor hidden;      // at the entries of ScoredRows, [N,D]
  at::Tensor loss;        // mean cross-entropy over the scored positions: fp32 (fp64) scalar
  at::Tensor total;       // with the auxiliary losses, each times its weight
  at::Tensor components;  // fp32 [1 + auxiliary losses], without gradient: loss, then these in the
                          // order of their names, without weights
};
StepLoss ForwardLoss(const models::Backbone& backbone, const at::Tensor& inputs,
                     const ScoredRows& scored, models::BackboneOptions options,
                     const LossWeights& weights);

// The samples of each training segment that `num_steps` steps see: a finite set counts whole.
// `sources` are those segments, and must outlive what is returned.
std::vector<tasks::TaskSamples> SamplesSeen(const Cell& cell,
                                            const std::vector<SegmentSource>& sources,
                                            std::int64_t num_steps);

// Longest input of these segments.
std::int64_t LongestInput(const std::vector<SegmentSource>& sources);

class Trainer {
 public:
  // `cell`, `model` and `graphs` must outlive the trainer.
  Trainer(const Cell& cell, const Model& model, GraphContext& graphs, const Registries& registries);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Number of optimiser steps in an epoch and in the whole run.
  std::int64_t steps_per_epoch() const { return steps_.per_epoch; }
  std::int64_t num_steps() const { return steps_.total; }

  // Plans the epoch's batches and sends what its steps need to the device. Continues with batch
  // `first_batch` of the epoch.
  void BeginEpoch(std::int64_t epoch, std::int64_t first_batch = 0);

  // Queues the next optimiser step of the epoch; waits only for steps long before it. Its losses
  // (StepLoss::components) go to losses().
  void Step();

  // The batch of the next step, what of it (or of some of its sequences) is scored, and the forward
  // and backward pass of a step on that, which leaves gradients with the parameters. For whoever
  // checks what Step does; changes no state of a run.
  Batch NextBatch() const;
  ScoredRows Score(const Batch& batch) const;
  StepLoss Differentiate(const at::Tensor& inputs, const ScoredRows& scored);
  const at::Tensor& mask_seeds() const { return mask_seeds_; }  // of the next step's dropout

  // Steps queued since the start of the run.
  std::int64_t step() const { return step_; }
  // Input tokens of the batch of the last step.
  std::int64_t last_batch_tokens() const { return last_batch_tokens_; }

  LossRing& losses() { return losses_; }
  AdamW& optimizer() { return optimizer_; }
  // Of the last step.
  double learning_rate() const;
  // Names of the auxiliary losses, with weights.
  const LossWeights& loss_weights() const { return loss_weights_; }
  // What ran so far, one for each shape of batch.
  std::vector<PhaseWork> work() const;
  // Longest training input.
  std::int64_t max_seq_len() const { return LongestInput(sources_); }
  const std::vector<SegmentSource>& sources() const { return sources_; }  // of training samples

 private:
  // All batches of one segment with the same number of samples.
  struct Shape {
    const SegmentSource* source;
    tasks::SampleOrder order;  // its epoch is the current record's
    std::int64_t count;
    Batch host_made;  // undefined when the samples are generated in the step itself
    std::unique_ptr<RepeatedWork> work;
  };

  Shape& ShapeOf(const BatchSlot& slot);
  tasks::BatchRequest Request(const Shape& shape) const;
  Batch Allocate(const SegmentSource& source, std::int64_t count) const;
  // Fills `batch`, which holds request.count samples.
  void Generate(const SegmentSource& source, tasks::BatchRequest request, const Batch& batch) const;
  ScoredRows Score(const Batch& batch, const tasks::TaskShape& shape) const;
  void RunStep(const Shape& shape);
  void WriteRecords(std::int64_t epoch, std::int64_t first_batch);
  // The order of a segment in an epoch; {} online.
  tasks::SampleOrder OrderOf(std::size_t segment, std::int64_t epoch) const;
  void ListOrders(std::int64_t epoch);

  const Cell& cell_;
  const Model& model_;
  GraphContext& graphs_;
  tasks::LabelMode label_mode_;
  std::vector<SegmentSource> sources_;
  AdamW optimizer_;
  LossWeights loss_weights_;
  LossRing losses_;
  LaunchWindow window_;
  StepCount steps_;
  std::int64_t step_ = 0;
  std::int64_t epoch_ = 0;
  std::size_t next_batch_ = 0;
  std::int64_t last_batch_tokens_ = 0;
  std::vector<BatchSlot> batches_;
  std::vector<at::Tensor> orders_;  // int64 [size] of each segment, on the device; or undefined
  at::Tensor records_;              // StepRecord [steps_.per_epoch + 1], on the device
  at::Tensor current_record_;       // StepRecord
  at::Tensor next_record_;          // int64 scalar
  at::Tensor current_lr_;           // fp32 scalar inside current_record_
  at::Tensor current_step_;         // fp32 scalar inside current_record_
  at::Tensor mask_seeds_;           // int64 [kMaskSeeds], of the current record
  at::Tensor loss_gradient_;        // 1, fp32 scalar: autograd would write one in every step
  std::map<std::pair<std::size_t, std::int64_t>, Shape> shapes_;
};

}  // namespace mixerbench::harness
