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
  CountingTask(std::int32_t period, std::int32_t shift)
      : CountingTask(period, shift, 1.0 / period) {}
  CountingTask(std::int32_t period, std::int32_t shift, double chance)
      : period_(period), shift_(shift), chance_(chance) {}
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
  std::vector<Baseline> baselines() const override { return {{"uniform", chance_}}; }
  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t>,
                    std::span<std::int32_t>) const override {}

 private:
  std::int32_t period_;
  std::int32_t shift_;
  double chance_;
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
  CHECK_FALSE(CheckAnswers({CountingTask(10, 1, 0.5), {}, 0, 200}).is_chance_right);
}

// Answers are 0 or 1, evenly, but for a first stretch of samples that all answer 0; declares half.
class LuckyTask final : public Task {
 public:
  explicit LuckyTask(std::uint64_t num_lucky, double oracle_accuracy = 1)
      : num_lucky_(num_lucky), oracle_accuracy_(oracle_accuracy) {}
  TaskShape shape() const override { return {2, 2, 1, 0}; }
  std::string canon() const override { return "lucky"; }
  void Generate(const SampleStream& stream, LabelMode, std::span<std::int32_t> inputs,
                std::span<std::int32_t> labels, std::span<std::uint32_t>) const override {
    labels[0] = kIgnore;
    labels[1] = stream.index < num_lucky_ ? 0 : static_cast<std::int32_t>(Uniform(stream, 0, 0, 2));
    inputs[0] = labels[1];
    inputs[1] = 0;
  }
  // Right half of the time, more often where the luck is.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
             std::span<std::int32_t> answers) const override {
    answers[0] = oracle_accuracy_ < 1 ? 0 : inputs[0];
  }
  double oracle_accuracy() const override { return oracle_accuracy_; }
  std::vector<Baseline> baselines() const override { return {{"a coin", 0.5}}; }
  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t>,
                    std::span<std::int32_t>) const override {}

 private:
  std::uint64_t num_lucky_;
  double oracle_accuracy_;
};

TEST_CASE("a share that strays is judged by four times as many other samples") {
  constexpr std::int64_t kCount = 400;
  const AnswerCheck plain = CheckAnswers({LuckyTask(0), {}, 0, kCount});
  CHECK(plain.num_samples == kCount);
  CHECK(plain.is_chance_right);
  const AnswerCheck luck = CheckAnswers({LuckyTask(kCount), {}, 0, kCount});
  CHECK(luck.num_samples == 4 * kCount);
  CHECK(luck.is_chance_right);
  const AnswerCheck defect = CheckAnswers({LuckyTask(100 * kCount), {}, 0, kCount});
  CHECK(defect.num_samples == 4 * kCount);
  CHECK_FALSE(defect.is_chance_right);
}

TEST_CASE("an oracle below 1 may have luck, one of 1 may not") {
  constexpr std::int64_t kCount = 400;
  CHECK(CheckAnswers({LuckyTask(kCount, 0.5), {}, 0, kCount}).is_solved);
  CHECK_FALSE(CheckAnswers({LuckyTask(100 * kCount, 0.5), {}, 0, kCount}).is_solved);
  const AnswerCheck wrong = CheckAnswers({CountingTask(10, 2), {}, 0, kCount});
  CHECK(wrong.num_samples == kCount);
  CHECK_FALSE(wrong.is_solved);
}

TEST_CASE("a few samples without any coincidence say nothing against chance") {
  CHECK(CheckAnswers({CountingTask(4000, 1), {}, 0, 3}).is_chance_right);
}

TEST_CASE("order-free accuracy: by hand") {
  const Baseline plain{.name = "commonest", .accuracy = 0.25};
  const std::vector<Answers> others = {{{3}, {1}}, {{3, 4}, {1, 2}}};
  // The commonest answer is 1: right once in the first sample, never in the second.
  const Estimate estimate = OrderFreeAccuracy({{{3, 4}, {1, 2}}, {{4}, {3}}}, others, plain);
  CHECK(std::abs(estimate.mean - 1.0 / 3) < 1e-15);
  CHECK(std::abs(estimate.error - 0.25) < 1e-15);  // sqrt(0.25 * 0.75 / 3), that of three guesses
}

TEST_CASE("order-free accuracy: positions that are known and answers that do not count") {
  const std::vector<Answers> others = {{{3, 4}, {1, 2}}, {{3}, {1}}};
  const Baseline by_place{.name = "at its position", .accuracy = 0.5, .knows_position = true};
  CHECK(OrderFreeAccuracy({{{3, 4}, {1, 2}}}, others, by_place).mean == 1);
  const Baseline without{.name = "without 1", .accuracy = 0.5, .without = {1}};
  CHECK(OrderFreeAccuracy({{{3, 4}, {1, 5}}, {{3}, {1}}}, others, without).mean == 0);
  CHECK(OrderFreeAccuracy({{{3, 4}, {1, 2}}}, others, without).mean == 1);
  const Baseline given{.name = "5 known", .accuracy = 0.5, .given = {5}};
  CHECK(OrderFreeAccuracy({{{3, 4}, {1, 5}}, {{3, 4}, {2, 5}}}, others, given).mean == 0.75);
}

}  // namespace
}  // namespace mixerbench::tasks
