// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/evaluate.h"

#include <limits>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "io/json.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Inputs of 8 and 20 tokens, 100 of each to be scored.
Cell TinyCell(std::int64_t eval_batch_tokens) {
  SuiteOverrides overrides;
  overrides.set = {{"train.eval_batch_tokens", std::to_string(eval_batch_tokens)}};
  return ParseSuite(R"({"name": "tiny",
      "task": {"name": "mqar", "vocab_size": 32, "noise": "zero", "num_kv_pairs": 1,
               "train": {"input_seq_len": 8, "num_examples": 32},
               "validation": {"num_examples": 16},
               "test": {"input_seq_len": [8, 20], "num_examples": 100}},
      "model": {"d_model": 16, "n_layers": 1, "sequence_mixer": {"name": "attention"}},
      "train": {"batch_size": 32, "num_epochs": 1}})",
                    overrides, AllRegistries())
      .cells.at(0);
}

// What evaluating one segment of a cell needs.
class Segment20 {
 public:
  explicit Segment20(std::int64_t eval_batch_tokens)
      : cell_(TinyCell(eval_batch_tokens)),
        graphs_(at::kCPU, /*use_graphs=*/false),
        model_(BuildModel(cell_, at::kCPU, AllRegistries())),
        sources_(MakeSources(cell_.task, cell_.task.test, 0, tasks::Split::kTest, at::kCPU,
                             AllRegistries())) {}

  SegmentScore Score(const SegmentEvaluator::Checkpoint& checkpoint) {
    return SegmentEvaluator(*model_.backbone, sources_.at(1), cell_.train, graphs_)
        .Score({}, checkpoint);
  }

 private:
  Cell cell_;
  GraphContext graphs_;
  Model model_;
  std::vector<SegmentSource> sources_;
};

// Its hidden states are its logits, the same for every input.
class LogitsOf final : public models::Backbone {
 public:
  explicit LogitsOf(const at::Tensor& logits) : logits_(logits) {}  // [B,T,V]

  models::BackboneOutput Forward(const at::Tensor&,
                                 const models::BackboneOptions& options) const override {
    models::BackboneOutput output;
    output.hidden = logits_.flatten(0, 1).index_select(0, options.scored->positions);
    return output;
  }
  models::Head head() const override { return {.weight = at::eye(logits_.size(2)), .bias = {}}; }
  models::State InitialState(std::int64_t) const override { return {}; }
  std::map<std::string, double> losses() const override { return {}; }

 private:
  at::Tensor logits_;
};

TEST_CASE("evaluation: predictions of equal logits and of what is not finite") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  struct Position {
    std::vector<float> logits;
    std::int32_t label;
    std::int64_t predicted;
  };
  const std::vector<Position> positions = {
      {{1, 3, 3, 2}, 2, 1},               // ties go to the lowest id
      {{5, 5, 5, 5}, 0, 0},               //
      {{-1e30f, 4, -1e30f, 4}, 1, 1},     // as masked out
      {{9, 9, 9, 9}, tasks::kIgnore, 0},  // not scored
      {{kNan, 1, 2, 3}, 0, -1},           // not the first NaN, not the largest of the others
      {{1, 2, kNan, 3}, 3, -1},           //
      {{kNan, kNan, kNan, kNan}, 0, -1},
      {{0, 1, 2, 3}, 3, 3}};
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> predicted;
  for (const Position& position : positions) {
    logits.insert(logits.end(), position.logits.begin(), position.logits.end());
    labels.push_back(position.label);
    if (position.label != tasks::kIgnore) predicted.push_back(position.predicted);
  }
  const LogitsOf backbone(at::tensor(logits).view({2, 4, 4}));
  const Batch batch{.inputs = at::zeros({2, 4}, at::kInt),
                    .labels = at::tensor(labels, at::kInt).view({2, 4})};
  const ScoredRows scored = ListScored(batch.labels, /*max_scored=*/4);
  const Predictions predictions = Predict(backbone, batch, scored, at::kFloat, /*piece_len=*/100);
  const at::Tensor counts = scored.targets.ne(tasks::kIgnore);
  CHECK(predictions.predicted.masked_select(counts).equal(at::tensor(predicted)));
  // A NaN shows in the loss, and is right nowhere.
  const at::Tensor nll = predictions.nll.masked_select(counts);
  CHECK(nll.isnan().sum().item<std::int64_t>() == 3);
  CHECK(predictions.predicted.eq(scored.targets).sum().item<std::int64_t>() == 3);
  // What only fills a sample up has no loss.
  CHECK(predictions.nll.masked_select(counts.logical_not()).eq(0).all().item<bool>());
}

TEST_CASE("evaluation: a batch holds a number of tokens, whatever the length") {
  const auto sizes = [](std::int64_t eval_batch_tokens) {
    const auto result = RunTrainCell(TinyCell(eval_batch_tokens), at::kCPU, AllRegistries(), {},
                                     [](const Progress&) {});
    CHECK(result.state == reports::CellState::kCompleted);
    const auto read = reports::CellFromValue(reports::CellToValue(result));
    CHECK(read.eval_batch_sizes == result.eval_batch_sizes);
    return result.eval_batch_sizes;
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes(80) == Sizes{10, 4});
  CHECK(sizes(1) == Sizes{1, 1});
  CHECK(sizes(1'000'000) == Sizes{100, 100});  // all there are
}

TEST_CASE("evaluation: batches are halved until memory suffices, and give the same") {
  int num_batches = 0;
  const SegmentScore whole = Segment20(400).Score([&] { ++num_batches; });
  CHECK(whole.batch_size == 20);
  CHECK(num_batches == 5);
  // Memory lacks in the third batch of 20 and in the fifth of 10.
  int calls = 0;
  const SegmentScore halved = Segment20(400).Score([&] {
    ++calls;
    if (calls == 3 || calls == 8) throw std::bad_alloc();
  });
  CHECK(halved.batch_size == 5);
  CHECK(calls == 8 + 20);
  CHECK(halved.tally.num_scored == whole.tally.num_scored);
  CHECK(halved.tally.num_correct == whole.tally.num_correct);
  REQUIRE(halved.rows.size() == whole.rows.size());
  CHECK(halved.rows.front().num_correct == whole.rows.front().num_correct);
  CHECK(*halved.rows.front().nll == Approx(*whole.rows.front().nll).epsilon(1e-6));
}

TEST_CASE("evaluation: a single sequence that does not fit, and other errors, are passed on") {
  int calls = 0;
  CHECK_THROWS_AS(Segment20(400).Score([&] {
    ++calls;
    throw std::bad_alloc();
  }),
                  std::bad_alloc);
  CHECK(calls == 5);  // 20, 10, 5, 2, 1
  calls = 0;
  CHECK_THROWS_WITH(Segment20(400).Score([&] {
    ++calls;
    throw std::runtime_error("something else");
  }),
                    "something else");
  CHECK(calls == 1);
}

}  // namespace
}  // namespace mixerbench::harness
