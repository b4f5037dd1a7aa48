// Charts of learning and of slices.
// SPDX-License-Identifier: Apache-2.0
#include "reports/view/figures.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/figure_parts.h"
#include "reports/view/mixer_list.h"
#include "reports/view/study.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

constexpr double kChance = 0.01;

// A seed of a mixer that was validated every 100 steps with these accuracies and then completed.
CellResult Trained(const std::string& mixer, std::uint64_t seed, std::vector<double> validation) {
  CellResult cell = TrainedCell("mqar/" + mixer, seed);
  cell.config = Object{{"task", Object{{"name", "mqar"}}},
                       {"model", Object{{"sequence_mixer", Object{{"name", mixer}}}}}};
  for (const double accuracy : validation) {
    cell.step += 100;
    cell.learning_curve.push_back(
        {.step = cell.step, .train_loss = 1, .validation_accuracy = accuracy});
  }
  AccuracyRow row;
  row.axes = {{"input_seq_len", 64}};
  row.num_sequences = row.num_scored = 1000;
  row.num_correct = static_cast<std::int64_t>(validation.back() * 1000);
  row.accuracy = validation.back();
  row.chance = kChance;
  cell.accuracy.push_back(row);
  cell.threshold = 0.95;
  return cell;
}

// The marks of the thick curve of the only mixer.
std::vector<std::pair<double, double>> ThickOf(std::vector<CellResult> cells) {
  const SweepReport report = MakeSweepReport("curves", {}, std::move(cells));
  const MixerList mixers({&report});
  const auto figure = CurvesFigure(StudiesOf(report, mixers).front(), mixers);
  REQUIRE(figure);
  std::vector<std::pair<double, double>> points;
  for (const Series& series : figure->panels.at(0).series) {
    if (series.form != Series::Form::kLine) continue;
    for (const Mark& mark : series.marks) points.emplace_back(mark.x, mark.y);
  }
  return points;
}

using Points = std::vector<std::pair<double, double>>;

}  // namespace

TEST_CASE("The median of learning curves keeps seeds that stopped early", "[reports][view]") {
  // Two of three solve and stop; without them the curve would fall to the third.
  CHECK(ThickOf({Trained("fox", 0, {0.3, 0.99}), Trained("fox", 1, {0.97}),
                 Trained("fox", 2, {0.1, 0.1, 0.2, 0.2})}) ==
        Points{{100, 0.3}, {200, 0.97}, {300, 0.97}, {400, 0.97}});
}

TEST_CASE("In the median of learning curves a seed that failed counts as chance from there on",
          "[reports][view]") {
  std::vector<CellResult> cells = {Trained("fox", 0, {0.5}), Trained("fox", 1, {0.4}),
                                   Trained("fox", 2, {0.6, 0.99})};
  for (CellResult& cell : cells) {
    if (cell.seed == 2) continue;
    cell.state = CellState::kDiverged;
    cell.accuracy.front().state = CellState::kSkipped;
    cell.accuracy.front().accuracy.reset();
  }
  CHECK(ThickOf(cells) == Points{{100, 0.5}, {200, kChance}});
  // One of them before its first validation.
  cells[1].learning_curve.clear();
  CHECK(ThickOf(cells) == Points{{100, 0.5}, {200, kChance}});
  cells[0].learning_curve.clear();
  CHECK(ThickOf(cells) == Points{{100, kChance}, {200, kChance}});
  cells[0].learning_curve.push_back({.step = 100, .train_loss = 1, .validation_accuracy = 0.5});
  cells[1].learning_curve.push_back({.step = 100, .train_loss = 1, .validation_accuracy = 0.4});
  // What was interrupted is not known from there on.
  for (CellResult& cell : cells) {
    if (cell.seed != 2) cell.state = CellState::kInterrupted;
  }
  CHECK(ThickOf(cells) == Points{{100, 0.5}, {200, 0.99}});
}

TEST_CASE("A caption of learning curves says what a median counts, where there is one",
          "[reports][view]") {
  const auto caption_of = [](std::vector<CellResult> cells) {
    const SweepReport report = MakeSweepReport("curves", {}, std::move(cells));
    const MixerList mixers({&report});
    const auto figure = CurvesFigure(StudiesOf(report, mixers).front(), mixers);
    std::string text;
    for (const std::string& line : figure.value().caption) text += line + " ";
    return text;
  };
  const char* rule = "a seed that stopped early keeps its last value";
  const CellResult first = Trained("fox", 0, {0.3, 0.99});
  CHECK(caption_of({first}).find(rule) == std::string::npos);
  CHECK(caption_of({first, Trained("fox", 1, {0.3})}).find(rule) != std::string::npos);
}

