// SPDX-License-Identifier: Apache-2.0
#include "harness/training/trainer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "harness/device/device.h"
#include "harness/device/step_kernels.h"
#include "harness/python/host.h"
#include "harness/training/token_weights.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/runtime/seed_generator.h"

namespace mixerbench::harness {
namespace {

// Losses stay on the device for so many steps; the host looks at them one interval later.
constexpr std::int64_t kLossInterval = 50;

// Orders of more samples than this (8 bytes each) are not listed: a step then draws its own part.
constexpr std::int64_t kMaxListedOrder = std::int64_t{1} << 22;

// How often the weight of all tokens falls by e in a weighted run: SILA's saw 15 times 10^9 tokens.
constexpr double kFadesOfRun = 15;

// A record is five 8-byte words; the last two floats of it are read as tensors.
constexpr std::int64_t kRecordWords = sizeof(StepRecord) / sizeof(std::int64_t);
static_assert(std::is_trivially_copyable_v<StepRecord> && sizeof(StepRecord) == 40);
static_assert(offsetof(StepRecord, cursor) == 0);
constexpr std::int64_t kLearningRateFloat = offsetof(StepRecord, learning_rate) / sizeof(float);
constexpr std::int64_t kStepFloat = offsetof(StepRecord, step) / sizeof(float);

}  // namespace

tasks::LabelMode ToLabelMode(LossMode mode) {
  switch (mode) {
    case LossMode::kScored:
      return tasks::LabelMode::kScored;
    case LossMode::kAllTokens:
    case LossMode::kWeighted:
      return tasks::LabelMode::kAllTokens;
    case LossMode::kTargetOnly:
      return tasks::LabelMode::kTargetOnly;
  }
  Require(false, "a loss mode without label mode");
  return tasks::LabelMode::kScored;
}

std::vector<tasks::TaskSamples> SamplesSeen(const Cell& cell,
                                            const std::vector<SegmentSource>& sources,
                                            std::int64_t num_steps) {
  const std::int64_t num_segments = std::ssize(sources);
  std::vector<tasks::TaskSamples> seen;
  for (const SegmentSource& source : sources) {
    tasks::TaskSamples samples = source.samples();
    if (cell.train.steps_per_epoch > 0) {  // online: the segments in turn
      const std::int64_t later = num_segments - 1 - std::ssize(seen);
      samples.count = (num_steps + later) / num_segments * cell.train.batch_size;
    }
    seen.push_back(samples);
  }
  return seen;
}

std::int64_t LongestInput(const std::vector<SegmentSource>& sources) {
  std::int64_t longest = 0;
  for (const SegmentSource& source : sources) {
    longest = std::max(longest, source.task().shape().seq_len);
  }
  return longest;
}

Trainer::Trainer(const Cell& cell, const Model& model, GraphContext& graphs,
                 const Registries& registries)
    : cell_(cell),
      model_(model),
      graphs_(graphs),
      label_mode_(ToLabelMode(cell.train.loss_mode)),
      sources_(MakeSources(cell.task, cell.task.train, cell.seed, tasks::Split::kTrain,
                           graphs.device(), registries)),
      optimizer_(model.parameters->parameters(), cell.train),
      loss_weights_(LossWeightsOf(*model.backbone, cell.train)),
      losses_(graphs.device(), kLossInterval, 1 + std::ssize(loss_weights_)),
      window_(graphs.device()),
      steps_(CountSteps(cell.task, cell.train)) {
  const auto words = at::TensorOptions().dtype(at::kLong).device(graphs.device());
  for (std::size_t segment = 0; segment < sources_.size(); ++segment) {
    const bool is_listed =
        graphs.device().is_cuda() && sources_[segment].generator().generates_in_place() &&
        OrderOf(segment, 0).size > 0 && sources_[segment].size() <= kMaxListedOrder;
    orders_.push_back(is_listed ? at::empty({sources_[segment].size()}, words) : at::Tensor());
  }
  records_ = at::empty({steps_.per_epoch + 1, kRecordWords}, words);
  current_record_ = at::empty({kRecordWords}, words);
  next_record_ = at::empty({}, words);
  mask_seeds_ = at::empty({kMaskSeeds}, words);
  loss_gradient_ = at::ones({}, words.dtype(at::kFloat));
  const at::Tensor floats = current_record_.view(at::kFloat);
  current_lr_ = floats.select(0, kLearningRateFloat);
  current_step_ = floats.select(0, kStepFloat);
}

std::vector<PhaseWork> Trainer::work() const {
  std::vector<PhaseWork> all;
  for (const auto& [key, shape] : shapes_) {
    all.push_back(
        {"train_step", shape.count, shape.source->task().shape().seq_len, shape.work.get()});
  }
  return all;
}

void Trainer::BeginEpoch(std::int64_t epoch, std::int64_t first_batch) {
  const TrainConfig& config = cell_.train;
  epoch_ = epoch;
  next_batch_ = static_cast<std::size_t>(first_batch);
  step_ = epoch * steps_.per_epoch + first_batch;
  if (config.steps_per_epoch > 0) {  // online: fresh samples for every step, segments in turn
    const auto num_segments = static_cast<std::int64_t>(sources_.size());
    batches_.clear();
    for (std::int64_t i = 0; i < steps_.per_epoch; ++i) {
      const std::int64_t step = epoch * steps_.per_epoch + i;
      batches_.push_back({static_cast<std::size_t>(step % num_segments),
                          static_cast<std::uint64_t>(step / num_segments * config.batch_size),
                          config.batch_size});
    }
  } else {
    std::vector<std::int64_t> sizes;
    for (const SegmentSource& source : sources_) sizes.push_back(source.size());
    batches_ = EpochBatches(sizes, config, cell_.seed, epoch);
  }
  WriteRecords(epoch, first_batch);
  ListOrders(epoch);
}

tasks::SampleOrder Trainer::OrderOf(std::size_t segment, std::int64_t epoch) const {
  if (cell_.train.steps_per_epoch > 0) return {};
  return EpochOrder(sources_[segment].size(), cell_.train.batch_order, cell_.seed, epoch);
}

void Trainer::ListOrders(std::int64_t epoch) {
  for (std::size_t segment = 0; segment < sources_.size(); ++segment) {
    const at::Tensor& list = orders_[segment];
    if (!list.defined()) continue;
    CheckCuda(QueueListOrder(OrderOf(segment, epoch),
                             static_cast<std::uint64_t*>(list.mutable_data_ptr()),
                             CurrentStream(list.device())),
              "listing the order of an epoch");
  }
}

void Trainer::WriteRecords(std::int64_t epoch, std::int64_t first_batch) {
  std::vector<StepRecord> records;
  for (std::int64_t i = first_batch; i < steps_.per_epoch; ++i) {
    const std::int64_t step = epoch * steps_.per_epoch + i;
    records.push_back(
        {.cursor = {.first = batches_[static_cast<std::size_t>(i)].first,
                    .epoch = static_cast<std::uint64_t>(epoch)},
         .loss_slot = losses_.SlotOf(step),
         .dropout_seed = DeriveSeed(cell_.seed, "dropout", static_cast<std::uint64_t>(step)),
         .learning_rate = static_cast<float>(LearningRate(cell_.train, steps_, step)),
         .step = static_cast<float>(step + 1)});
  }
  records.emplace_back();  // what the last step moves on to
  const auto num_records = static_cast<std::int64_t>(records.size());
  at::Tensor host = at::empty({num_records, kRecordWords}, at::kLong);
  std::memcpy(host.data_ptr(), records.data(), records.size() * sizeof(StepRecord));
  records_.narrow(0, 0, num_records).copy_(host);
  current_record_.copy_(host[0]);
  next_record_.fill_(1);
  const at::Tensor seeds = at::empty({kMaskSeeds}, at::kLong);
  FillMaskSeeds(records[0].dropout_seed, static_cast<std::uint64_t*>(seeds.mutable_data_ptr()));
  mask_seeds_.copy_(seeds);
}

Trainer::Shape& Trainer::ShapeOf(const BatchSlot& slot) {
  const auto [found, is_new] = shapes_.try_emplace({slot.segment, slot.count});
  Shape& shape = found->second;
  if (!is_new) return shape;
  shape.source = &sources_[slot.segment];
  shape.order = OrderOf(slot.segment, /*epoch=*/0);
  if (const at::Tensor& list = orders_[slot.segment]; list.defined()) {
    shape.order.list = static_cast<const std::uint64_t*>(list.const_data_ptr());
  }
  shape.count = slot.count;
  if (!shape.source->generator().generates_in_place()) {
    shape.host_made = Allocate(*shape.source, slot.count);
  }
  shape.work = std::make_unique<RepeatedWork>(graphs_, [this, &shape] { RunStep(shape); });
  return shape;
}

tasks::BatchRequest Trainer::Request(const Shape& shape) const {
  return shape.source->WithKey({.count = shape.count, .order = shape.order, .mode = label_mode_});
}

Batch Trainer::Allocate(const SegmentSource& source, std::int64_t count) const {
  Batch batch = source.generator().Allocate(count);
  if (cell_.train.loss_mode == LossMode::kWeighted) batch.answers = at::empty_like(batch.labels);
  return batch;
}

void Trainer::Generate(const SegmentSource& source, tasks::BatchRequest request,
                       const Batch& batch) const {
  source.generator().Generate(request, batch);
  if (!batch.answers.defined()) return;
  request.mode = tasks::LabelMode::kScored;
  source.generator().Generate(request, {batch.inputs, batch.answers});
}

Batch Trainer::NextBatch() const {
  const BatchSlot& slot = batches_.at(next_batch_);
  const SegmentSource& source = sources_[slot.segment];
  Batch batch = Allocate(source, slot.count);
  Generate(source,
           source.WithKey({.first = slot.first,
                           .count = slot.count,
                           .order = OrderOf(slot.segment, epoch_),
                           .mode = label_mode_}),
           batch);
  return batch;
}

ScoredRows Trainer::Score(const Batch& batch) const {
  return Score(batch, sources_[batches_.at(next_batch_).segment].task().shape());
}

ScoredRows Trainer::Score(const Batch& batch, const tasks::TaskShape& shape) const {
  ScoredRows scored = ListScored(batch.labels, MaxScored(shape, label_mode_));
  if (!batch.answers.defined()) return scored;
  const double fade_steps = cell_.train.loss_fade_steps > 0
                                ? cell_.train.loss_fade_steps
                                : static_cast<double>(steps_.total) / kFadesOfRun;
  const at::Tensor distances = AnswerDistances(
      batch.inputs, ListScored(batch.answers, MaxScored(shape, tasks::LabelMode::kScored)));
  const at::Tensor weights =
      TokenWeights(distances, cell_.train.loss_distance_weight, (current_step_ - 1) / fade_steps);
  scored.weights = weights.flatten().index_select(0, scored.rows.positions);
  return scored;
}

void Trainer::Step() {
  const ProfileRange range("step");
  const BatchSlot& slot = batches_.at(next_batch_);
  Shape& shape = ShapeOf(slot);
  if (shape.host_made.inputs.defined()) {
    tasks::BatchRequest request = Request(shape);
    request.first = slot.first;
    request.order.epoch = static_cast<std::uint64_t>(epoch_);
    Generate(*shape.source, request, shape.host_made);
  }
  optimizer_.RefreshShadowWeights();
  shape.work->Run(DeriveSeed(cell_.seed, "torch", static_cast<std::uint64_t>(step_)));
  window_.Advance();
  last_batch_tokens_ = slot.count * shape.source->task().shape().seq_len;
  ++next_batch_;
  ++step_;
}

double Trainer::learning_rate() const {
  return LearningRate(cell_.train, steps_, std::max<std::int64_t>(step_ - 1, 0));
}

LossWeights LossWeightsOf(const models::Backbone& backbone, const TrainConfig& config) {
  LossWeights weights = backbone.losses();
  for (auto& [name, weight] : weights) {
    if (const Value* chosen = config.auxiliary_losses.Find(name)) weight = chosen->as_double();
  }
  return weights;
}

StepLoss ForwardLoss(const models::Backbone& backbone, const at::Tensor& inputs,
                     const ScoredRows& scored, models::BackboneOptions options,
                     const LossWeights& weights) {
  options.scored = &scored.rows;
  const auto output = InRange("forward", [&] { return backbone.Forward(inputs, options); });
  StepLoss step{.hidden = output.hidden, .loss = {}, .total = {}, .components = {}};
  step.loss = InRange("loss", [&] {
    const models::Head& head = output.head;
    return kernels::LinearCrossEntropy(output.hidden, head.weight, head.bias, scored.targets,
                                       options.path, head.narrow, scored.weights);
  });
  step.total = step.loss;
  step.components = step.loss.detach().view(1);
  if (weights.empty()) return step;
  std::vector<at::Tensor> components = {step.loss.detach().to(at::kFloat)};
  for (const auto& [name, weight] : weights) {
    const at::Tensor& value = output.losses.at(name);
    step.total = step.total + weight * value;
    components.push_back(value.detach().to(at::kFloat));
  }
  step.components = at::stack(components);
  return step;
}

StepLoss Trainer::Differentiate(const at::Tensor& inputs, const ScoredRows& scored) {
  optimizer_.ZeroGrad();
  const AdamW::ShadowScope shadow_weights(optimizer_);
  StepLoss step = ForwardLoss(*model_.backbone, inputs, scored,
                              {.compute_dtype = ComputeDtype(cell_.train.dtype),
                               .generator = kernels::SeedGenerator(mask_seeds_)},
                              loss_weights_);
  InRange("backward", [&] { Backward(step.total, loss_gradient_); });
  return step;
}

// Everything a graph holds. Nothing here may depend on the step but through device memory.
void Trainer::RunStep(const Shape& shape) {
  auto* record = reinterpret_cast<StepRecord*>(current_record_.data_ptr());
  Batch batch = shape.host_made;
  const ScoredRows scored = InRange("sampling", [&] {
    if (!batch.inputs.defined()) {
      tasks::BatchRequest request = Request(shape);
      request.cursor = &record->cursor;
      batch = Allocate(*shape.source, shape.count);
      Generate(*shape.source, request, batch);
    }
    return Score(batch, shape.source->task().shape());
  });
  const at::Tensor losses = Differentiate(batch.inputs, scored).components;
  InRange("optimizer", [&] { optimizer_.Step(current_lr_, current_step_); });

  const StepState state{static_cast<const StepRecord*>(records_.const_data_ptr()),
                        record,
                        static_cast<std::uint64_t*>(next_record_.data_ptr()),
                        losses_.slots(),
                        static_cast<std::uint64_t*>(mask_seeds_.data_ptr()),
                        static_cast<int>(losses_.num_losses())};
  const float* values = losses.const_data_ptr<float>();
  if (losses.is_cuda()) {
    CheckCuda(QueueFinishStep(state, values, CurrentStream(losses.device())), "finishing a step");
  } else {
    FinishStep(state, values);
  }
}

}  // namespace mixerbench::harness
