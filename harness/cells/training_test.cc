// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "harness/cells/train.h"
#include "harness/device/device.h"
#include "harness/evaluation/evaluate.h"
#include "harness/evaluation/score.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/suite/data.h"
#include "harness/suite/suite.h"
#include "harness/training/batch.h"
#include "harness/training/optimizer.h"
#include "harness/training/trainer.h"
#include "io/json.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

// AdamW in fp32 differs from the same steps in fp64 by a few rounding errors per step.
constexpr double kFp32Steps = 1e-6;
// Pieces split the sums of attention differently.
constexpr double kPieces = 1e-5;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// A cell that one core trains in about a second.
Cell TinyCell(const std::string& mixer, std::vector<std::pair<std::string, std::string>> set = {}) {
  SuiteOverrides overrides;
  overrides.set = {{"model.sequence_mixer.name", mixer}};
  overrides.set.insert(overrides.set.end(), set.begin(), set.end());
  return ParseSuite(R"({"name": "tiny",
      "task": {"name": "mqar", "vocab_size": 16, "noise": "zero", "input_seq_len": 8,
               "num_kv_pairs": 1, "train": {"num_examples": 256},
               "validation": {"num_examples": 64}, "test": {"num_examples": 100}},
      "model": {"d_model": 32, "n_layers": 2},
      "train": {"lr": 0.005, "batch_size": 32, "num_epochs": 20, "early_stop_accuracy": 0}})",
                    overrides, AllRegistries())
      .cells.at(0);
}

reports::CellResult Run(const Cell& cell, const RunControl& control = {}) {
  return RunTrainCell(cell, at::kCPU, AllRegistries(), control, [](const Progress&) {});
}

TEST_CASE("schedule: zoology's cosine over epochs") {
  TrainConfig config;
  config.lr = 1e-2;
  config.num_epochs = 64;
  const StepCount steps{.per_epoch = 3, .total = 64 * 3};
  const auto rate = [&](std::int64_t epoch) { return LearningRate(config, steps, 3 * epoch); };
  // Values of torch.optim.lr_scheduler.CosineAnnealingLR, as zoology steps it.
  CHECK(rate(0) == Approx(1e-2).epsilon(1e-12));
  CHECK(rate(1) == Approx(9.993977e-3).epsilon(1e-6));
  CHECK(rate(32) == Approx(5e-3).epsilon(1e-12));
  CHECK(rate(63) == Approx(6.0227e-6).epsilon(1e-4));
  CHECK(LearningRate(config, steps, 3 * 63 + 2) == rate(63));
  config.schedule = Schedule::kConstant;
  CHECK(rate(63) == 1e-2);
}

// A model that learns nothing: what falls is the weight of all tokens alike.
TEST_CASE("training: weights of a weighted loss fade over a 15th of the run or as asked") {
  const auto losses = [](const char* loss_mode,
                         std::vector<std::pair<std::string, std::string>> set) {
    set.insert(set.end(), {{"train.loss_mode", loss_mode},
                           {"train.lr", "1e-12"},
                           {"train.num_epochs", "30"},
                           {"task.train.num_examples", "32"}});
    std::vector<double> found;
    for (const auto& point : Run(TinyCell("attention", std::move(set))).learning_curve) {
      found.push_back(point.train_loss);
    }
    return found;
  };
  const auto all = losses("all_tokens", {});
  const auto faded = losses("weighted", {{"train.loss_distance_weight", "1e-12"}});
  const auto slow = losses(
      "weighted", {{"train.loss_distance_weight", "1e-12"}, {"train.loss_fade_steps", "10"}});
  const auto far = losses("weighted", {{"train.loss_distance_weight", "1"}});
  REQUIRE(all.size() == 30);
  REQUIRE(faded.size() == 30);
  for (std::size_t step = 0; step < 30; ++step) {
    CAPTURE(step);
    CHECK(faded[step] ==
          Approx(all[step] * std::exp(-0.5 * static_cast<double>(step))).epsilon(1e-4));
    CHECK(slow[step] ==
          Approx(all[step] * std::exp(-0.1 * static_cast<double>(step))).epsilon(1e-4));
    CHECK(far[step] > 1.01 * faded[step]);
  }
}

