// The view model: what varies becomes columns, what is the same is said once, labels are short.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "io/json.h"
#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/figure_parts.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/mixer_style.h"
#include "reports/view/numbers.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"
#include "reports/view/trained_tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// A trained cell with one segment, as suites that sweep the task's size make them.
CellResult Cell(const std::string& mixer, int length, int pairs, double lr, double accuracy,
                double validation, std::uint64_t seed = 0) {
  const std::string length_text = std::to_string(length);
  CellResult cell =
      TrainedCell("mqar/" + mixer + "/lr=" + std::to_string(lr) + ",input_seq_len=" + length_text +
                      ",num_kv_pairs=" + std::to_string(pairs) +
                      ",batch_size=" + std::to_string(1 << 14 >> (length / 64)),
                  seed);
  cell.config = Object{
      {"task", Object{{"name", "mqar"},
                      {"test", Array{Object{{"input_seq_len", length}, {"num_kv_pairs", pairs}}}}}},
      {"model", Object{{"d_model", 64},
                       {"sequence_mixer", Object{{"name", mixer.substr(0, mixer.find(','))}}}}},
      {"train", Object{{"lr", lr}, {"early_stop_accuracy", 0.99}}}};
  AccuracyRow row;
  row.axes = {{"input_seq_len", length}};
  row.num_sequences = 3000;
  row.num_scored = 12000;
  row.num_correct = static_cast<std::int64_t>(accuracy * 12000);
  row.accuracy = accuracy;
  row.ci_items = Interval{"beta", 0.95, accuracy - 0.01, std::min(1.0, accuracy + 0.01)};
  row.chance = 1.0 / 8192;
  row.guesses = {{"uniform over values", row.chance}, {"some value of the context", 1.0 / pairs}};
  cell.accuracy.push_back(row);
  cell.threshold = 0.95;
  if (validation >= 0.95) cell.steps_to_threshold = 100;
  cell.step = 1000;
  cell.learning_curve.push_back(
      {.step = 100, .train_loss = 1, .validation_accuracy = validation, .lr = lr, .elapsed_s = 1});
  return cell;
}

SweepReport TwoSizes() {
  std::vector<CellResult> cells;
  for (const char* mixer : {"attention,num_heads=1", "gla"}) {
    for (const auto& [length, pairs] : {std::pair{64, 4}, {256, 16}}) {
      for (const double lr : {0.001, 0.01}) {
        const bool is_good = lr < 0.005;
        cells.push_back(Cell(mixer, length, pairs, lr, is_good ? 0.97 : 0.3, is_good ? 0.97 : 0.3));
      }
    }
  }
  return MakeSweepReport("sizes", RateChoice(), std::move(cells));
}

}  // namespace

TEST_CASE("Settings come from what varies; values that move together are one axis",
          "[reports][view]") {
  const SweepReport report = TwoSizes();
  const MixerList mixers({&report});
  const std::vector<Study> studies = StudiesOf(report, mixers);
  REQUIRE(studies.size() == 1);
  const Study& study = studies.front();
  CHECK(study.mixers.size() == 2);
  REQUIRE(study.settings.size() == 2);
  CHECK(study.settings[0].text == "64 tokens, 4 pairs");
  CHECK(study.settings[1].text == "256 tokens, 16 pairs");
  CHECK(study.chosen_keys == std::vector<std::string>{"lr"});
  for (const int mixer : study.mixers) {
    for (std::size_t s = 0; s < 2; ++s) {
      REQUIRE(study.Shown(mixer, s));
      CHECK(ChosenText(study, *study.Shown(mixer, s)) == "lr 1e-3");
      CHECK(study.At(mixer, s)->all.size() == 2);
    }
  }
}

// A cell that uses the training of `trained`, tested on inputs of this length.
CellResult UseOf(const CellResult& trained, const std::string& kind, int length) {
  CellResult cell;
  cell.name = trained.name;
  cell.kind = kind;
  cell.seed = trained.seed;
  cell.training_id = trained.training_id;
  cell.group_id = trained.group_id + kind + std::to_string(length);
  cell.run_id = trained.run_id + kind + std::to_string(length);
  cell.state = CellState::kCompleted;
  cell.config = trained.config;
  cell.config.as_object().at("task").as_object()["test"] = Array{Object{{"input_seq_len", length}}};
  return cell;
}

