// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/timed_pass.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "harness/cells/parity.h"
#include "harness/cells/reference_pass.h"
#include "harness/device/device.h"
#include "harness/python/host.h"
#include "harness/suite/data.h"
#include "harness/training/trainer.h"

namespace mixerbench::harness {
namespace {

void DropGradients(const Model& model) {
  for (const auto& parameter : model.parameters->parameters()) {
    parameter.tensor.mutable_grad().reset();
  }
}

// Takes the gradients away from the parameters.
void TakeGradients(const Model& model, Quantities& quantities) {
  for (const auto& parameter : model.parameters->parameters()) {
    const at::Tensor& gradient = parameter.tensor.grad();
    quantities.emplace_back("d " + parameter.name, gradient.defined()
                                                       ? gradient
                                                       : at::zeros_like(parameter.tensor.detach()));
  }
  DropGradients(model);
}

class BackbonePass final : public TimedPass {
 public:
  BackbonePass(const PassContext& context, std::int64_t seq_len, bool has_backward)
      : context_(context),
        has_backward_(has_backward),
        tokens_(RandomTokens(context, seq_len)),
        work_(context.graphs,
              [this] { Forward(context_.model, tokens_, TimedOptions(context_), gradient_); }) {
    if (has_backward) gradient_ = RandomGradient();
  }
  ~BackbonePass() override { DropGradients(context_.model); }
  BackbonePass(const BackbonePass&) = delete;
  BackbonePass& operator=(const BackbonePass&) = delete;

  void Run() override { work_.Run(); }
  const RepeatedWork& work() const override { return work_; }

  reports::Parity CompareWithReference() override {
    const ParitySample sample = SampleOf(context_, tokens_.size(0), tokens_.size(1));
    at::Tensor gradient;  // of the sample alone
    if (has_backward_) {
      gradient = at::zeros_like(gradient_);
      Part(gradient, sample).copy_(Part(gradient_, sample));
    }
    const kernels::PlanRecorder recorder;
    Quantities timed = Evaluate(context_.model, tokens_, TimedOptions(context_), gradient);
    RequireSamePlans(work_, recorder);
    timed.front().second = Part(timed.front().second, sample);

    const at::Tensor tokens = Part(tokens_, sample);
    if (has_backward_) gradient = Part(gradient, sample);
    const auto evaluate = [&](const Model& model, const models::BackboneOptions& options) {
      return Evaluate(model, tokens, options, gradient);
    };
    const std::vector<Quantities> naive = NaiveQuantities(context_, evaluate);
    const Quantities exact = ExactQuantities(context_, evaluate);
    return Describe(Compare(timed, naive, exact, context_.cell.train.dtype), sample,
                    has_backward_ ? "forward, backward" : "forward");
  }

 private:
  // x [B,T,...] -> its part in the sample.
  static at::Tensor Part(const at::Tensor& x, const ParitySample& sample) {
    return x.narrow(0, 0, sample.num_sequences).narrow(1, 0, sample.num_tokens);
  }

  // The hidden states. `gradient` of them, undefined: forward pass alone.
  static at::Tensor Forward(const Model& model, const at::Tensor& tokens,
                            const models::BackboneOptions& options, const at::Tensor& gradient) {
    const at::AutoGradMode mode(gradient.defined());
    DropGradients(model);
    const at::Tensor hidden = model.backbone->Forward(tokens, options).hidden;
    if (gradient.defined()) Backward(hidden, gradient.to(hidden.scalar_type()));
    return hidden.detach();
  }

  static Quantities Evaluate(const Model& model, const at::Tensor& tokens,
                             const models::BackboneOptions& options, const at::Tensor& gradient) {
    Quantities quantities = {{"hidden", Forward(model, tokens, options, gradient)}};
    if (gradient.defined()) TakeGradients(model, quantities);
    return quantities;
  }

  // Of the hidden states, in their dtype: the timed backward pass converts nothing.
  at::Tensor RandomGradient() const {
    const at::NoGradGuard no_grad;
    const at::Tensor hidden =
        context_.model.backbone->Forward(tokens_, TimedOptions(context_)).hidden;
    at::Generator generator =
        MakeGenerator(hidden.device(), DeriveSeed(context_.cell.seed, "throughput gradient"));
    return at::empty_like(hidden).normal_(0, 1, generator);
  }