TEST_CASE("schedule: a linear fall by epochs ends at an eighth of the peak after eight") {
  TrainConfig config;
  config.lr = 8e-3;
  config.num_epochs = 8;
  config.schedule = Schedule::kLinearEpoch;
  const StepCount steps{.per_epoch = 10, .total = 80};
  CHECK(LearningRate(config, steps, 0) == 8e-3);
  CHECK(LearningRate(config, steps, 9) == 8e-3);
  CHECK(LearningRate(config, steps, 10) == Approx(7e-3).epsilon(1e-12));
  CHECK(LearningRate(config, steps, 79) == Approx(1e-3).epsilon(1e-12));
}

TEST_CASE("schedule: warm-up rises linearly, falls from step to step begin after it") {
  TrainConfig config;
  config.lr = 1;
  config.min_lr = 0.2;
  config.warmup_steps = 4;
  config.schedule = Schedule::kLinear;
  const StepCount steps{.per_epoch = 6, .total = 12};
  const auto rate = [&](std::int64_t step) { return LearningRate(config, steps, step); };
  CHECK(rate(0) == Approx(0.25).epsilon(1e-12));
  CHECK(rate(3) == Approx(1).epsilon(1e-12));
  CHECK(rate(4) == Approx(1).epsilon(1e-12));
  CHECK(rate(8) == Approx(0.6).epsilon(1e-12));
  CHECK(rate(11) == Approx(0.3).epsilon(1e-12));
  config.schedule = Schedule::kCosine;
  CHECK(rate(1) == Approx(0.5).epsilon(1e-12));
  CHECK(rate(8) == Approx(0.6).epsilon(1e-12));
  CHECK(rate(6) == Approx(0.2 + 0.4 * (1 + std::sqrt(0.5))).epsilon(1e-12));
  config.schedule = Schedule::kConstant;
  CHECK(rate(1) == Approx(0.5).epsilon(1e-12));
  CHECK(rate(11) == 1);
  config.schedule = Schedule::kCosineEpoch;  // of two epochs, constant inside
  config.num_epochs = 2;
  CHECK(rate(1) == Approx(0.5).epsilon(1e-12));
  CHECK(rate(5) == Approx(1).epsilon(1e-12));
  CHECK(rate(6) == Approx(0.6).epsilon(1e-12));
  config.warmup_steps = 100;  // longer than the run
  config.schedule = Schedule::kLinear;
  CHECK(rate(11) == Approx(0.12).epsilon(1e-12));
}

TEST_CASE("adamw: state spaces have a rate of their own, and then no weight decay") {
  const double ssm_lr = GENERATE(0.0, 0.01);
  TrainConfig config;
  config.lr = 0.1;
  config.weight_decay = 0.5;
  config.ssm_lr = ssm_lr;
  std::vector<models::Parameter> parameters;
  for (const char* group : {"", "ssm"}) {
    parameters.push_back({.name = std::string("p") + group,
                          .tensor = at::ones({3}).requires_grad_(true),
                          .role = models::ParameterRole::kSpecial,
                          .weight_decay = true,
                          .lr_group = group});
  }
  AdamW optimizer(parameters, config);
  for (auto& parameter : parameters) parameter.tensor.mutable_grad() = at::ones({3});
  optimizer.Step(at::scalar_tensor(0.1), at::scalar_tensor(1));
  // The first step of AdamW has the size of the rate.
  const auto value = [&](std::size_t i) {
    return parameters[i].tensor.detach()[0].template item<double>();
  };
  CHECK(value(0) == Approx(1 - 0.1 * 0.5 - 0.1).epsilon(1e-6));
  CHECK(value(1) == Approx(ssm_lr > 0 ? 1 - 0.01 : value(0)).epsilon(1e-6));
}

// y = x, and a loss: the mean square of x, as small as it can be where x is zero.
class Leaky final : public models::Mixer {
 public:
  models::MixerTraits traits() const override {
    models::MixerTraits traits;
    traits.losses = {{"size", 0.0}};
    return traits;
  }
  models::State InitialState(std::int64_t) const override { return {}; }
  models::Mixed Mix(const models::MixerInputs& inputs, const models::MixerOptions&) const override {
    models::Mixed mixed;
    mixed.tokens = {{inputs.x}};
    mixed.AddLoss("size", inputs.x.to(at::kFloat).square().mean());
    return mixed;
  }
  at::Tensor Output(const models::Mixed& mixed, const models::MixerOptions&) const override {
    return mixed.tokens[0].value;
  }
};

