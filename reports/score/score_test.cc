// SPDX-License-Identifier: Apache-2.0
#include "reports/score/score.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/result/schema.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// What one seed of a group found.
struct Found {
  double validation = 0;
  double test = 0;
  CellState state = CellState::kCompleted;
};

constexpr double kChance = 0.1;

// One group: a mixer at a size with a rate, a seed for each finding.
void Add(const std::string& mixer, int size, double lr, const std::vector<Found>& seeds,
         std::vector<CellResult>& cells) {
  for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
    const Found& found = seeds[seed];
    CellResult cell;
    cell.name = "copy/" + mixer + "/size=" + std::to_string(size) + ",lr=" + io::DumpJson(lr);
    cell.kind = "train";
    cell.group_id = cell.name;
    cell.run_id = cell.name + std::to_string(seed);
    cell.seed = seed;
    cell.state = found.state;
    cell.config = Object{{"task", Object{{"name", "copy"}, {"size", size}}},
                         {"model", Object{{"sequence_mixer", Object{{"name", mixer}}}}},
                         {"train", Object{{"lr", lr}}}};
    LearningPoint point;
    point.validation_accuracy = found.validation;
    cell.learning_curve.push_back(point);
    AccuracyRow row;
    row.state = found.state;
    row.chance = kChance;
    if (found.state == CellState::kCompleted) row.accuracy = row.accuracy_macro = found.test;
    cell.accuracy.push_back(row);
    row.slice = "gap";  // a part of the segment, which does not count again
    row.accuracy = row.accuracy_macro = 0;
    cell.accuracy.push_back(row);
    cells.push_back(std::move(cell));
  }
}

ScoreInput Input(const std::string& suite, std::vector<CellResult> cells) {
  const Value config = io::ParseJson(
      R"({"sweep": {"select": {"over": ["train.lr"], "by": "validation.accuracy"}}})");
  return {suite, MakeSweepReport(suite, config, std::move(cells))};
}

Value Collection() {
  return io::ParseJson(R"({"name": "two", "description": "two suites", "score": {
      "name": "Copy score", "metric": "accuracy_macro",
      "parts": [{"suite": "short", "num_settings": 2}, {"suite": "long", "num_settings": 1,
                                                        "weight": 3}]}})");
}

ScoreReport Make(const std::vector<ScoreInput>& inputs) {
  const Value collection = Collection();
  return MakeScoreReport(collection, *ReadScoreRule(collection), inputs);
}

// Sizes 8 and 16 in "short", 64 in "long"; validation picks the worse test result at size 8.
std::vector<CellResult> Short(const std::string& mixer, int num_seeds) {
  const auto n = static_cast<std::size_t>(num_seeds);
  std::vector<CellResult> cells;
  Add(mixer, 8, 0.1, std::vector<Found>(n, {.validation = 0.9, .test = 0.6}), cells);
  Add(mixer, 8, 0.2, std::vector<Found>(n, {.validation = 0.8, .test = 0.7}), cells);
  Add(mixer, 16, 0.1, std::vector<Found>(n, {.validation = 0.3, .test = 0.2}), cells);
  Add(mixer, 16, 0.2, std::vector<Found>(n, {.validation = 0.5, .test = 0.4}), cells);
  return cells;
}

std::vector<CellResult> Long(const std::string& mixer, int num_seeds) {
  std::vector<CellResult> cells;
  Add(mixer, 64, 0.1,
      std::vector<Found>(static_cast<std::size_t>(num_seeds), {.validation = 1, .test = 0.9}),
      cells);
  return cells;
}