TEST_CASE("What is done with trained weights is shown of chosen settings, by size",
          "[reports][view]") {
  SweepReport plain = TwoSizes();
  CHECK_FALSE(EvaluationTable(plain, MixerList({&plain})));
  CHECK_FALSE(TapTable(plain, MixerList({&plain})));
  std::vector<CellResult> cells = plain.cells;
  for (CellResult& trained : plain.cells) {
    if (trained.name.find("gla") == std::string::npos) continue;
    if (trained.name.find("len=64") == std::string::npos) continue;
    trained.training_id = trained.run_id;
    std::erase_if(cells, [&](const CellResult& cell) { return cell.run_id == trained.run_id; });
    cells.push_back(trained);
    for (const int length : {1024, 512}) {
      CellResult evaluated = UseOf(trained, "evaluate", length);
      AccuracyRow row = trained.accuracy.front();
      row.axes = {{"input_seq_len", length}};
      evaluated.accuracy.push_back(row);
      cells.push_back(std::move(evaluated));
    }
    CellResult analysed = UseOf(trained, "analyse", 64);
    TapRow tap{
        .axes = {{"input_seq_len", 64}}, .tap = "state", .path = "layers.0.state", .reason = {}};
    tap.num_values = 8;
    tap.mean = -0.25;
    tap.std = 0.5;
    tap.min = -2;
    tap.max = 3;
    analysed.taps.push_back(tap);
    TapRow none{.axes = tap.axes, .tap = "router", .path = {}, .reason = "no layer records it"};
    none.state = CellState::kSkipped;
    analysed.taps.push_back(none);
    cells.push_back(std::move(analysed));
  }
  const SweepReport report = MakeSweepReport("sizes", plain.config, std::move(cells));
  const MixerList mixers({&report});
  const auto evaluations = EvaluationTable(report, mixers);
  REQUIRE(evaluations);
  REQUIRE(evaluations->rows.size() == 2);  // of two rates the chosen one
  CHECK(evaluations->rows[0].cells[0].text == "GLA");
  CHECK(evaluations->rows[0].cells[3].text == "512 tokens");
  CHECK(evaluations->rows[1].cells[3].text == "1,024 tokens");
  CHECK(evaluations->rows[1].cells[3].value == 1024);  // which it is sorted by
  CHECK(evaluations->rows[0].cells[5].text == "97.00");
  const auto taps = TapTable(report, mixers);
  REQUIRE(taps);
  REQUIRE(taps->rows.size() == 2);
  CHECK(taps->rows[0].cells[4].text == "state");
  CHECK(taps->rows[0].cells[5].text == "layers.0");
  CHECK(taps->rows[0].cells[6].value == -0.25);
  CHECK(taps->rows[0].cells[9].value == 3);
  CHECK(taps->rows[1].cells[4].text == "router");
  CHECK(taps->rows[1].cells[5].text == "no layer records it");
  CHECK_FALSE(FailureTable(report, mixers));
  // Studies are about trainings alone.
  CHECK(StudiesOf(report, mixers).front().segments.size() ==
        StudiesOf(plain, mixers).front().segments.size());
}

TEST_CASE("A table has mixers in rows, sizes in columns, the chosen rate small",
          "[reports][view]") {
  const SweepReport report = TwoSizes();
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  const std::vector<Table> tables = AccuracyTables(study, mixers);
  REQUIRE(tables.size() == 1);
  const Table& table = tables.front();
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].cells[0].text == "Attention");
  CHECK(table.rows[1].cells[0].text == "GLA");
  CHECK(table.columns[1].label == "64 tokens");
  CHECK(table.columns[1].unit == "4 pairs");
  CHECK(table.rows[0].cells[1].text == "97.00");
  CHECK(table.rows[0].cells[1].sub == "96.00–98.00");
  CHECK(table.rows[0].cells[3].sub == "lr 1e-3");
  REQUIRE(table.foot.size() == 2);  // the stronger guesser beside the results
  CHECK(table.foot[0].cells[0].text == "guess: some value of the context");
  CHECK(table.foot[0].cells[1].text == "25");
  CHECK(table.foot[0].cells[2].text == "6.25");
}