const Registries& LeakyRegistries() {
  static const auto registries = [] {
    auto all = std::make_unique<Registries>();
    models::MixerEntry entry;
    entry.create = [](const Value&, const std::string&, const models::MixerContext&,
                      const models::ParameterScope&) { return std::make_unique<Leaky>(); };
    entry.resolve = [](const Value&, const std::string&, const models::MixerRegistry&) {
      return Value(Object{});
    };
    all->mixers.Add("leaky", std::move(entry));
    return all;
  }();
  return *registries;
}

Cell LeakyCell(const std::string& auxiliary_losses) {
  return ParseSuite(R"({"name": "leaky",
      "task": {"name": "mqar", "vocab_size": 16, "noise": "zero", "input_seq_len": 8,
               "num_kv_pairs": 1, "train": {"num_examples": 64},
               "validation": {"num_examples": 64}, "test": {"num_examples": 64}},
      "model": {"d_model": 8, "n_layers": 2, "sequence_mixer": {"name": "leaky"}},
      "train": {"lr": 0.01, "batch_size": 32, "num_epochs": 3, "early_stop_accuracy": 0,
                "auxiliary_losses": )" +
                        auxiliary_losses + "}}",
                    {}, LeakyRegistries())
      .cells.at(0);
}

TEST_CASE("auxiliary losses: weights come from the configuration, else from the mixer") {
  const auto train = [](const std::string& weights) {
    return RunTrainCell(LeakyCell(weights), at::kCPU, LeakyRegistries(), {},
                        [](const Progress&) {});
  };
  const auto without = train("{}");  // the weight of the mixer is 0
  const auto with = train(R"({"size": 100})");
  REQUIRE(without.state == reports::CellState::kCompleted);
  REQUIRE(with.state == reports::CellState::kCompleted);
  CHECK(without.learning_curve.size() == 3);
  for (const auto& result : {without, with}) {
    for (const auto& point : result.learning_curve) {
      CHECK(point.auxiliary_losses.size() == 1);
      CHECK(point.auxiliary_losses.at("size") > 0);
      CHECK(point.train_loss > 0);
    }
  }
  // Before the first update both are the same model; afterwards the weight tells.
  CHECK(with.learning_curve.back().auxiliary_losses.at("size") <
        0.999 * without.learning_curve.back().auxiliary_losses.at("size"));
  CHECK(Run(TinyCell("gla", {{"train.max_steps", "1"}}))
            .learning_curve.back()
            .auxiliary_losses.empty());
}

TEST_CASE("auxiliary losses: a name that the model does not have is refused when planned") {
  CHECK_THROWS_WITH(LeakyCell(R"({"sise": 1})"),
                    Catch::StartsWith("/train/auxiliary_losses/sise: ") &&
                        Catch::Contains("did you mean 'size'"));
  CHECK_THROWS_WITH(LeakyCell(R"({"size": -1})"),
                    Catch::StartsWith("/train/auxiliary_losses/size: expected a number >= 0 ("));
  CHECK_THROWS_WITH(LeakyCell("[1]"), Catch::StartsWith("/train/auxiliary_losses: "));
  CHECK_THROWS_WITH(
      TinyCell("gla", {{"train.auxiliary_losses", R"({"size": 1})"}}),
      Catch::StartsWith("/train/auxiliary_losses/size: this model has no auxiliary losses ("));
}

