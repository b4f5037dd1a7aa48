// SPDX-License-Identifier: Apache-2.0
#include "tasks/dataset_checks.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

// Samples of two tokens: token 0 is index mod `period`, the answer is that plus `shift`.
class CountingTask final : public Task {
 public:
  CountingTask(std::int32_t period, std::int32_t shift) : period_(period), shift_(shift) {}
  TaskShape shape() const override { return {period_ + 10, 2, 1, 0}; }
  std::string canon() const override { return "counting"; }
  void Generate(const SampleStream& stream, LabelMode, std::span<std::int32_t> inputs,
                std::span<std::int32_t> labels, std::span<std::uint32_t>) const override {
    inputs[0] = static_cast<std::int32_t>(stream.index % static_cast<std::uint64_t>(period_));
    inputs[1] = 0;
    labels[0] = kIgnore;
    labels[1] = inputs[0] + shift_;
  }
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
             std::span<std::int32_t> answers) const override {
    answers[0] = inputs[0] + 1;
  }
  std::vector<Baseline> baselines() const override { return {{"uniform", 1.0 / period_}}; }
  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t>,
                    std::span<std::int32_t>) const override {}

 private:
  std::int32_t period_;
  std::int32_t shift_;
};

TEST_CASE("repeated and shared inputs are counted") {
  const CountingTask task(10, 1);
  const auto ten = SortedInputHashes({task, {}, 0, 10});
  const auto more = SortedInputHashes({task, {}, 5, 25}, 3);
  CHECK(NumRepeated(ten) == 0);
  CHECK(NumRepeated(more) == 15);
  CHECK(NumShared(ten, more) == 10);
  CHECK(NumShared(SortedInputHashes({task, {}, 0, 4}), SortedInputHashes({task, {}, 3, 4})) == 1);
  CHECK(NumShared(more, {}) == 0);
}

TEST_CASE("the oracle and chance are held against the labels") {
  const AnswerCheck right = CheckAnswers({CountingTask(10, 1), {}, 0, 200});
  CHECK(right.num_scored == 200);
  CHECK(right.num_solved == 200);
  CHECK(right.is_solved);
  CHECK(right.is_chance_right);
  CHECK(std::abs(right.order_free.mean - 0.1) < 1e-12);
  const AnswerCheck wrong = CheckAnswers({CountingTask(10, 2), {}, 0, 200});
  CHECK(wrong.num_solved == 0);
  CHECK_FALSE(wrong.is_solved);
}

TEST_CASE("a false chance level is noticed") {
  // Within a period no answer occurs twice: guessing those of other samples scores 0, not 1/400.
  CHECK_FALSE(CheckAnswers({CountingTask(400, 1), {}, 0, 200}).is_chance_right);
}

TEST_CASE("a few samples without any coincidence say nothing against chance") {
  CHECK(CheckAnswers({CountingTask(4000, 1), {}, 0, 3}).is_chance_right);
}

TEST_CASE("order-free accuracy: by hand") {
  // Answers 1, 1, 2 to draw from: the first sample scores (2/3 + 1/3) / 2, the second 0.
  const Estimate estimate = OrderFreeAccuracy({{1, 2}, {3}}, {{1}, {1, 2}});
  CHECK(std::abs(estimate.mean - 0.25) < 1e-15);
  CHECK(std::abs(estimate.error - 0.25) < 1e-15);  // sqrt(2 * 0.0625 / 2)
}

}  // namespace
}  // namespace mixerbench::tasks
