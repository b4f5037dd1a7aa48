// The parts of a training step, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <vector>

#include <ATen/ATen.h>

#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/step_kernels.h"
#include "harness/training/batch.h"
#include "harness/training/loss_ring.h"
#include "harness/training/token_weights.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("step: finishing one leaves its loss and moves to the next record") {
  const std::vector<StepRecord> records = {
      {.cursor = {5, 1}, .loss_slot = 2, .dropout_seed = 3, .learning_rate = 0.5f, .step = 1},
      {.cursor = {9, 1}, .loss_slot = 0, .dropout_seed = 4, .learning_rate = 0.25f, .step = 2},
      {}};
  StepRecord current = records[0];
  std::uint64_t next = 1;
  std::vector<float> losses(3, -1);
  std::vector<std::uint64_t> seeds(kMaskSeeds);
  const StepState state{records.data(), &current, &next, losses.data(), seeds.data()};
  const float loss = 7;
  FinishStep(state, &loss);
  CHECK(losses == std::vector<float>{-1, -1, 7});
  CHECK(current.cursor.first == 9);
  CHECK(current.learning_rate == 0.25f);
  CHECK(current.step == 2);
  CHECK(seeds[5] == MaskSeed(4, 5));
  CHECK(std::set<std::uint64_t>(seeds.begin(), seeds.end()).size() == seeds.size());
  FinishStep(state, &loss);
  CHECK(losses == std::vector<float>{7, -1, 7});
  CHECK(next == 3);
}

constexpr std::int32_t kNone = tasks::kIgnore;

TEST_CASE("step: lists of scored positions are filled up, in order, and invertible") {
  const at::Tensor labels = at::tensor({kNone, 4, kNone, 6,          //
                                        kNone, kNone, kNone, kNone,  //
                                        1, kNone, kNone, kNone})
                                .to(at::kInt)
                                .reshape({3, 4});
  const ScoredRows scored = ListScored(labels, 2);
  CHECK(scored.rows.per_sequence == 2);
  const auto list = [](const at::Tensor& x) {
    return std::vector<std::int64_t>(x.const_data_ptr<std::int64_t>(),
                                     x.const_data_ptr<std::int64_t>() + x.numel());
  };
  CHECK(list(scored.rows.positions) == std::vector<std::int64_t>{1, 3, 0, 0, 8, 0});
  CHECK(list(scored.targets) == std::vector<std::int64_t>{4, 6, kNone, kNone, 1, kNone});
  CHECK(list(scored.rows.inverse) == std::vector<std::int64_t>{6, 0, 6, 1, 6, 6, 6, 6, 4, 6, 6, 6});
  CHECK_THROWS_AS(ListScored(labels, 1), std::logic_error);
}

TEST_CASE("step: gathered rows and their gradients are those of an index, filled entries aside") {
  at::Generator generator = MakeGenerator(at::kCPU, 1);
  const at::Tensor values = at::randint(0, 9, {5, 7}, generator, at::kInt);
  const at::Tensor labels = values.masked_fill(values.gt(3), kNone);
  const ScoredRows scored = ListScored(labels, 7);
  const at::Tensor is_scored = scored.targets.ne(kNone);
  REQUIRE(is_scored.sum().item<std::int64_t>() < is_scored.numel());
  const at::Tensor x = at::randn({5, 7, 3}, generator).requires_grad_(true);
  const at::Tensor y = at::randn({5, 7, 3}, generator);
  const at::Tensor weight = at::randn({35, 3}, generator);

  const at::Tensor rows = kernels::GatherRows(x, scored.rows);
  const at::Tensor flat = x.flatten(0, 1);
  CHECK(rows.equal(flat.index_select(0, scored.rows.positions)));
  // What fills up must not reach x, whatever gradient it gets.
  rows.backward(weight);
  const at::Tensor expected = at::zeros_like(flat).index_put(
      {scored.rows.positions.masked_select(is_scored)}, weight.index({is_scored}));
  CHECK(x.grad().flatten(0, 1).equal(expected));
}