TEST_CASE("adamw: follows the published update, with and without clipping and exemption") {
  const double clip = GENERATE(0.0, 0.5);
  const bool decay_all = GENERATE(true, false);
  TrainConfig config;
  config.lr = 0.1;
  config.weight_decay = 0.3;
  config.grad_clip = clip;
  config.decay_all_parameters = decay_all;
  at::Generator generator = MakeGenerator(at::kCPU, 7);
  std::vector<models::Parameter> parameters;
  for (const bool decays : {true, false}) {
    at::Tensor value = at::randn({3, 4}, generator).requires_grad_(true);
    parameters.push_back({decays ? "w" : "A_log", value, models::ParameterRole::kSpecial, decays});
  }
  std::vector<at::Tensor> expected, first, second;
  for (const auto& parameter : parameters) {
    expected.push_back(parameter.tensor.detach().to(at::kDouble).clone());
    first.push_back(at::zeros_like(expected.back()));
    second.push_back(at::zeros_like(expected.back()));
  }
  AdamW optimizer(parameters, config);
  for (int step = 1; step <= 5; ++step) {
    std::vector<at::Tensor> gradients;
    double squares = 0;
    for (auto& parameter : parameters) {
      const at::Tensor gradient = at::randn({3, 4}, generator);
      parameter.tensor.mutable_grad() = gradient.clone();
      gradients.push_back(gradient.to(at::kDouble));
      squares += gradient.to(at::kDouble).square().sum().item<double>();
    }
    const double factor = clip > 0 ? std::min(1.0, clip / (std::sqrt(squares) + 1e-6)) : 1.0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor g = gradients[i] * factor;
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.999 * second[i] + 0.001 * g * g;
      const double decay = decay_all || parameters[i].weight_decay ? 0.3 : 0.0;
      const at::Tensor direction = (first[i] / (1 - std::pow(0.9, step))) /
                                   ((second[i] / (1 - std::pow(0.999, step))).sqrt() + 1e-8);
      expected[i] = expected[i] * (1 - 0.1 * decay) - 0.1 * direction;
    }
    optimizer.Step(at::scalar_tensor(0.1), at::scalar_tensor(step));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor difference = parameters[i].tensor.detach().to(at::kDouble) - expected[i];
    CHECK(difference.abs().max().item<double>() < kFp32Steps);
  }
}

TEST_CASE("adamw: shadow weights follow the parameters, and layers have them for a while") {
  TrainConfig config;
  config.lr = 0.1;
  config.dtype = Dtype::kBf16;
  const auto in_layer = std::make_shared<at::Tensor>();
  const std::vector<models::Parameter> parameters = {
      {"w", at::ones({3, 4}).requires_grad_(true), models::ParameterRole::kLinearWeight, true, "",
       in_layer},
      {"b", at::ones({3}).requires_grad_(true), models::ParameterRole::kLinearBias, true}};
  at::Tensor weight = parameters[0].tensor;
  AdamW optimizer(parameters, config);
  const auto is_equal = [&] {
    const AdamW::ShadowScope in_use(optimizer);
    const at::Tensor copy = in_layer->narrow(0, 0, 3);
    return copy.equal(weight.to(at::kBFloat16)) &&
           in_layer->narrow(0, 3, in_layer->size(0) - 3).count_nonzero().item<std::int64_t>() == 0;
  };
  CHECK(is_equal());
  CHECK_FALSE(in_layer->defined());
  weight.mutable_grad() = at::full({3, 4}, 0.5);
  const at::Tensor before = weight.detach().clone();
  optimizer.Step(at::scalar_tensor(0.1), at::scalar_tensor(1));
  CHECK_FALSE(weight.equal(before));
  CHECK(is_equal());
  {
    const at::NoGradGuard no_grad;
    weight.mul_(2);
  }
  CHECK_FALSE(is_equal());
  optimizer.RefreshShadowWeights();
  CHECK(is_equal());

  config.dtype = Dtype::kFp32;
  const AdamW without_copies(parameters, config);
  const AdamW::ShadowScope in_use(without_copies);
  CHECK_FALSE(in_layer->defined());
}

TEST_CASE("epochs: every example once, batches never mix segments, order as asked") {
  const std::vector<std::int64_t> sizes = {10, 7};
  const auto train = [](BatchOrder order) {
    TrainConfig config;
    config.batch_size = 4;
    config.batch_order = order;
    return config;
  };
  for (const BatchOrder order :
       {BatchOrder::kFixed, BatchOrder::kShuffleBatches, BatchOrder::kShuffleExamples}) {
    for (const std::int64_t epoch : {0, 1}) {
      std::set<std::pair<std::size_t, std::uint64_t>> seen;
      const auto batches = EpochBatches(sizes, train(order), 3, epoch);
      CHECK(batches.size() == 5);
      for (const BatchSlot& slot : batches) {
        const auto sample_order = EpochOrder(sizes[slot.segment], order, 3, epoch);
        for (std::int64_t i = 0; i < slot.count; ++i) {
          const auto position = slot.first + static_cast<std::uint64_t>(i);
          seen.emplace(slot.segment, tasks::SampleAt(sample_order, position));
        }
      }
      CHECK(seen.size() == 17);
    }
  }
  const auto firsts = [&](BatchOrder order, std::int64_t epoch) {
    std::vector<std::uint64_t> list;
    for (const auto& slot : EpochBatches({1000}, train(order), 3, epoch))
      list.push_back(slot.first);
    return list;
  };
  CHECK(firsts(BatchOrder::kFixed, 0) == firsts(BatchOrder::kFixed, 1));
  CHECK(firsts(BatchOrder::kShuffleBatches, 0) != firsts(BatchOrder::kShuffleBatches, 1));
  CHECK(firsts(BatchOrder::kShuffleBatches, 1) == firsts(BatchOrder::kShuffleBatches, 1));
}

