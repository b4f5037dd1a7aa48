// SPDX-License-Identifier: Apache-2.0
#include "gate/testing/made_results.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;

CellResult Named(const std::string& task, const std::string& mixer, const char* kind,
                 const std::string& code) {
  CellResult cell;
  cell.name = task + "/" + mixer + "/d_model=64";
  cell.kind = kind;
  cell.state = CellState::kCompleted;
  cell.experiment_id = "experiment of " + cell.name + " " + kind;
  cell.code_id = "code " + code;
  cell.environment = Object{{"device", "cpu"},
                            {"libtorch", "2.11.0"},
                            {"cpu", Object{{"model", "Example CPU"}, {"threads", 1}}}};
  cell.started = "2026-11-22T08:00:00Z";
  return cell;
}

}  // namespace

double UniformDraw(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

double NormalDraw(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(1 - UniformDraw(random)));
  return radius * std::cos(2 * std::numbers::pi * UniformDraw(random));
}

CellResult MadeCell(const Setting& setting, std::uint64_t seed, const std::string& code,
                    std::mt19937_64& random) {
  CellResult cell = Named(setting.task, setting.mixer, "train", code);
  cell.seed = seed;
  cell.data_id = "data of seed " + std::to_string(seed);
  cell.data_hash =
      Object{{"train", "sha256:train" + std::to_string(seed)}, {"test", "sha256:test"}};
  cell.threshold = 0.95;
  cell.step = kBudget;
  cell.planned_steps = kBudget;
  const bool is_solved = UniformDraw(random) < setting.solve_probability;
  const double steps = setting.steps * std::exp(setting.steps_sd * NormalDraw(random));
  const double accuracy = setting.accuracy + setting.accuracy_sd * NormalDraw(random);
  if (is_solved && steps < static_cast<double>(kBudget)) {
    cell.steps_to_threshold = static_cast<std::int64_t>(std::lround(steps));
  }
  // What all builds do alike, then what only this one does.
  cell.learning_curve.resize(2);
  cell.learning_curve[0].step = 10;
  cell.learning_curve[0].train_loss = 4 + 0.01 * static_cast<double>(seed);
  cell.learning_curve[1].step = 1000;
  cell.learning_curve[1].train_loss = 1 + 0.1 * UniformDraw(random);
  reports::AccuracyRow row;
  row.axes = Object{{"input_seq_len", 64}, {"num_kv_pairs", 4}};
  row.num_sequences = 1000;
  row.num_scored = 4000;
  row.chance = kChance;
  row.guesses = {{"uniform over values", kChance}};
  row.accuracy = std::clamp(is_solved ? accuracy : 0.2, 0.0, 1.0);
  row.num_correct = std::llround(*row.accuracy * 4000);
  cell.accuracy.push_back(row);
  return cell;
}

std::vector<CellResult> MadeCells(const std::vector<Setting>& settings, std::uint64_t seeds,
                                  const std::string& code, std::mt19937_64& random) {
  std::vector<CellResult> cells;
  for (const Setting& setting : settings) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      cells.push_back(MadeCell(setting, seed, code, random));
    }
  }
  return cells;
}

CellResult MadeTimes(const std::string& mixer, double ms, const std::string& code) {
  CellResult cell = Named("throughput", mixer, "throughput", code);
  cell.model.state_bytes_measured = 4096;
  for (const std::int64_t length : {256, 512}) {
    reports::ThroughputRow row;
    row.phase = "fwd_bwd";
    row.batch_size = 8;
    row.seq_len = length;
    row.dtype = "bf16";
    row.clock = "cuda_event";
    row.median_ms = ms * static_cast<double>(length) / 256;
    row.samples_ms = {*row.median_ms};
    row.peak_memory_bytes = std::int64_t{1} << 20;
    row.parity_check = "passed";
    cell.throughput.push_back(row);
  }
  return cell;
}

std::vector<ProcessPair> MadePairs(std::int64_t pairs, double growth, double noise,
                                   std::mt19937_64& random) {
  std::vector<ProcessPair> made;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double base = std::exp(noise * NormalDraw(random));
    const double candidate = (1 + growth) * std::exp(noise * NormalDraw(random));
    made.push_back({{MadeTimes("gla", base, "1")}, {MadeTimes("gla", candidate, "2")}, i % 2 == 1});
  }
  return made;
}

}  // namespace mixerbench::gate