TEST_CASE("One setting has all lengths that are tested, in tables that fit on paper",
          "[reports][view]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"mamba", "hyena"}) {
    for (const double lr : {0.001, 0.01}) {
      CellResult cell = Cell(mixer, 64, 4, lr, 0.9, lr < 0.005 ? 0.9 : 0.3);
      const AccuracyRow row = cell.accuracy.front();
      for (int length = 128; length <= 1 << 20; length *= 2) {
        cell.accuracy.push_back(row);
        cell.accuracy.back().axes = {{"input_seq_len", length}};
      }
      cells.push_back(std::move(cell));
    }
  }
  const SweepReport report = MakeSweepReport("lengths", RateChoice(), std::move(cells));
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  REQUIRE(study.axes.empty());
  REQUIRE(study.segments.size() == 15);

  const std::vector<Table> tables = AccuracyTables(study, mixers);
  REQUIRE(tables.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    std::ptrdiff_t num_lengths = 0;
    for (const Table& table : tables) {
      REQUIRE(table.rows.size() >= 2);
      const Row& row = table.rows[i];
      num_lengths += std::count_if(row.cells.begin(), row.cells.end(), [](const Datum& datum) {
        return datum.text.starts_with("90.0");
      });
    }
    CHECK(num_lengths == 15);
  }
}

TEST_CASE("Failed seeds are words or daggers, never gaps", "[reports][view]") {
  std::vector<CellResult> cells;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    cells.push_back(Cell("gla", 64, 4, 0.001, 0.9, 0.9, seed));
    cells.push_back(Cell("retnet", 64, 4, 0.001, 0.9, 0.9, seed));
    CellResult& failed = cells.back();
    if (seed < 1) continue;
    failed.state = CellState::kDiverged;
    failed.reason = "loss is not finite";
    failed.accuracy.clear();
  }
  const SweepReport report = MakeSweepReport("failed", {}, std::move(cells));
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  const Table table = AccuracyTables(study, mixers).front();
  const Row& retnet = table.rows[1];
  CHECK(retnet.cells[0].text == "RetNet");
  CHECK(retnet.cells[1].text.find("†") != std::string::npos);
  const auto failures = FailureTable(report, mixers);
  REQUIRE(failures);
  CHECK(failures->rows.size() == 2);
  CHECK(failures->rows[0].cells[4].text == "loss is not finite");
}

// The panels of the figure with this title.
std::vector<Panel> PanelsOf(const Study& study, const MixerList& mixers, const std::string& title) {
  for (const Block& block : TrainingFigures(study, mixers)) {
    const Figure* figure = std::get_if<Figure>(&block);
    if (figure && figure->title == title) return figure->panels;
  }
  return {};
}

TEST_CASE("A chart has both guessers, the threshold, and failed seeds at chance",
          "[reports][view]") {
  std::vector<CellResult> cells;
  for (const auto& [length, pairs] : {std::pair{64, 4}, {256, 16}}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      cells.push_back(Cell("gla", length, pairs, 0.001, 0.6, 0.6, seed));
      cells.push_back(Cell("retnet", length, pairs, 0.001, 0.6, 0.6, seed));
      // One of three at the first size, all at the second.
      if (seed > 0 && length == 64) continue;
      cells.back().state = CellState::kDiverged;
      cells.back().accuracy.clear();
    }
  }
  const SweepReport report = MakeSweepReport("failed", {}, std::move(cells));
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  const std::vector<Panel> panels = PanelsOf(study, mixers, "Accuracy over size");
  REQUIRE(panels.size() == 1);
  std::vector<std::string> labels;
  for (const Reference& reference : panels[0].references) {
    if (!reference.label.empty()) labels.push_back(reference.label);
  }
  CHECK(labels == std::vector<std::string>{"uniform over values", "some value of the context",
                                           "solved from 95 %"});
  int num_crosses = 0;
  for (const Series& series : panels[0].series) {
    for (const Mark& mark : series.marks) {
      if (mark.failed.empty()) continue;
      ++num_crosses;
      CHECK(mark.failed == "diverged");
      CHECK(mark.y < 0.001);
      if (mark.x == 0) CHECK(mark.note.find("1 of 3 seeds failed") != std::string::npos);
    }
  }
  CHECK(num_crosses == 2);
}

TEST_CASE("A chart of slices names no setting where there is one", "[reports][view]") {
  CellResult cell = Cell("gla", 64, 4, 0.001, 0.6, 0.6);
  for (const char* bucket : {"0", "1-3"}) {
    AccuracyRow row = cell.accuracy.front();
    row.slice = "gap";
    row.bucket = bucket;
    cell.accuracy.push_back(row);
  }
  const SweepReport report = MakeSweepReport("one", {}, {cell});
  const MixerList mixers({&report});
  const std::vector<Panel> panels =
      PanelsOf(StudiesOf(report, mixers).front(), mixers, "Where accuracy is lost");
  REQUIRE(panels.size() == 1);
  CHECK(panels[0].title == "by gap");
}