TEST_CASE("epochs: of a curriculum each has one segment, several passes in a row, all shuffled") {
  TrainConfig config;
  config.batch_size = 4;
  config.batch_order = BatchOrder::kStages;
  config.num_epochs = 6;
  const std::vector<std::int64_t> sizes = {10, 11, 12};
  std::vector<std::vector<std::uint64_t>> passes;
  for (std::int64_t epoch = 0; epoch < config.num_epochs; ++epoch) {
    const std::int64_t stage = epoch / 2;
    const std::int64_t size = sizes[static_cast<std::size_t>(stage)];
    const tasks::SampleOrder order = EpochOrder(size, config.batch_order, 3, epoch);
    std::vector<std::uint64_t> served;
    for (const BatchSlot& slot : EpochBatches(sizes, config, 3, epoch)) {
      CHECK(static_cast<std::int64_t>(slot.segment) == stage);
      for (std::int64_t i = 0; i < slot.count; ++i) {
        served.push_back(tasks::SampleAt(order, slot.first + static_cast<std::uint64_t>(i)));
      }
    }
    CHECK(std::ssize(served) == size);
    CHECK(std::ssize(std::set<std::uint64_t>(served.begin(), served.end())) == size);
    passes.push_back(std::move(served));
  }
  CHECK(passes[0] != passes[1]);  // a new order every pass
}

TEST_CASE("score: the four accuracies, slices and divergence") {
  const auto task =
      AllRegistries()
          .tasks.Find("mqar", "")
          .create(
              Object{
                  {"vocab_size", 16}, {"input_seq_len", 8}, {"num_kv_pairs", 2}, {"noise", "zero"}},
              "");
  Scorer scorer(*task);
  std::vector<std::int32_t> inputs(8), labels(8);
  const auto add = [&](std::uint64_t index, int wrong, float nll) {
    tasks::GenerateOnCpu(
        *task, {.key = SampleKey(*task, 0, tasks::Split::kTest), .first = index, .count = 1},
        inputs, labels);
    std::vector<std::int64_t> predictions;
    for (const std::int32_t label : labels) {
      if (label != tasks::kIgnore) predictions.push_back(label);
    }
    REQUIRE(predictions.size() == 2);
    for (int i = 0; i < wrong; ++i) predictions[static_cast<std::size_t>(i)] = 0;
    scorer.Add(inputs, labels, predictions, std::vector<float>{nll, nll});
  };
  add(0, 0, 0.5f);
  add(1, 1, 1.5f);
  const auto row = scorer.Rows({}).front();
  CHECK(row.num_sequences == 2);
  CHECK(row.num_scored == 4);
  CHECK(row.num_correct == 3);
  CHECK(*row.accuracy == 0.75);
  CHECK(*row.accuracy_per_example == 0.75);
  CHECK(*row.sequence_accuracy == 0.5);
  CHECK(*row.nll == 1.0);
  CHECK(row.chance == Approx(1.0 / 8));
  REQUIRE(row.guesses.size() == 2);
  CHECK(row.guesses[0].accuracy == row.chance);
  CHECK(row.guesses[1].name == "some value of the context");
  CHECK(row.guesses[1].accuracy == 0.5);
  // Of two samples, one right and one half right.
  CHECK(row.ci_items->method == "beta");
  CHECK(row.ci_items->low < 0.5);
  CHECK(row.ci_items->high > 0.9);
  REQUIRE(row.ci_sequences);
  CHECK(row.ci_sequences->low < 0.5);
  std::int64_t by_gap = 0;
  for (const auto& r : scorer.Rows({})) by_gap += r.slice == "gap" ? r.num_scored : 0;
  CHECK(by_gap == 4);
  CHECK(scorer.finite());
  add(2, 0, NAN);
  CHECK_FALSE(scorer.finite());
  CHECK(scorer.Rows({}).front().state == reports::CellState::kDiverged);
}

