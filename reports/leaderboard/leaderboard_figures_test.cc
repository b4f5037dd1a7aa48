// What the captions of a leaderboard say of its figures, and what is said where nothing is ranked.
// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/leaderboard_figures.h"

#include <string>
#include <vector>

#include "io/json.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/render/markdown_page.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// Seeds of a mixer on MQAR, all of which solve it.
std::vector<CellResult> Seeds(const std::string& mixer, int d_model, double lr, int num_seeds) {
  std::vector<CellResult> cells;
  for (int seed = 0; seed < num_seeds; ++seed) {
    CellResult cell = TrainedCell(
        "mqar/" + mixer + "/d_model=" + std::to_string(d_model) + ",lr=" + std::to_string(lr),
        static_cast<std::uint64_t>(seed));
    cell.config =
        Object{{"task", Object{{"name", "mqar"}, {"test", Array{Object{{"input_seq_len", 64}}}}}},
               {"model", Object{{"d_model", d_model}, {"sequence_mixer", Object{{"name", mixer}}}}},
               {"train", Object{{"lr", lr}}}};
    cell.threshold = 0.95;
    cell.steps_to_threshold = 100;
    cell.learning_curve = {{.step = 100, .train_loss = 1, .validation_accuracy = 1 - lr}};
    AccuracyRow row;
    row.axes = {{"input_seq_len", 64}};
    row.num_sequences = row.num_scored = 1000;
    row.num_correct = 990;
    row.accuracy = 0.99;
    cell.accuracy.push_back(row);
    cell.model.state_bytes_measured = std::int64_t{64} * d_model;
    cell.model.state_at_num_tokens = 64;
    cells.push_back(std::move(cell));
  }
  return cells;
}

Leaderboard BoardOf(const std::vector<std::vector<CellResult>>& parts, const Value& suite = {}) {
  std::vector<CellResult> cells;
  for (const auto& part : parts) cells.insert(cells.end(), part.begin(), part.end());
  return MakeLeaderboard({{"runs", MakeSweepReport("runs", suite, std::move(cells))}}, 1);
}

template <typename AnyFigure>
std::string CaptionOf(const AnyFigure& figure) {
  std::string text;
  for (const std::string& line : figure.caption) text += line + "\n";
  return text;
}

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("The figure of states names intervals and widths where it has them",
          "[reports][leaderboard]") {
  const std::string plain = CaptionOf(StateFigure(BoardOf({Seeds("gla", 64, 0.01, 2)})));
  CHECK(Says(plain, "For each task family a chart, at the setting"));
  CHECK_FALSE(Says(plain, "Bars:"));
  CHECK_FALSE(Says(plain, "Marks joined"));
  const std::string full =
      CaptionOf(StateFigure(BoardOf({Seeds("gla", 64, 0.01, 5), Seeds("gla", 128, 0.01, 5)})));
  CAPTURE(full);
  CHECK(Says(full, "Bars: 95 % interval of the mean over seeds. Marks joined: other widths."));
}

TEST_CASE("The figure of states says that mixers stand in charts by their families",
          "[reports][leaderboard]") {
  std::vector<std::vector<CellResult>> many;
  for (int m = 0; m < 30; ++m) many.push_back(Seeds("mixer" + std::to_string(m), 64, 0.01, 2));
  const Figure figure = StateFigure(BoardOf(many));
  CHECK(figure.panels.size() > 1);
  CHECK(Says(CaptionOf(figure),
             "For each task family a chart for each family of mixers, at the setting"));
}

TEST_CASE("A chosen rate is named where one was chosen", "[reports][leaderboard]") {
  const auto report = [](const std::string& name, const char* suite, int d_model) {
    std::vector<CellResult> cells = Seeds("gla", d_model, 0.01, 2);
    for (CellResult& cell : Seeds("gla", d_model, 0.001, 2)) cells.push_back(std::move(cell));
    return LeaderboardInput{name, MakeSweepReport(name, io::ParseJson(suite), std::move(cells))};
  };
  const auto caption_of = [](const std::vector<LeaderboardInput>& inputs) {
    return CaptionOf(TaskFigure(MakeLeaderboard(inputs, 1)));
  };
  const char* chooses =
      R"({"sweep": {"select": {"over": ["train.lr"], "by": "validation.accuracy"}}})";
  CHECK_FALSE(Says(caption_of({report("plain", "{}", 64)}), "chosen"));
  CHECK(Says(caption_of({report("chosen", chooses, 64)}), "; the chosen rate.\n"));
  CHECK(Says(caption_of({report("chosen", chooses, 64), report("plain", "{}", 128)}),
             "; the chosen rate where several were tried.\n"));
}

TEST_CASE("Where nothing is ranked nothing is said of the runs behind a figure",
          "[reports][leaderboard]") {
  const auto page_of = [](const Leaderboard& board) {
    return RenderMarkdownPage(MakeLeaderboardPage(board));
  };
  CHECK(Says(page_of(BoardOf({Seeds("gla", 64, 0.01, 2)})),
             "2 runs for MQAR (1 setting); 2 runs in all."));
  CHECK_FALSE(Says(page_of(MakeLeaderboard({}, 5)), "Behind each figure"));
}

}  // namespace mixerbench::reports