TEST_CASE("More mixers than one chart holds: a panel each, its setting on a line of its own",
          "[reports][view]") {
  std::vector<CellResult> cells;
  Panel panel{.title = "64 tokens", .describe = {}, .x = {}, .y = {}};
  for (int i = 0; i <= static_cast<int>(kMaxInOneChart); ++i) {
    cells.push_back(Cell("mixer" + std::to_string(i), 64, 4, 0.001, 0.9, 0.9));
    panel.series.push_back({.mixer = i, .marks = {{.x = 0, .y = 0.5}}});
  }
  const SweepReport report = MakeSweepReport("many", {}, std::move(cells));
  const MixerList mixers({&report});
  Figure figure{.title = {}, .caption = {}, .panels = {}};
  DrawPanels({panel, panel}, mixers, figure);
  REQUIRE(figure.panels.size() == 2 * (kMaxInOneChart + 1));
  CHECK(figure.panels[0].title == LabelOf(mixers, 0) + "\n64 tokens");
}

TEST_CASE("More mixers than small charts: a panel for each family, on the same axes",
          "[reports][view]") {
  std::vector<std::string> names = {"delta_net", "mesa_net", "rwkv7", "titans", "ttt_linear"};
  for (int i = 0; i < 20; ++i) names.push_back("own_mixer" + std::to_string(i));
  std::vector<CellResult> cells;
  for (const std::string& name : names) cells.push_back(Cell(name, 64, 4, 0.001, 0.9, 0.9));
  const SweepReport report = MakeSweepReport("families", {}, std::move(cells));
  const MixerList mixers({&report});
  Panel panel{
      .title = "64 tokens", .describe = {}, .x = {.label = {}, .low = 1, .high = 5}, .y = {}};
  for (const std::string& name : names) {
    panel.series.push_back({.mixer = mixers.IndexOf(name), .marks = {{.x = 2, .y = 0.5}}});
  }
  Figure figure{.title = {}, .caption = {}, .panels = {}};
  DrawPanels({panel}, mixers, figure);
  // Mixers that are not known share a colour by chance, and no family.
  std::vector<std::string> titles;
  std::size_t num_series = 0;
  for (const Panel& part : figure.panels) {
    titles.push_back(part.title);
    num_series += part.series.size();
    CHECK(part.series.size() <= kMaxInOneChart);
    CHECK(part.series.size() + part.context.size() == names.size());
    CHECK(part.names == Panel::Names::kEnds);
    CHECK(part.x.high == 5);
  }
  CHECK(titles == std::vector<std::string>{"Delta rule", "Other mixers, 1 of 3",
                                           "Other mixers, 2 of 3", "Other mixers, 3 of 3"});
  CHECK(num_series == names.size());
}

TEST_CASE("Rates are compared by the seeds that chose, and the caption says so",
          "[reports][view]") {
  const auto caption_of = [](const char* reseed) {
    const Value config =
        io::ParseJson(R"({"sweep": {"select": {"over": ["train.lr"], "by": "validation.accuracy")" +
                      std::string(reseed) + "}}}");
    std::vector<CellResult> cells;
    for (const double rate : {0.001, 0.01}) {
      cells.push_back(Cell("gla", 64, 4, rate, rate < 0.005 ? 0.9 : 0.3, rate < 0.005 ? 0.9 : 0.3));
      if (*reseed != 0) cells.back().phase = CellPhase::kSelection;
    }
    const SweepReport report = MakeSweepReport("rates", config, std::move(cells));
    const MixerList mixers({&report});
    return OverRates(StudiesOf(report, mixers).front(), mixers)->caption.front();
  };
  CHECK((caption_of("").find("which the other figures show") != std::string::npos));
  const std::string fresh = caption_of(R"(, "reseed": {"count": 5, "base": 0})");
  CHECK((fresh.find("By the seeds that chose.") == 0));
  CHECK((fresh.find("by its fresh seeds") != std::string::npos));
  CHECK((fresh.find("which the other figures show") == std::string::npos));
}