TEST_CASE("score: chance of a slice is that of its own positions") {
  const auto task = AllRegistries()
                        .tasks.Find("copying_lag", "")
                        .create(Object{{"vocab_size", 6}, {"input_seq_len", 8}, {"lag", 2}}, "");
  std::vector<std::int32_t> inputs(8), labels(8);
  tasks::GenerateOnCpu(*task,
                       {.key = SampleKey(*task, 0, tasks::Split::kTest), .first = 0, .count = 1},
                       inputs, labels);
  Scorer scorer(*task);
  scorer.Add(inputs, labels, std::vector<std::int64_t>(8, 0), std::vector<float>(8, 1.f));
  const auto rows = scorer.Rows({});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].chance == Approx((2 + 6 * 0.25) / 8));
  CHECK(rows[1].bucket == "zeros");
  CHECK(rows[1].chance == 1);
  CHECK(rows[2].bucket == "data");
  CHECK(rows[2].chance == Approx(0.25));
}

TEST_CASE("score: macro recall over the split, and over batches of 128 samples") {
  const auto task = AllRegistries().tasks.Find("circuits", "").create(Object{}, "");
  Scorer scorer(*task);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(task->shape().seq_len), 0);
  std::vector<std::int32_t> labels(inputs.size(), tasks::kIgnore);
  const auto add = [&](std::int32_t label, std::int64_t prediction) {
    labels.back() = label;
    scorer.Add(inputs, labels, std::vector<std::int64_t>{prediction}, std::vector<float>{1.f});
  };
  for (int i = 0; i < 128; ++i) add(i % 2, i % 2);
  CHECK(*scorer.Rows({}).front().accuracy_macro_batched == 1);
  add(1, 0);
  add(1, 1);
  const auto row = scorer.Rows({}).front();
  // Over all: class 0 is right 64 of 64 times, class 1 65 of 66. The second batch: class 0, which
  // was only predicted, 0; class 1 1 of 2.
  CHECK(*row.accuracy_macro == Approx((1 + 65.0 / 66) / 2));
  CHECK(*row.accuracy_macro_batched == Approx((128 * 1 + 2 * 0.25) / 130));
}

TEST_CASE("score: a mean loss that rounding leaves below 0 is 0") {
  const auto task = AllRegistries().tasks.Find("circuits", "").create(Object{}, "");
  Scorer scorer(*task);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(task->shape().seq_len), 0);
  std::vector<std::int32_t> labels(inputs.size(), tasks::kIgnore);
  labels.back() = 1;
  scorer.Add(inputs, labels, std::vector<std::int64_t>{1}, std::vector<float>{-1.7e-7f});
  for (const auto& row : scorer.Rows({})) CHECK(row.nll == 0.0);
}

TEST_CASE("evaluation: pieces with carried state give what one call gives") {
  const std::string mixer = GENERATE("attention", "gla", "gated_delta_net");
  const Cell cell = TinyCell(
      mixer, {{"task.vocab_size", "32"}, {"task.input_seq_len", "26"}, {"task.num_kv_pairs", "3"}});
  const Model model = BuildModel(cell, at::kCPU, AllRegistries());
  const auto source =
      MakeSources(cell.task, cell.task.test, 0, tasks::Split::kTest, at::kCPU, AllRegistries());
  const Batch batch = source.front().Generate(0, 5, {}, tasks::LabelMode::kScored);
  const ScoredRows scored = ListScored(batch.labels, /*max_scored=*/3);
  const auto whole = Predict(*model.backbone, batch, scored, at::kFloat, 100);
  for (const std::int64_t piece : {1, 7, 25}) {
    const auto pieces = Predict(*model.backbone, batch, scored, at::kFloat, piece);
    CHECK((whole.nll - pieces.nll).abs().max().item<float>() < kPieces);
  }
}

TEST_CASE("training: a model learns, and an untrained one sits at chance") {
  const auto trained = Run(TinyCell("delta_net"));
  REQUIRE(trained.state == reports::CellState::kCompleted);
  CHECK(trained.step == 160);
  CHECK(trained.tokens_seen == 160 * 32 * 8);
  CHECK(*trained.accuracy.front().accuracy > 0.95);
  CHECK(trained.steps_to_threshold);
  CHECK(trained.learning_curve.size() == 20);
  CHECK(trained.learning_curve.back().train_loss < trained.learning_curve.front().train_loss / 4);
  const auto untrained = Run(TinyCell("delta_net", {{"train.lr", "1e-12"}, {"train.min_lr", "0"}}));
  const double accuracy = *untrained.accuracy.front().accuracy;
  // 100 guesses among 8 values: 1/8 within 4 sigma, plus ids outside the value range.
  CHECK(accuracy < 0.125 + 4 * 0.033);
}

