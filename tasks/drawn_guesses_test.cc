// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_guesses.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tasks/dataset_checks.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

TaskRegistry AllTasks() {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  return registry;
}

// Share of the scored positions of 1,000 samples at which the commonest of the answers' tokens that
// stand up to there, counted anew each time, is right; each of equally common ones as often. The
// tokens that are answers at all are those from first to last.
Estimate CommonestUpTo(const Task& task, std::int32_t first, std::int32_t last, bool but_last) {
  std::vector<std::pair<double, double>> samples;
  double num_hits = 0;
  double num_scored = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Sample sample = MakeSample(task, 1, 2, i);
    double hits = 0;
    double scored = 0;
    for (const std::int32_t position : ScoredPositions(sample)) {
      const auto end = static_cast<std::size_t>(position);
      std::map<std::int32_t, int> counts;
      for (std::size_t t = 0; t <= end; ++t) {
        const std::int32_t token = sample.inputs[t];
        if (token < first || token > last || (but_last && token == sample.inputs[end])) continue;
        ++counts[token];
      }
      int most = 0;
      int num_commonest = 0;
      for (const auto& [token, count] : counts) {
        num_commonest = count > most ? 1 : num_commonest + (count == most);
        most = std::max(most, count);
      }
      const auto found = counts.find(sample.labels[end]);
      if (found != counts.end() && found->second == most) hits += 1.0 / num_commonest;
      ++scored;
    }
    samples.emplace_back(hits, scored);
    num_hits += hits;
    num_scored += scored;
  }
  const double mean = num_hits / num_scored;
  double squares = 0;
  for (const auto& [hits, scored] : samples) squares += std::pow(hits - mean * scored, 2);
  return {mean, std::sqrt(squares) / num_scored};
}

TEST_CASE("a guesser that associates nothing scores what the second baseline says") {
  struct Case {
    std::string task;
    Object options;
    std::int32_t first, last;  // of the tokens that are answers
    bool but_last = false;
    double measured = 0;  // by others, on other samples; 0: unknown
  };
  const std::vector<Case> cases = {
      {"mad_icr", {}, 8, 15, false, 0.319},
      {"mad_icr", {{"vocab_size", 32}, {"noise_vocab_size", 16}, {"frac_noise", 0.4}}, 8, 15},
      {"mad_fuzzy", {{"key_length", "longest"}}, 7, 14, true, 0.221},
      {"mad_selective_copying", {}, 0, 13, false, 0.204},
      {"selective_copying", {{"prefix_len", 256}}, 1, 14, false, 0.203},
  };
  const TaskRegistry registry = AllTasks();
  for (const Case& c : cases) {
    const auto task = registry.Find(c.task, "/task").create(c.options, "/task");
    const std::vector<Baseline> baselines = task->baselines();
    REQUIRE(baselines.size() == 2);
    const Estimate brute = CommonestUpTo(*task, c.first, c.last, c.but_last);
    INFO(c.task << " counted " << brute.mean << " +- " << brute.error << ", declared "
                << baselines[1].accuracy << " +- " << baselines[1].error);
    const double error = std::hypot(brute.error, baselines[1].error);
    CHECK(error < 0.01);
    CHECK(std::abs(brute.mean - baselines[1].accuracy) < 3 * error);
    CHECK(brute.mean > 1.5 * baselines[0].accuracy);
    if (c.measured != 0) CHECK(std::abs(baselines[1].accuracy - c.measured) < 0.015);
  }
}

// The settings are not those of a preset, whose chance the conformance test checks.
TEST_CASE("chance is as declared where options are not the defaults") {
  struct Case {
    std::string task;
    Object options;
  };
  const std::vector<Case> cases = {
      {"mod_arith", {{"expression_len", 3}, {"precedence", true}}},
      {"mod_arith", {{"modulus", 2}, {"expression_len", 5}, {"precedence", true}}},
      {"mod_arith",
       {{"modulus", 6}, {"expression_len", 9}, {"precedence", true}, {"cumulative", true}}},
      {"mad_compression", {{"input_seq_len", 4}, {"noise_vocab_size", 4}, {"frac_noise", 0.5}}},
      {"mad_memorization", {{"vocab_size", 8}}},
      {"str_copy", {{"min_len", 10}, {"max_len", 10}, {"context_len", 24}, {"packed", false}}},
      {"str_copy", {{"min_len", 2}, {"max_len", 12}, {"context_len", 64}}},
      {"vocab_majority", {{"vocab_size", 3}, {"input_seq_len", 2}}},
      {"vocab_majority", {{"vocab_size", 3}, {"input_seq_len", 5}}},
      {"vocab_majority", {{"vocab_size", 3}, {"input_seq_len", 129}}},
      {"vocab_majority", {{"vocab_size", 16}, {"input_seq_len", 16}}},
  };
  const TaskRegistry registry = AllTasks();
  for (const Case& c : cases) {
    const auto task = registry.Find(c.task, "/task").create(c.options, "/task");
    const AnswerCheck check = CheckAnswers({*task, DeriveKey(task->canon(), 1, 2), 0, 20000});
    INFO(c.task << " " << check.order_free.mean << " +- " << check.order_free.error << ", declared "
                << task->baselines().front().accuracy);
    CHECK(check.is_chance_right);
    CHECK(check.is_solved);
  }
}

TEST_CASE("some value of the context is drawn from the pairs shown") {
  const std::vector<Object> settings = {
      {},
      {{"target_dup", 5}, {"input_seq_len", 32}, {"vocab_size", 64}},
      {{"target_dup", 2},
       {"input_seq_len", 16},
       {"vocab_size", 16},
       {"noise_vocab_size", 4},
       {"frac_noise", 0.5},
       {"hint_prefix", 3}},
  };
  const TaskRegistry registry = AllTasks();
  for (const Object& options : settings) {
    const auto task = registry.Find("hint_recall", "/task").create(options, "/task");
    const std::int64_t vocab_size =
        options.contains("vocab_size") ? options.at("vocab_size").as_int() : 8192;
    double sum = 0;
    double squares = 0;
    constexpr int kNumSamples = 4000;
    for (std::uint64_t i = 0; i < kNumSamples; ++i) {
      const Sample sample = MakeSample(*task, 1, 2, i);
      double hits = 0;
      double shown = 0;
      for (const std::int32_t token : sample.inputs) {
        shown += token >= vocab_size / 2 && token < vocab_size;
        hits += token == sample.labels.back();
      }
      sum += hits / shown;
      squares += hits / shown * hits / shown;
    }
    const double mean = sum / kNumSamples;
    const double error = std::sqrt((squares / kNumSamples - mean * mean) / kNumSamples);
    CHECK(std::abs(mean - task->baselines()[1].accuracy) < 3 * error + 1e-9);
  }
}

}  // namespace
}  // namespace mixerbench::tasks