TEST_CASE("A choice among two keys is a grid for each mixer", "[reports][view]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "delta_net"}) {
    for (const double rate : {0.001, 0.01}) {
      for (const char* decay : {"0", "0.1"}) {
        CellResult cell =
            Cell(mixer, 64, 4, rate, decay[0] == '0' && rate > 0.005 ? 0.9 : 0.4, 0.5);
        cell.name += std::string(",weight_decay=") + decay;
        cell.group_id = cell.run_id = cell.name;
        Object config = cell.config.as_object();
        Object train = config["train"].as_object();
        train["weight_decay"] = std::stod(decay);
        config["train"] = train;
        cell.config = config;
        cells.push_back(std::move(cell));
      }
    }
  }
  const Value choice =
      Object{{"sweep", Object{{"select", Object{{"over", Array{"train.lr", "train.weight_decay"}},
                                                {"by", "validation.accuracy"}}}}}};
  const SweepReport report = MakeSweepReport("grid", choice, std::move(cells));
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  REQUIRE(study.chosen_keys.size() == 2);
  const auto figure = OverRates(study, mixers);
  REQUIRE(figure);
  CHECK(figure->title == "Accuracy at every lr and weight_decay");
  REQUIRE(figure->heats.size() == 2);
  for (const Heat& heat : figure->heats) {
    CHECK(heat.columns == std::vector<std::string>{"1e-3", "1e-2"});
    REQUIRE(heat.rows.size() == 2);
    CHECK(heat.rows[0].first == "0");
    CHECK(heat.rows[1].first == "1e-1");
    int num_chosen = 0;
    for (const auto& [name, data] : heat.rows) {
      for (const Datum& datum : data) {
        CHECK(datum.value);
        num_chosen += datum.is_chosen;
      }
    }
    CHECK(num_chosen == 1);
  }
}

TEST_CASE("Labels: known names, hybrids, a suite's own, and options where names are alike",
          "[reports][view]") {
  const auto model = [](Value mixer) {
    return Value(Object{{"sequence_mixer", std::move(mixer)}});
  };
  CHECK(StyleOf("gated_delta_net", model(Object{{"name", "gated_delta_net"}})).label ==
        "Gated DeltaNet");
  const MixerStyle hybrid = StyleOf(
      "base_conv,kernel_sizes=3+attention",
      model(Object{
          {"name", "hybrid"},
          {"pattern", Array{Object{{"name", "base_conv"}}, Object{{"name", "attention"}}}}}));
  CHECK(hybrid.label == "Conv + Attention");
  CHECK(hybrid.is_hybrid);
  CHECK(hybrid.colour == "attention");
  CHECK(StyleOf("my short name", model(Object{{"name", "gla"}})).label == "my short name");
  CHECK(StyleOf("my short name", model(Object{{"name", "gla"}})).colour == "gla");
  CHECK(StyleOf("mine", model(Object{{"name", "mine"}})).label == "mine");
  const Value own = model(Object{{"name", "python"}, {"module", "folder/own.py:Mean"}});
  CHECK(StyleOf("Mean", own).label == "Mean");
  CHECK(StyleOf("Mean,scale=0.5", own).label == "Mean");

  const SweepReport report =
      MakeSweepReport("alike", {},
                      {Cell("attention,num_heads=1", 64, 4, 0.001, 0.9, 0.9),
                       Cell("attention,num_heads=2", 64, 4, 0.001, 0.9, 0.9)});
  const MixerList mixers({&report});
  CHECK(mixers.styles()[0].label == "Attention (num_heads=1)");
  CHECK(mixers.styles()[1].label == "Attention (num_heads=2)");
}

TEST_CASE("What a page has no room for is said", "[reports][view]") {
  Table table;
  table.note = "Of all cells.";
  for (std::size_t i = 0; i < Table::kMaxRows; ++i) table.Add({});
  CHECK(NoteOf(table) == "Of all cells.");
  table.Add({});
  CHECK(table.rows.size() == Table::kMaxRows);
  CHECK(NoteOf(table) ==
        "Of all cells. The first 10,000 of 10,001 rows; report.json and CSV have all.");

  const SweepReport report = TwoSizes();
  const MixerList mixers({&report});
  Figure figure;
  DrawPanels(std::vector<Panel>(kMaxPanels), mixers, figure);
  CHECK(figure.panels.size() == kMaxPanels);
  CHECK(figure.caption.empty());
  Figure full;
  DrawPanels(std::vector<Panel>(kMaxPanels + 3), mixers, full);
  CHECK(full.panels.size() == kMaxPanels);
  CHECK(full.caption ==
        std::vector<std::string>{"The first 24 of 27 charts; report.json has all."});
}