TEST_CASE("training: the ceiling of what the training data tell stands beside the scores") {
  const auto row_of = [](const std::string& train) {
    const auto result = Run(ParseSuite(R"({"name": "ceiling",
        "task": {"name": "mad_memorization", "vocab_size": 256, "input_seq_len": 16,
                 "train": )" + train + R"(,
                 "validation": {"num_examples": 8}, "test": {"num_examples": 100}},
        "model": {"d_model": 32, "n_layers": 1, "sequence_mixer": {"name": "attention"}},
        "train": {"batch_size": 4, "num_epochs": 1, "steps_per_epoch": )" +
                                           (train == R"({"num_examples": 0})" ? "5" : "0") + "}}",
                                       {}, AllRegistries())
                                .cells.at(0));
    REQUIRE(result.state == reports::CellState::kCompleted);
    return result.accuracy.front();
  };
  // 20 samples show 160 of 127 keys' draws: 1 - (1 - 1/127)^160 = 72 % in expectation.
  const double finite = *row_of(R"({"num_examples": 20})").ceiling;
  CHECK(std::abs(finite - 0.72) < 0.1);
  // Online, five steps of four samples see the same ones.
  CHECK(*row_of(R"({"num_examples": 0})").ceiling == finite);
  CHECK(*Run(TinyCell("attention", {{"train.num_epochs", "1"}})).accuracy.front().ceiling == 1);
}

TEST_CASE("training: two runs agree bit by bit, another seed does not") {
  const auto untimed = [](reports::CellResult result) {
    return *reports::CellToValue(result).Find("integrity");  // a checksum of all but times
  };
  const Cell cell = TinyCell("attention", {{"train.num_epochs", "2"}});
  Cell other = cell;
  other.seed = 1;
  CHECK(untimed(Run(cell)) == untimed(Run(cell)));
  CHECK(untimed(Run(cell)) != untimed(Run(other)));
}

TEST_CASE("training: early stopping looks at validation, and only when asked") {
  const auto stopped = Run(TinyCell(
      "delta_net", {{"train.early_stop_accuracy", "0.5"}, {"train.solved_accuracy", "0.5"}}));
  CHECK(stopped.stopped_early);
  CHECK(stopped.step < 160);
  CHECK(stopped.planned_steps == 160);
  CHECK(*stopped.learning_curve.back().validation_accuracy > 0.5);
}

TEST_CASE("training: validation accuracy weighs segments by what its metric counts") {
  const auto validated = [](const char* metric, const char* lengths, const char* pairs) {
    const auto result = Run(TinyCell("delta_net", {{"task.validation.input_seq_len", lengths},
                                                   {"task.validation.num_kv_pairs", pairs},
                                                   {"train.validation_metric", metric},
                                                   {"train.early_stop_accuracy", "0"},
                                                   {"train.num_epochs", "2"}}));
    REQUIRE(result.state == reports::CellState::kCompleted);
    return *result.learning_curve.back().validation_accuracy;
  };
  // As many sequences each, of one and of two queries.
  const double one = validated("accuracy", "8", "1"), two = validated("accuracy", "12", "2");
  REQUIRE(std::abs(one - two) > 0.01);
  const auto both = [&](const char* metric) { return validated(metric, "[8,12]", "[1,2]"); };
  CHECK(both("accuracy") == Approx((one + 2 * two) / 3).epsilon(1e-12));
  CHECK(both("accuracy_per_example") == Approx((one + two) / 2).epsilon(1e-12));
  const double macro_one = validated("accuracy_macro_batched", "8", "1");
  const double macro_two = validated("accuracy_macro_batched", "12", "2");
  CHECK(macro_one != one);
  CHECK(both("accuracy_macro_batched") == Approx((macro_one + macro_two) / 2).epsilon(1e-12));
}

TEST_CASE("training: every loss mode and precision runs") {
  for (const char* mode : {"scored", "all_tokens", "target_only"}) {
    const auto result =
        Run(TinyCell("gla", {{"train.loss_mode", mode}, {"train.num_epochs", "1"}}));
    INFO(mode << " " << result.reason);
    CHECK(result.state == reports::CellState::kCompleted);
  }
  const auto bf16 = Run(TinyCell("delta_net", {{"train.dtype", "bf16"}}));
  INFO(bf16.reason);
  CHECK(bf16.state == reports::CellState::kCompleted);
  CHECK(*bf16.accuracy.front().accuracy > 0.9);
}