TEST_CASE("score: means over settings, weighted over suites, by both choices") {
  const ScoreReport report = Make({Input("short", Short("gla", 1)), Input("long", Long("gla", 1))});
  REQUIRE(report.scores.size() == 1);
  const MixerScore& score = report.scores.front();
  REQUIRE(score.is_complete());
  CHECK(score.parts[0].by_validation->mean == Approx((0.6 + 0.4) / 2));
  CHECK(score.parts[0].by_test->mean == Approx((0.7 + 0.4) / 2));
  CHECK(score.parts[1].by_validation->mean == Approx(0.9));
  CHECK(score.by_validation->mean == Approx((1 * 0.5 + 3 * 0.9) / 4));
  CHECK(score.by_test->mean == Approx((1 * 0.55 + 3 * 0.9) / 4));
  CHECK(score.parts[0].settings[1].text == "size 8");
  CHECK(score.parts[0].settings[1].by_validation->chosen == "lr 1e-1");
  CHECK(score.parts[0].settings[1].by_test->chosen == "lr 2e-1");
}

TEST_CASE("score: from five seeds on the validated one has an interval, else words say why not") {
  CHECK(WhyNoInterval(*Make({Input("short", Short("gla", 1)), Input("long", Long("gla", 1))})
                           .scores.front()
                           .by_validation) == "1 seed; an interval needs 5");

  std::vector<CellResult> cells = Short("gla", 5);
  for (CellResult& cell : cells) {  // the first seed is right everywhere
    if (cell.seed == 0) cell.accuracy.front().accuracy_macro = 1;
  }
  const auto score = *Make({Input("short", std::move(cells)), Input("long", Long("gla", 5))})
                          .scores.front()
                          .by_validation;
  REQUIRE(score.per_seed.size() == 5);
  CHECK(score.per_seed[0] == Approx((1 * 1.0 + 3 * 0.9) / 4));
  CHECK(score.per_seed[1] == Approx((1 * 0.5 + 3 * 0.9) / 4));
  CHECK(score.mean == Approx((score.per_seed[0] + 4 * score.per_seed[1]) / 5));
  REQUIRE(ScoreInterval(score));
  CHECK(ScoreInterval(score)->low < score.mean);
  CHECK(ScoreInterval(score)->high > score.mean);
  CHECK(WhyNoInterval(score).empty());

  const auto uneven = Make({Input("short", Short("gla", 5)), Input("long", Long("gla", 6))});
  CHECK(WhyNoInterval(*uneven.scores.front().by_validation) ==
        "the settings ran with different seeds");
}

TEST_CASE("score: a failed run counts as chance") {
  std::vector<CellResult> cells;
  Add("gla", 64, 0.1,
      {{.validation = 1, .test = 0.9}, {.validation = 0, .test = 0, .state = CellState::kDiverged}},
      cells);
  const ScoreReport report = Make({Input("short", Short("gla", 2)), Input("long", cells)});
  CHECK(report.scores.front().parts[1].by_validation->mean == Approx((0.9 + kChance) / 2));
}

// What the only mixer lacks, by part.
std::vector<std::string> Missing(const ScoreReport& report, std::size_t part) {
  CHECK_FALSE(report.scores.front().is_complete());
  CHECK_FALSE(report.scores.front().by_test);
  return report.scores.front().parts[part].missing;
}