TEST_CASE("The summary names the tasks that it leaves to their sections", "[reports][view]") {
  std::vector<CellResult> cells;
  for (int task = 0; task < 20; ++task) {
    CellResult cell = Cell("gla", 64, 4, 1e-3, 0.97, 0.97);
    const std::string name = "task" + std::to_string(100 + task);
    cell.name.replace(0, cell.name.find('/'), name);
    cell.group_id = cell.run_id = cell.name;
    Object config = cell.config.as_object();
    Object of_task = config["task"].as_object();
    of_task["name"] = name;
    config["task"] = of_task;
    cell.config = config;
    cells.push_back(std::move(cell));
  }
  const SweepReport report = MakeSweepReport("many", {}, std::move(cells));
  const MixerList mixers({&report});
  const auto glance = GlanceOf(report, StudiesOf(report, mixers), mixers);
  const auto more = std::find_if(glance.begin(), glance.end(), [](const Sentence& sentence) {
    return sentence.lead.ends_with(" more tasks:");
  });
  REQUIRE(more != glance.end());
  // Every task has a sentence or is counted there.
  const auto said = std::count_if(glance.begin(), glance.end(), [](const Sentence& sentence) {
    return sentence.lead.starts_with("task") && sentence.text.find("solved") != std::string::npos;
  });
  CHECK(said + std::stoi(more->lead) == 20);
}

TEST_CASE("What is counted in the setup has thousands", "[reports][view]") {
  CellResult cell = Cell("gla", 64, 4, 0.01, 0.9, 0.96);
  cell.config.as_object()["task"].as_object()["test"] =
      Object{{"vocab_size", 8192}, {"num_examples", 3000}};
  const SweepReport report = MakeSweepReport("e", {}, {cell});
  const MixerList mixers({&report});
  const auto setup = SetupOf(StudiesOf(report, mixers).front());
  REQUIRE(setup.size() >= 2);
  CHECK(setup[0].text == "mqar, vocabulary 8,192");
  CHECK(setup[1].text == "3,000 sequences a segment");
}

TEST_CASE("Of marks those that none beats are named first", "[reports][view]") {
  const auto at = [](int mixer, double x, double y, const char* failed = "") {
    return Series{.mixer = mixer, .marks = {{.x = x, .y = y, .failed = failed}}, .has_name = true};
  };
  // By y; 3 beats 1, 4 equals 3, and 5 did not get there.
  Panel panel;
  panel.series = {at(0, 1, 0.2), at(1, 4, 0.5), at(2, 8, 0.9),
                  at(3, 2, 0.6), at(4, 2, 0.6), at(5, 0, 1, "never")};
  const auto order = [&](Better better) {
    const auto parts = ScatterPanels(panel, better, {}, "");
    CHECK(parts.size() == 1);
    CHECK(parts[0].names == Panel::Names::kNear);
    std::vector<int> mixers;
    for (const Series& series : parts[0].series) mixers.push_back(series.mixer);
    return mixers;
  };
  CHECK(order({.is_low_x = true}) == std::vector<int>{0, 2, 3, 4, 1, 5});
  CHECK(order({.is_low_y = true}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(order({}) == std::vector<int>{2, 0, 1, 3, 4, 5});
}

TEST_CASE("Numbers as people read them", "[reports][view]") {
  CHECK(Percent(1.0) == "100.00");
  CHECK(Percent(0.0) == "0.00");
  CHECK(Percent(0.999999) == ">99.99");
  CHECK(Percent(0.89181) == "89.18");
  CHECK(Percent(0.00002) == "0.002");
  CHECK(Percent(std::nullopt) == "–");
  CHECK(PercentRange(0.88868, 0.89494) == "88.86–89.50");
  CHECK(GuessPercent(0.0625) == "6.25");
  CHECK(Count(48000) == "48,000");
  CHECK(Count(123) == "123");
  CHECK(Significant(0.4684) == "0.468");
  CHECK(Significant(2156.3) == "2,156");
  CHECK(Si(7.27e7) == "72.7 M");
  CHECK(Bytes(20992) == "20.5 KiB");
  CHECK(Bytes(65536) == "64 KiB");
  CHECK(RateText(0.000464) == "4.64e-4");
  CHECK(SignedPercent(0.0123) == "+1.2");
  CHECK(SignedPercent(-0.003) == "−0.3");
  CHECK(SignedPercent(0.0) == "0.0");
}

}  // namespace mixerbench::reports
