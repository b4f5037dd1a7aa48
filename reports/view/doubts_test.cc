// SPDX-License-Identifier: Apache-2.0
#include "reports/view/doubts.h"

#include <string>
#include <utility>

#include "reports/testing/test_cells.h"
#include "reports/view/mixer_list.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

constexpr double kChance = 1.0 / 16;

// A training with one test segment of which `right` of 1000 positions are right, within 3 points.
CellResult Run(const std::string& mixer, std::uint64_t seed, std::int64_t right) {
  CellResult cell = TrainedCell("mqar/" + mixer + "/d_model=64", seed);
  cell.config = Object{{"task", Object{{"name", "mqar"}}},
                       {"model", Object{{"sequence_mixer", Object{{"name", mixer}}}}}};
  cell.threshold = 0.95;
  AccuracyRow row;
  row.axes = {{"input_seq_len", 64}};
  row.num_scored = 1000;
  row.num_correct = right;
  row.accuracy = static_cast<double>(right) / 1000;
  row.ci_items = Interval{"beta", 0.95, *row.accuracy - 0.03, *row.accuracy + 0.03};
  row.chance = kChance;
  cell.accuracy.push_back(row);
  cell.learning_curve.push_back(
      {.step = 100,
       .train_loss = 0.5 + 0.001 * static_cast<double>(right + 7 * mixer.size()),
       .validation_accuracy = row.accuracy});
  return cell;
}

// "lead text" of every doubt.
std::vector<std::string> Doubts(std::vector<CellResult> cells) {
  const SweepReport report = MakeSweepReport("doubts", {}, std::move(cells));
  const MixerList mixers({&report});
  std::vector<std::string> texts;
  for (const Sentence& sentence : DoubtsOf(StudiesOf(report, mixers), mixers)) {
    texts.push_back(sentence.lead + " " + sentence.text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("Doubts: none of results as they are", "[reports][view]") {
  CHECK(Doubts({Run("gla", 0, 990), Run("gla", 1, 700), Run("attention", 0, 60)}).empty());
}

TEST_CASE("Doubts: more than the ceiling, beyond what sampling explains", "[reports][view]") {
  CellResult cell = Run("gla", 3, 900);
  cell.accuracy.front().ceiling = 0.85;  // 1.7 half widths above
  CHECK(Doubts({cell}).empty());
  cell.accuracy.front().ceiling = 0.8;
  CHECK(Doubts({cell}) ==
        Texts{"More right than can be known, mqar: GLA, seed 3 (90.00 % of 80.00 %)."});
}

TEST_CASE("Doubts: below chance, unless longer than trained", "[reports][view]") {
  CellResult cell = Run("gla", 0, 20);
  cell.accuracy.front().ci_items = Interval{"beta", 0.95, 0.01, 0.03};
  CHECK(Doubts({cell}) ==
        Texts{"Fewer right than by chance, mqar: GLA, seed 0 (2.00 %, chance 6.25 %)."});
  cell.accuracy.front().ci_items->high = 0.05;  // 1.4 half widths below
  CHECK(Doubts({cell}).empty());
  cell.accuracy.front().ci_items->high = 0.03;
  cell.accuracy.front().extrapolated = true;
  CHECK(Doubts({cell}).empty());
}

TEST_CASE("Doubts: nothing left to learn and a test at chance", "[reports][view]") {
  CellResult cell = Run("gla", 0, 70);
  cell.learning_curve.back().train_loss = 0.002;
  CHECK(Doubts({cell}) == Texts{"No train loss left and a test at chance, mqar: GLA, seed 0 (train "
                                "loss 0.002)."});
  cell.accuracy.front().ci_items->low = 0.065;
  CHECK(Doubts({cell}).empty());
}

TEST_CASE("Doubts: seeds of one verdict that are far apart", "[reports][view]") {
  std::vector<CellResult> cells = {Run("gla", 0, 100), Run("gla", 1, 700)};
  CHECK(Doubts(cells) == Texts{"Seeds of one verdict far apart, mqar: GLA (0 of 2 solved, 10.0 to "
                               "70.0 %)."});
  cells[1].steps_to_threshold = 50;  // then they have two verdicts
  CHECK(Doubts(cells).empty());
  cells[0].steps_to_threshold = 60;
  CHECK(Doubts(cells).size() == 1);
}

TEST_CASE("Doubts: mixers that answered and lost the same", "[reports][view]") {
  CellResult copy = Run("gla", 0, 400);
  copy.name = "mqar/hgrn2/d_model=64";
  copy.group_id = copy.run_id = copy.name;
  const std::vector<CellResult> both = {Run("gla", 0, 400), copy};
  CHECK(Doubts(both) == Texts{"The same answers, mqar: all mixers have the same train loss and as "
                              "many right answers in every setting, segment and seed."});
  CHECK(
      Doubts({both[0], both[1], Run("attention", 0, 500)}) ==
      Texts{"The same answers, mqar: GLA, hgrn2 have the same train loss and as many right answers "
            "in every setting, segment and seed."});
  copy.learning_curve.back().train_loss += 1e-12;
  CHECK(Doubts({both[0], copy}).empty());
  // Where all is right, equal mixers are as they should be.
  CellResult perfect = Run("gla", 0, 1000), other = perfect;
  other.name = other.group_id = other.run_id = "mqar/hgrn2/d_model=64";
  CHECK(Doubts({perfect, other}).empty());
}

}  // namespace
}  // namespace mixerbench::reports