TEST_CASE("score: whatever is missing is named, and nothing stands in for it") {
  using Lines = std::vector<std::string>;
  CHECK(Missing(Make({Input("short", Short("gla", 1))}), 1) ==
        Lines{"0 of 1 settings were asked for"});

  std::vector<CellResult> fewer = Short("gla", 1);
  fewer.resize(2);
  CHECK(Missing(Make({Input("short", fewer), Input("long", Long("gla", 1))}), 0) ==
        Lines{"1 of 2 settings were asked for"});

  std::vector<CellResult> unfinished = Short("gla", 1);
  unfinished.front().state = CellState::kPlanned;
  CHECK(Missing(Make({Input("short", unfinished), Input("long", Long("gla", 1))}), 0) ==
        Lines{"size 8: 1 of 1 cells of copy/gla/size=8,lr=0.1 have no result"});

  std::vector<CellResult> limited = Long("gla", 1);
  limited.front().partial = true;
  CHECK(Missing(Make({Input("short", Short("gla", 1)), Input("long", limited)}), 1) ==
        Lines{"size 64: ran with a limit"});

  std::vector<CellResult> halved = Long("gla", 1);
  halved.front().halved_from = 128;
  CHECK(Missing(Make({Input("short", Short("gla", 1)), Input("long", halved)}), 1) ==
        Lines{"size 64: " + halved.front().name +
              " trained with smaller batches than asked for, as memory lacked"});

  std::vector<CellResult> unsupported = Long("gla", 1);
  unsupported.front().state = CellState::kUnsupported;
  CHECK(Missing(Make({Input("short", Short("gla", 1)), Input("long", unsupported)}), 1) ==
        Lines{"size 64: unsupported"});

  for (const CellState state : {CellState::kUnsupported, CellState::kSkipped}) {
    std::vector<CellResult> one_seed = Long("gla", 2);
    one_seed.back().state = state;
    const auto missing =
        Missing(Make({Input("short", Short("gla", 2)), Input("long", one_seed)}), 1);
    CHECK(missing == Lines{"size 64: 1 of 2 cells of copy/gla/size=64,lr=0.1 ended " +
                           std::string(NameOf(state))});
  }

  std::vector<CellResult> old = Long("gla", 1);
  old.front().accuracy.front().accuracy_macro = std::nullopt;
  CHECK(Missing(Make({Input("short", Short("gla", 1)), Input("long", old)}), 1) ==
        Lines{"size 64: copy/gla/size=64,lr=0.1 has no accuracy_macro"});
}

TEST_CASE("score: mixers by their score, an incomplete one last; JSON and pages agree") {
  std::vector<CellResult> cells = Short("gla", 1);
  for (const char* mixer : {"mamba", "retnet"}) {
    const auto more = Short(mixer, 1);
    cells.insert(cells.end(), more.begin(), more.end());
  }
  std::vector<CellResult> far = Long("gla", 1);
  Add("retnet", 64, 0.1, {{.validation = 1, .test = 1}}, far);
  const ScoreReport report = Make({Input("short", cells), Input("long", far)});
  const auto key = [&](std::size_t i) {
    return report.mixers[static_cast<std::size_t>(report.scores[i].mixer)].key;
  };
  CHECK(key(0) == "retnet");
  CHECK(key(1) == "gla");
  CHECK(key(2) == "mamba");

  const Value document = ScoreToValue(report);
  CHECK(ValidateScore(document) == std::vector<std::string>());
  const Value& last = document.Find("scores")->as_array()[2];
  CHECK(last.Find("state")->as_string() == "incomplete");
  CHECK(last.Find("by_validation")->is_null());

  const Page page = MakeScorePage(report);
  for (const std::string& text : {RenderMarkdownPage(page), RenderHtmlPage(page)}) {
    CHECK_THAT(text, Catch::Contains("87.5"));  // retnet: (0.5 + 3 * 1) / 4
    CHECK_THAT(text, Catch::Contains("incomplete"));
    CHECK_THAT(text, Catch::Contains("0 of 1 settings were asked for"));
    CHECK_THAT(text, Catch::Contains("1 seed; an interval needs 5"));
  }
}