  const PassContext& context_;
  bool has_backward_;
  at::Tensor tokens_;    // [B,T]
  at::Tensor gradient_;  // [B,T,D]; undefined without backward pass
  RepeatedWork work_;
};

// A step is always of one shape here: one segment, no short batch at the end of an epoch. What
// reaches over a whole training, stages and a warm-up, is of no cost and may not fit this short
// one.
Cell OfFullBatches(Cell cell) {
  cell.train.warmup_steps = 0;
  if (cell.train.batch_order == BatchOrder::kStages) {
    cell.train.batch_order = BatchOrder::kShuffleExamples;
  }
  cell.task.train.resize(1);
  Segment& segment = cell.task.train.front();
  const std::int64_t batch_size = cell.train.batch_size;
  if (cell.train.steps_per_epoch == 0) {
    segment.num_examples =
        std::max<std::int64_t>(segment.num_examples / batch_size, 1) * batch_size;
  }
  return cell;
}

class TrainStep final : public TimedPass {
 public:
  explicit TrainStep(const PassContext& context)
      : context_(context),
        cell_(OfFullBatches(context.cell)),
        trainer_(cell_, context.model, context.graphs, context.registries) {}
  ~TrainStep() override { DropGradients(context_.model); }
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  void Run() override {
    BeginEpochIfDue();
    trainer_.Step();
  }

  const RepeatedWork& work() const override { return *trainer_.work().front().work; }

  // The labels of all other sequences are ignored, which changes no shape. Sequences are the first
  // ones, so that they drop out what they drop out in the whole batch, and have all their tokens:
  // answers may come late.
  reports::Parity CompareWithReference() override {
    BeginEpochIfDue();
    const Batch batch = trainer_.NextBatch();
    ParitySample sample = SampleOf(context_, batch.inputs.size(0), batch.inputs.size(1));
    sample.num_tokens = batch.inputs.size(1);
    const std::int64_t num_others = batch.inputs.size(0) - sample.num_sequences;
    batch.labels.narrow(0, sample.num_sequences, num_others).fill_(tasks::kIgnore);

    const ScoredRows scored = trainer_.Score(batch);
    const kernels::PlanRecorder recorder;
    Quantities timed = Outputs(trainer_.Differentiate(batch.inputs, scored), scored);
    RequireSamePlans(work(), recorder);
    TakeGradients(context_.model, timed);

    const auto first = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(0, 0, sample.num_sequences).contiguous() : x;
    };
    const Batch part{first(batch.inputs), first(batch.labels), first(batch.answers)};
    const at::Tensor inputs = part.inputs;
    const ScoredRows few = trainer_.Score(part);
    const auto evaluate = [&](const Model& model, const models::BackboneOptions& options) {
      return Evaluate(model, inputs, few, options);
    };
    const std::vector<Quantities> naive = NaiveQuantities(context_, evaluate);
    const Quantities exact = ExactQuantities(context_, evaluate);
    return Describe(Compare(timed, naive, exact, cell_.train.dtype), sample, "forward, backward");
  }

 private:
  void BeginEpochIfDue() {
    const std::int64_t step = trainer_.step();
    if (step % trainer_.steps_per_epoch() == 0)
      trainer_.BeginEpoch(step / trainer_.steps_per_epoch());
  }

  static Quantities Outputs(const StepLoss& step, const ScoredRows& scored) {
    const at::Tensor entries = scored.targets.ne(tasks::kIgnore).nonzero().squeeze(1);
    return {{"hidden", step.hidden.detach().index_select(0, entries)},
            {"loss", step.total.detach()}};
  }

  Quantities Evaluate(const Model& model, const at::Tensor& inputs, const ScoredRows& scored,
                      models::BackboneOptions options) const {
    DropGradients(model);
    options.generator = kernels::SeedGenerator(trainer_.mask_seeds());
    const StepLoss step =
        ForwardLoss(*model.backbone, inputs, scored, options, trainer_.loss_weights());
    Backward(step.total);
    Quantities quantities = Outputs(step, scored);
    TakeGradients(model, quantities);
    return quantities;
  }

  const PassContext& context_;
  const Cell cell_;
  Trainer trainer_;
};

}  // namespace

at::Tensor RandomTokens(const PassContext& context, std::int64_t seq_len) {
  at::Generator generator = MakeGenerator(at::kCPU, DeriveSeed(context.cell.seed, "throughput"));
  return at::empty({context.cell.throughput.batch_size, seq_len}, at::kInt)
      .random_(0, context.cell.task.vocab_size, generator)
      .to(context.graphs.device());
}

models::BackboneOptions TimedOptions(const PassContext& context) {
  return {.compute_dtype = ComputeDtype(context.cell.train.dtype)};
}

std::unique_ptr<TimedPass> MakeBackbonePass(const PassContext& context, std::int64_t seq_len,
                                            bool has_backward) {
  return std::make_unique<BackbonePass>(context, seq_len, has_backward);
}

std::unique_ptr<TimedPass> MakeTrainStep(const PassContext& context) {
  return std::make_unique<TrainStep>(context);
}

}  // namespace mixerbench::harness