TEST_CASE("Accuracy at matched state has a chart for each task", "[reports][view]") {
  std::vector<CellResult> cells;
  for (const int length : {64, 128}) {
    for (const int vocab : {256, 512}) {
      for (const auto& [width, bytes] : {std::pair{16, 1024}, {32, 4096}}) {
        CellResult cell = Trained("fox", 0, {0.5});
        cell.name += "/input_seq_len=" + std::to_string(length) +
                     ",vocab_size=" + std::to_string(vocab) + ",d_model=" + std::to_string(width);
        cell.group_id = cell.run_id = cell.name;
        cell.config.as_object().at("task").as_object()["test"] =
            Array{Object{{"input_seq_len", length}, {"vocab_size", vocab}}};
        cell.model.state_bytes_measured = bytes;
        cell.model.state_at_num_tokens = 64;
        cells.push_back(std::move(cell));
      }
    }
  }
  const SweepReport report = MakeSweepReport("sizes", {}, std::move(cells));
  const MixerList mixers({&report});
  std::vector<std::string> titles;
  for (const Block& block : TrainingFigures(StudiesOf(report, mixers).front(), mixers)) {
    const Figure* figure = std::get_if<Figure>(&block);
    if (!figure || figure->title != "Accuracy at matched state") continue;
    for (const Panel& panel : figure->panels) titles.push_back(panel.title);
  }
  CHECK(titles == std::vector<std::string>{"64 tokens, vocab_size 256", "64 tokens, vocab_size 512",
                                           "128 tokens, vocab_size 256",
                                           "128 tokens, vocab_size 512"});
}

TEST_CASE("Charts of slices stand in the order of their segments", "[reports][view]") {
  CellResult cell = Trained("gla", 0, {0.5});
  const AccuracyRow whole = cell.accuracy.front();
  cell.accuracy.clear();
  for (const int length : {2, 10, 9, 20}) {
    AccuracyRow row = whole;
    row.axes = {{"input_seq_len", length}};
    cell.accuracy.push_back(row);
    row.slice = "gap";
    for (const char* bucket : {"0", "1-3"}) {
      row.bucket = bucket;
      cell.accuracy.push_back(row);
    }
  }
  const SweepReport report = MakeSweepReport("slices", {}, {cell});
  const MixerList mixers({&report});
  std::vector<std::string> titles;
  for (const Block& block : TrainingFigures(StudiesOf(report, mixers).front(), mixers)) {
    const Figure* figure = std::get_if<Figure>(&block);
    if (!figure || figure->title != "Where accuracy is lost") continue;
    for (const Panel& panel : figure->panels) titles.push_back(panel.title);
  }
  CHECK(titles == std::vector<std::string>{"by gap: 2 tokens", "by gap: 9 tokens",
                                           "by gap: 10 tokens", "by gap: 20 tokens"});
}

TEST_CASE("Depths are in order where a short text lacks some", "[reports][view]") {
  CellResult cell = Trained("fox", 0, {0.5});
  const auto add = [&](int length, const std::string& bucket) {
    AccuracyRow row = cell.accuracy.front();
    row.axes = {{"input_seq_len", length}};
    row.slice = "depth";
    row.bucket = bucket;
    cell.accuracy.push_back(row);
  };
  for (const char* bucket : {"10-20", "90-100"}) add(64, bucket);
  for (const char* bucket : {"0-10", "10-20", "50-60", "90-100"}) add(128, bucket);
  const SweepReport report = MakeSweepReport("depths", {}, {cell});
  const MixerList mixers({&report});
  std::vector<std::string> depths;
  for (const Block& block : TrainingFigures(StudiesOf(report, mixers).front(), mixers)) {
    const auto* figure = std::get_if<HeatFigure>(&block);
    if (!figure || figure->heats.front().corner != "depth") continue;
    for (const auto& [bucket, data] : figure->heats.front().rows) depths.push_back(bucket);
  }
  CHECK(depths == std::vector<std::string>{"0-10", "10-20", "50-60", "90-100"});
}

}  // namespace mixerbench::reports