TEST_CASE("loss ring: every loss comes once, in order, an interval late") {
  LossRing ring(at::kCPU, 4);
  std::vector<float> seen;
  const auto take = [&](bool leave_newest) {
    while (const auto losses = ring.Take(leave_newest)) {
      CHECK(losses->first == static_cast<std::int64_t>(seen.size()) + 3);
      for (const auto& step : losses->values) seen.insert(seen.end(), step.begin(), step.end());
    }
  };
  ring.Restart(3);
  std::vector<float> expected;
  for (std::int64_t step = 3; step < 30; ++step) {
    ring.slots()[ring.SlotOf(step)] = static_cast<float>(step);
    expected.push_back(static_cast<float>(step));
    if ((step + 1) % 4 != 0) continue;
    ring.Post(step + 1);
    take(/*leave_newest=*/true);
    // At most one interval stays behind.
    CHECK(expected.size() - seen.size() <= 4);
  }
  ring.Post(30);
  take(/*leave_newest=*/false);
  CHECK(seen == expected);
  ring.slots()[ring.SlotOf(30)] = 1;
  CHECK_THROWS_AS(ring.Post(40), std::logic_error);
}

TEST_CASE("loss ring: several losses of a step stay together") {
  LossRing ring(at::kCPU, 2, /*num_losses=*/3);
  ring.Restart(0);
  for (std::int64_t step = 0; step < 2; ++step) {
    StepRecord current;
    current.loss_slot = ring.SlotOf(step);
    const StepRecord records[] = {current};
    std::uint64_t next = 0;
    const float losses[] = {static_cast<float>(step), 10, 20};
    MoveOn({.records = records,
            .current = &current,
            .next = &next,
            .losses = ring.slots(),
            .mask_seeds = nullptr,
            .num_losses = 3},
           losses);
  }
  ring.Post(2);
  const auto taken = ring.Take(/*leave_newest=*/false);
  REQUIRE(taken);
  CHECK(taken->values == std::vector<std::vector<float>>{{0, 10, 20}, {1, 10, 20}});
}

TEST_CASE("repeated work: runs at every call where there are no graphs") {
  GraphContext graphs(at::kCPU, /*use_graphs=*/true);
  CHECK_FALSE(graphs.use_graphs());
  int runs = 0;
  RepeatedWork work(graphs, [&] { ++runs; });
  for (int i = 0; i < 4; ++i) work.Run();
  CHECK(runs == 4);
  CHECK(graphs.capture_s() == 0);
}

TEST_CASE("step: how far back answers stand") {
  const auto ints = [](std::vector<int> values) {
    return at::tensor(values, at::kInt).view({2, 5});
  };
  // The last place counts, the answer's own among them; 9 never stood; 8 comes later.
  const at::Tensor inputs = ints({7, 3, 7, 4, 5,  //
                                  1, 2, 9, 6, 8});
  const at::Tensor answers = ints({kNone, kNone, kNone, 7, 7,  //
                                   2, 2, kNone, 8, 6});
  const at::Tensor expected = at::tensor({0., 0., 0., 1., 2.,  //
                                          0., 0., 0., 0., 1.})
                                  .to(at::kFloat)
                                  .view({2, 5});
  CHECK(AnswerDistances(inputs, ListScored(answers, 4)).equal(expected));
}

// Golden vector D9, from the distances on: the attention's own are in attention_test.
TEST_CASE("step: weights of tokens by distance, while those of all fade") {
  const at::Tensor distances = at::tensor({0., 0., 0.3, 1.}, at::kDouble);
  const auto weights = [&](double fades) {
    return TokenWeights(distances, 0.5, at::tensor(fades, at::kDouble));
  };
  const at::Tensor golden = at::tensor({0., 0., 0.1397619424, 0.4054651081}, at::kDouble);
  CHECK((weights(1e9) - golden).abs().max().item<double>() < 1e-10);
  CHECK((weights(1.5) - golden - std::exp(-1.5)).abs().max().item<double>() < 1e-10);
}

}  // namespace
}  // namespace mixerbench::harness