std::string Refusal(const std::string& score) {
  try {
    const auto rule = ReadScoreRule(io::ParseJson(R"({"score": )" + score + "}"));
    RequireSuites(*rule, {"short", "long"});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("score: what is wrong with its rule is named by its place") {
  CHECK_FALSE(ReadScoreRule(io::ParseJson("{}")));
  const auto parts = [](const std::string& list) {
    return Refusal(R"({"name": "s", "metric": "accuracy", "parts": )" + list + "}");
  };
  CHECK(parts(R"([{"suite": "short", "num_settings": 1}])") == "accepted");
  CHECK_THAT(parts("[]"), Catch::StartsWith("/score/parts: expected a list"));
  CHECK_THAT(parts(R"([{"suite": "shrt", "num_settings": 1}])"),
             Catch::StartsWith("/score/parts/0/suite: ") && Catch::Contains("'short'?"));
  CHECK_THAT(parts(R"([{"suite": "short"}])"), Catch::StartsWith("/score/parts/0/num_settings: "));
  CHECK_THAT(parts(R"([{"suite": "short", "num_settings": 1, "weight": 0}])"),
             Catch::StartsWith("/score/parts/0/weight: "));
  CHECK_THAT(
      parts(R"([{"suite": "long", "num_settings": 1}, {"suite": "long", "num_settings": 1}])"),
      Catch::StartsWith("/score/parts/1/suite: 'long' stands there twice"));
  CHECK_THAT(Refusal(R"({"name": "s", "metric": "acuracy", "parts": []})"),
             Catch::StartsWith("/score/metric: ") && Catch::Contains("'accuracy'?"));
}

TEST_CASE("score: the settings that a part is over are those of its suite") {
  const auto fault = [](const std::string& name, std::vector<CellResult> cells) -> std::string {
    for (CellResult& cell : cells) cell.state = CellState::kPlanned;
    try {
      const auto rule = ReadScoreRule(Object{
          {"score", Object{{"name", "s"},
                           {"metric", "accuracy"},
                           {"parts", Array{Object{{"suite", name}, {"num_settings", 2}}}}}}});
      RequireNumSettings(*rule, {Input(name, std::move(cells))});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(fault("short", Short("gla", 2)).empty());
  CHECK(fault("long", Long("gla", 1)) ==
        "/score/parts/0/num_settings: is 2, but the suite trains each mixer at 1 setting");
  CHECK(fault("none", {}) ==
        "/score/parts/0/num_settings: is 2, but the suite trains each mixer at 0 settings");
}

TEST_CASE("score: fresh seeds of what validation chose are its score, once they are there") {
  const Value config = io::ParseJson(R"({"sweep": {"select": {"over": ["train.lr"],
      "by": "validation.accuracy", "reseed": {"count": 1, "base": 9}}}})");
  std::vector<CellResult> cells = Short("gla", 1);
  for (CellResult& cell : cells) cell.phase = CellPhase::kSelection;
  const auto make = [&] {
    return Make(
        {{"short", MakeSweepReport("short", config, cells)}, Input("long", Long("gla", 1))});
  };
  CHECK(make().scores.front().parts[0].missing.front() ==
        "size 16: the chosen setting has no fresh seeds yet");
  std::vector<CellResult> fresh;
  Add("gla", 8, 0.1, {{.validation = 0, .test = 0.5}}, fresh);
  Add("gla", 16, 0.2, {{.validation = 0, .test = 0.3}}, fresh);
  for (CellResult& cell : fresh) {
    cell.phase = CellPhase::kReport;
    cell.seed = 9;
    cells.push_back(cell);
  }
  const ScoreReport report = make();
  const PartScore& part = report.scores.front().parts[0];
  REQUIRE(part.by_validation);
  CHECK(part.by_validation->mean == Approx((0.5 + 0.3) / 2));
  CHECK(part.by_test->mean == Approx((0.7 + 0.4) / 2));  // of the sweep, whose best it is
  CHECK(part.settings[1].by_validation->chosen == "lr 1e-1");

  // Other seeds may do better than those that chose.
  for (CellResult& cell : cells) {
    if (cell.phase == CellPhase::kReport) cell.accuracy.front().accuracy_macro = 0.9;
  }
  const ScoreReport lucky = make();
  CHECK(lucky.scores.front().by_test->mean < lucky.scores.front().by_validation->mean);
  CHECK_THAT(RenderMarkdownPage(MakeScorePage(lucky)), Catch::Contains("either may be higher"));
  const ScoreReport same_seeds = Make({Input("short", Short("gla", 1))});
  CHECK_THAT(RenderMarkdownPage(MakeScorePage(same_seeds)), Catch::Contains("at least as high"));
}

}  // namespace
}  // namespace mixerbench::reports