TEST_CASE("training: online data never repeat and count their own steps") {
  const auto result = Run(TinyCell("delta_net", {{"task.train.num_examples", "0"},
                                                 {"train.steps_per_epoch", "5"},
                                                 {"train.num_epochs", "3"}}));
  CHECK(result.state == reports::CellState::kCompleted);
  CHECK(result.step == 15);
  const Cell mixture = TinyCell("delta_net", {{"task.train.num_examples", "0"},
                                              {"task.vocab_size", "32"},
                                              {"task.train.input_seq_len", "[8,16]"},
                                              {"train.steps_per_epoch", "5"},
                                              {"train.num_epochs", "2"}});
  REQUIRE(mixture.task.train.size() == 2);
  // 10 steps alternate between the segments: five batches of 32 at each length.
  CHECK(Run(mixture).tokens_seen == 5 * 32 * (8 + 16));
}

TEST_CASE("training: divergence, time limits and unsupported sizes are states with a reason") {
  const auto diverged =
      Run(TinyCell("attention", {{"train.weight_decay", "1e30"}, {"train.lr", "10"}}));
  CHECK(diverged.state == reports::CellState::kDiverged);
  CHECK_THAT(diverged.reason, Catch::Contains("not finite at step"));
  CHECK(diverged.planned_steps > diverged.step);
  RunControl control;
  control.deadline = std::chrono::steady_clock::now();
  const auto late = Run(TinyCell("attention"), control);
  CHECK(late.state == reports::CellState::kTimeout);
  CHECK(late.threshold > 0);  // and was not reached
  CHECK(reports::Solved(late) == false);
  Cell impossible = TinyCell("attention");
  impossible.model.as_object()["sequence_mixer"].as_object()["num_heads"] = 5;
  const auto unsupported = Run(impossible);
  CHECK(unsupported.state == reports::CellState::kUnsupported);
  CHECK_THAT(unsupported.reason, Catch::Contains("num_heads"));
  CHECK_FALSE(unsupported.planned_steps);
}

TEST_CASE("training: a cell that failed has a row for every test segment") {
  RunControl control;
  control.deadline = std::chrono::steady_clock::now();
  const Cell cell = TinyCell("attention", {{"task.vocab_size", "32"},
                                           {"task.test.input_seq_len", "[8,16]"},
                                           {"task.test.num_kv_pairs", "[1,2]"}});
  const auto late = Run(cell, control);
  REQUIRE(late.accuracy.size() == 2);
  CHECK(io::DumpJson(late.accuracy[1].axes) == R"({"input_seq_len":16,"num_kv_pairs":2})");
  CHECK(late.accuracy[1].state == reports::CellState::kTimeout);
  CHECK(late.accuracy[1].reason == late.reason);
  CHECK_FALSE(late.accuracy[1].accuracy);
  CHECK(late.accuracy[1].chance == Approx(1.0 / 16));
  CHECK(late.accuracy[1].guesses.at(1).accuracy == 0.5);
  CHECK_FALSE(late.accuracy[0].extrapolated);
  CHECK(late.accuracy[1].extrapolated);
  // Rows that are there stay; a cell that did not run gets none.
  reports::CellResult result = late;
  result.accuracy.pop_back();
  result.accuracy[0].accuracy = 0.5;
  AddMissingRows(cell, AllRegistries().tasks, result);
  CHECK(result.accuracy.size() == 2);
  CHECK(*result.accuracy[0].accuracy == 0.5);
  result = ResultOf(cell);
  AddMissingRows(cell, AllRegistries().tasks, result);
  CHECK(result.accuracy.empty());
}

TEST_CASE("model: carried state is measured next to its declaration") {
  const Cell cell = TinyCell("gla");
  const Model model = BuildModel(cell, at::kCPU, AllRegistries());
  const auto facts = MeasureModel(model, 8, at::kCPU, at::kFloat);
  CHECK(facts.state_bytes_measured == facts.state_bytes_declared);  // no convolution in GLA
  CHECK(facts.num_parameters > 0);
}

}  // namespace
}  // namespace mixerbench::harness
