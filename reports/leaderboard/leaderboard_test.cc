// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/leaderboard.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "io/json.h"
#include "reports/leaderboard/leaderboard_figures.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/result/schema.h"
#include "reports/testing/test_cells.h"
#include "reports/view/config_leaves.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// `solved` of `num_seeds` seeds of a mixer at a length.
void Add(const std::string& task, const std::string& mixer, int length, int solved, int num_seeds,
         std::vector<CellResult>& cells) {
  for (int seed = 0; seed < num_seeds; ++seed) {
    CellResult cell = TrainedCell(task + "/" + mixer + "/input_seq_len=" + std::to_string(length),
                                  static_cast<std::uint64_t>(seed));
    cell.config =
        Object{{"task", Object{{"name", task}, {"test", Array{Object{{"input_seq_len", length}}}}}},
               {"model", Object{{"d_model", 64}, {"sequence_mixer", Object{{"name", mixer}}}}}};
    cell.threshold = 0.95;
    if (seed < solved) cell.steps_to_threshold = 100 + seed;
    AccuracyRow row;
    row.axes = {{"input_seq_len", length}};
    row.num_sequences = row.num_scored = 1000;
    row.num_correct = seed < solved ? 990 : 100;
    row.accuracy = static_cast<double>(row.num_correct) / 1000;
    row.ci_items = Interval{"beta", 0.95, *row.accuracy - 0.01, *row.accuracy + 0.005};
    cell.accuracy.push_back(row);
    cell.model = {.num_parameters = 1000,
                  .state_bytes_measured = 4096,
                  .state_bytes_declared = 4096,
                  .state_at_num_tokens = length,
                  .path = "fast"};
    cells.push_back(std::move(cell));
  }
}

void AddTiming(const std::string& mixer, const std::string& gpu, int n_layers,
               double tokens_per_second, std::vector<CellResult>& cells) {
  CellResult cell;
  cell.name = "mqar/" + mixer + "/input_seq_len=64";
  cell.kind = "throughput";
  cell.group_id = cell.run_id = cell.name + gpu + std::to_string(n_layers);
  cell.state = CellState::kCompleted;
  cell.config = Object{{"model", Object{{"d_model", 64},
                                        {"n_layers", n_layers},
                                        {"sequence_mixer", Object{{"name", mixer}}}}}};
  cell.environment = Object{{"device", "cuda"}, {"gpu", Object{{"name", gpu}}}};
  ThroughputRow row;
  row.phase = "train_step";
  row.batch_size = 8;
  row.seq_len = 64;
  row.dtype = "bf16";
  row.tokens_per_second = tokens_per_second;
  cell.throughput = {row};
  cells.push_back(std::move(cell));
}

LeaderboardInput Input(const std::string& source, std::vector<CellResult> cells) {
  return {source, MakeSweepReport(source, {}, std::move(cells))};
}

std::vector<LeaderboardInput> ThreeMixers() {
  std::vector<CellResult> cells;
  for (const int length : {64, 256}) {
    Add("mqar", "gla", length, length == 64 ? 5 : 1, 5, cells);
    Add("mqar", "delta_net", length, 5, 5, cells);
    Add("mqar", "base_conv", length, 0, 5, cells);
  }
  return {Input("recall", std::move(cells))};
}

}  // namespace

TEST_CASE("Mixers are ranked by the share of settings solved", "[reports][leaderboard]") {
  const Leaderboard board = MakeLeaderboard(ThreeMixers(), 5);
  REQUIRE(board.ranking.size() == 3);
  const auto key = [&](std::size_t i) {
    return board.mixers[static_cast<std::size_t>(board.ranking[i].mixer)].key;
  };
  CHECK(key(0) == "delta_net");
  CHECK(key(1) == "gla");
  CHECK(key(2) == "base_conv");
  CHECK(board.ranking[0].score == 1);
  CHECK(board.ranking[1].score == Approx(0.6));
  CHECK(board.ranking[2].score == 0);
  CHECK(board.ranking[0].rank.low == 1);
  CHECK(board.ranking[0].rank.high == 1);
  CHECK(board.ranking[2].rank.low == 3);
  CHECK(board.num_cells == 30);
  CHECK(board.families.at("MQAR") == 2);
}

TEST_CASE("Mixers that the seeds do not tell apart share a band", "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  Add("mqar", "gla", 64, 3, 5, cells);
  Add("mqar", "retnet", 64, 2, 5, cells);
  const Leaderboard board = MakeLeaderboard({Input("close", std::move(cells))}, 5);
  REQUIRE(board.ranking.size() == 2);
  for (const RankedMixer& ranked : board.ranking) {
    CHECK(ranked.rank.low == 1);
    CHECK(ranked.rank.high == 2);
  }
}

TEST_CASE("Mixers that tie have all of their places for a band", "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "retnet", "delta_net"}) Add("mqar", mixer, 64, 5, 5, cells);
  for (const char* mixer : {"base_conv", "hyena"}) Add("mqar", mixer, 64, 0, 5, cells);
  const Leaderboard board = MakeLeaderboard({Input("tied", std::move(cells))}, 5);
  REQUIRE(board.ranking.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(board.ranking[i].rank.low == (i < 3 ? 1 : 4));
    CHECK(board.ranking[i].rank.high == (i < 3 ? 3 : 5));
  }
}

TEST_CASE("Scores that differ by the rounding of their sums are ordered by ties",
          "[reports][leaderboard]") {
  // Three families, summed in order: the same score of other shares.
  REQUIRE((0.6 + 0.7 + 0.8) / 3 < (0.8 + 0.7 + 0.6) / 3);
  for (const std::string slow : {"gla", "delta_net"}) {
    std::vector<CellResult> cells;
    const auto add = [&](const std::string& mixer, int mad, int mqar, int words) {
      Add("mad_fuzzy", mixer, 64, mad, 10, cells);
      Add("mqar", mixer, 64, mqar, 10, cells);
      Add("group_word", mixer, 64, words, 10, cells);
    };
    add("gla", 6, 7, 8);
    add("delta_net", 8, 7, 6);
    for (CellResult& cell : cells) {
      if (!cell.steps_to_threshold) continue;
      cell.steps_to_threshold = cell.name.find("/" + slow + "/") != std::string::npos ? 500 : 100;
    }
    const Leaderboard board = MakeLeaderboard({Input("noise", std::move(cells))}, 5);
    REQUIRE(board.ranking.size() == 2);
    CHECK(board.ranking[0].score == board.ranking[1].score);
    CHECK(board.mixers[static_cast<std::size_t>(board.ranking[1].mixer)].key == slow);
    const Value document = LeaderboardToValue(board);
    const Array& ranking = document.Find("ranking")->as_array();
    CHECK(ranking[1].Find("mixer")->as_string() == slow);
    CHECK(*ranking[0].Find("score") == *ranking[1].Find("score"));
  }
}

TEST_CASE("A setting of several lengths is named by the longest, which its numbers are of",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "delta_net"}) Add("group_word", mixer, 20, 5, 5, cells);
  for (CellResult& cell : cells) {
    Array tests;
    for (const int length : {4, 20, 2}) {
      tests.emplace_back(Object{{"input_seq_len", length}, {"group", "A4xZ5"}});
    }
    cell.config.as_object()["task"].as_object()["test"] = std::move(tests);
    for (const int length : {4, 2}) {
      AccuracyRow row = cell.accuracy.front();
      row.axes = {{"input_seq_len", length}};
      row.num_correct = 500;
      row.accuracy = 0.5;
      row.chance = 0.25;
      cell.accuracy.push_back(row);
    }
  }
  const Leaderboard board = MakeLeaderboard({Input("words", std::move(cells))}, 5);
  REQUIRE(board.settings.size() == 1);
  const RankedSetting& setting = board.settings.front();
  CHECK(setting.text == "20 tokens (of 2 to 20), d 64");
  CHECK(setting.chance == 0.0);
  for (const auto& [mixer, result] : setting.results)
    CHECK(result.accuracy.value() == Approx(0.99));
  const auto options = std::find_if(setting.conditions.begin(), setting.conditions.end(),
                                    [](const Condition& c) { return c.term == "Task options"; });
  REQUIRE(options != setting.conditions.end());
  CHECK(options->texts == std::vector<std::string>{"group A4xZ5"});
  const std::string page = RenderMarkdownPage(MakeLeaderboardPage(board));
  CHECK((page.find("group\\_word 20 tokens (of 2 to 20), d 64") != std::string::npos));
  CHECK((page.find("Effective length (tokens, median)") != std::string::npos));
}

TEST_CASE("Settings of one size say what tells them apart, and whether it is one to generalise to",
          "[reports][leaderboard]") {
  std::vector<LeaderboardInput> inputs;
  for (const int vocab_size : {48, 64}) {
    std::vector<CellResult> cells;
    for (const char* mixer : {"gla", "delta_net"}) Add("mqar", mixer, 64, 5, 5, cells);
    for (CellResult& cell : cells) {
      Value& tests = cell.config.as_object()["task"].as_object()["test"];
      tests.as_array().front().as_object()["vocab_size"] = vocab_size;
      cell.accuracy.front().extrapolated = vocab_size == 64;
      cell.group_id += std::to_string(vocab_size);
      cell.run_id += std::to_string(vocab_size);
    }
    inputs.push_back(Input("v" + std::to_string(vocab_size), std::move(cells)));
  }
  const auto texts = [](const Leaderboard& board) {
    std::set<std::string> found;
    for (const RankedSetting& setting : board.settings) found.insert(setting.text);
    return found;
  };
  CHECK(texts(MakeLeaderboard(inputs, 5)) ==
        std::set<std::string>{"64 tokens, d 64", "64 tokens, d 64, longer than trained"});
  for (CellResult& cell : inputs[1].report.cells) cell.accuracy.front().extrapolated = false;
  inputs[1].report = MakeSweepReport("v64", {}, inputs[1].report.cells);
  CHECK(texts(MakeLeaderboard(inputs, 5)) ==
        std::set<std::string>{"64 tokens, d 64, vocab_size 48", "64 tokens, d 64, vocab_size 64"});
}

TEST_CASE("Of mixers that solved nothing the more accurate is listed first",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"attention", "mamba"}) Add("mqar", mixer, 64, 0, 5, cells);
  for (CellResult& cell : cells) {
    if (!cell.name.starts_with("mqar/mamba/")) continue;
    cell.accuracy.front().num_correct = 780;
    cell.accuracy.front().accuracy = 0.78;
    cell.accuracy.front().ci_items = Interval{"beta", 0.95, 0.75, 0.81};
  }
  const Leaderboard board = MakeLeaderboard({Input("unsolved", std::move(cells))}, 5);
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.mixers[static_cast<std::size_t>(board.ranking[0].mixer)].key == "mamba");
  REQUIRE(board.ranking[0].accuracy);
  CHECK(*board.ranking[0].accuracy == Approx(0.78));
  REQUIRE(board.ranking[1].accuracy);
  CHECK(*board.ranking[1].accuracy == Approx(0.1));
  for (const RankedMixer& ranked : board.ranking) {  // the seeds tell neither apart by its score
    CHECK(ranked.rank.low == 1);
    CHECK(ranked.rank.high == 2);
  }
}

TEST_CASE("Steps are the median over settings, one that was not reached last",
          "[reports][leaderboard]") {
  const auto steps_of = [](int num_reached) {
    std::vector<CellResult> cells;
    for (const int i : {1, 2, 3}) Add("mqar", "gla", 64 * i, i <= num_reached ? 5 : 0, 5, cells);
    for (CellResult& cell : cells) {
      if (!cell.steps_to_threshold) continue;
      cell.steps_to_threshold = cell.name == "mqar/gla/input_seq_len=64" ? 100 : 200;
    }
    return MakeLeaderboard({Input("steps", std::move(cells))}, 5).ranking.at(0).steps;
  };
  CHECK(steps_of(3) == 200);
  CHECK(steps_of(2) == 200);
  CHECK_FALSE(steps_of(1));
}

TEST_CASE("Bands depend on what is ranked alone, not on order, timings or what is refused",
          "[reports][leaderboard]") {
  std::vector<CellResult> first;
  std::vector<CellResult> second;
  for (int m = 0; m < 24; ++m) {  // so many that some band lies between two draws
    const std::string mixer = "mixer" + std::to_string(m);
    Add("mqar", mixer, 64, 1 + m % 4, 5, first);
    Add("selective_copying", mixer, 64, 4 - m % 3, 5, second);
  }
  const auto bands = [](const std::vector<LeaderboardInput>& inputs) {
    std::set<std::string> found;  // the ranking itself takes the faster of what ties
    const Leaderboard board = MakeLeaderboard(inputs, 5);
    for (const RankedMixer& ranked : board.ranking) {
      found.insert(board.mixers[ranked.mixer].key + " " + std::to_string(ranked.rank.low) + " to " +
                   std::to_string(ranked.rank.high));
    }
    return found;
  };
  const auto expected = bands({Input("first", first), Input("second", second)});
  CHECK(bands({Input("second", second), Input("first", first)}) == expected);
  std::vector<CellResult> few;  // a report that is refused whole
  Add("mqar", "mixer0", 128, 1, 1, few);
  CHECK(bands({Input("few", few), Input("first", first), Input("second", second)}) == expected);
  std::vector<CellResult> again = first;  // one that gives the same settings again
  for (CellResult& cell : again) cell.run_id += ", again";
  CHECK(bands({Input("first", first), Input("second", second), Input("again", again)}) == expected);
  std::vector<CellResult> more = second;  // a mixer that lacks a setting
  Add("selective_copying", "hyena", 64, 3, 5, more);
  CHECK(bands({Input("first", first), Input("second", more)}) == expected);
  AddTiming("mixer0", "GPU A", 2, 1e6, second);
  CHECK(bands({Input("first", first), Input("second", second)}) == expected);
}

TEST_CASE("Tokens per second are compared on one device and depth alone",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "retnet"}) Add("mqar", mixer, 64, 5, 5, cells);
  const auto time = [&](const std::string& mixer, const std::string& gpu, int n_layers,
                        double tokens_per_second) {
    AddTiming(mixer, gpu, n_layers, tokens_per_second, cells);
  };
  // Only at 4 layers on GPU B were both timed.
  time("gla", "GPU A", 2, 1e6);
  time("retnet", "GPU B", 2, 2e6);
  time("gla", "GPU B", 4, 3e6);
  time("retnet", "GPU B", 4, 4e6);
  const Leaderboard board = MakeLeaderboard({Input("timed", std::move(cells))}, 5);
  CHECK(board.shape == "train_step, 64 tokens, batch 8, bf16, d 64, 4 layers, GPU B");
  const std::string page = RenderMarkdownPage(MakeLeaderboardPage(board));
  CHECK((page.find("4 layers, GPU B.") != std::string::npos));
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.ranking[0].tokens_per_second == 4e6);
  CHECK(board.ranking[1].tokens_per_second == 3e6);
}

TEST_CASE("Tokens per second are of one task, vocabulary, backbone and state mixer, in any order",
          "[reports][leaderboard]") {
  std::vector<CellResult> trained;
  for (const char* mixer : {"gla", "retnet"}) Add("mqar", mixer, 64, 5, 5, trained);
  const auto timed = [](const std::string& source, const std::string& mixer, int vocab_size,
                        double tokens_per_second) {
    std::vector<CellResult> cells;
    AddTiming(mixer, "GPU A", 2, tokens_per_second, cells);
    Object& config = cells.front().config.as_object();
    config["task"] =
        Object{{"name", "mqar"},
               {"test", Array{Object{{"input_seq_len", 64}, {"vocab_size", vocab_size}}}}};
    config["model"].as_object()["backbone"] = "zoology";
    config["model"].as_object()["state_mixer"] = "mlp";
    cells.front().run_id = cells.front().group_id += source;
    return Input(source, std::move(cells));
  };
  // A small vocabulary makes a step fast.
  std::vector<LeaderboardInput> inputs = {
      Input("trained", trained),       timed("a", "gla", 8192, 1e6), timed("b", "gla", 16, 9e6),
      timed("c", "retnet", 8192, 2e6), timed("d", "gla", 8192, 3e6), timed("e", "gla", 8192, 8e6)};
  for (int order = 0; order < 2; ++order) {
    const Leaderboard board = MakeLeaderboard(inputs, 5);
    CHECK(board.shape ==
          "train_step, 64 tokens, batch 8, bf16, d 64, 2 layers, mqar, vocabulary 8192, backbone "
          "zoology, state mixer mlp, GPU A");
    REQUIRE(board.ranking.size() == 2);
    CHECK(board.LabelOf(board.ranking[0].mixer) == "GLA");
    CHECK(board.ranking[0].tokens_per_second == 3e6);  // the median
    CHECK(board.ranking[1].tokens_per_second == 2e6);
    std::reverse(inputs.begin(), inputs.end());
  }
}

TEST_CASE("Mixers of one name with other options are two", "[reports][leaderboard]") {
  const auto report = [](const std::string& task, int num_heads) {
    std::vector<CellResult> cells;
    for (const char* mixer : {"gla", "retnet"}) Add(task, mixer, 64, 5, 5, cells);
    for (CellResult& cell : cells) {
      Value& mixer = cell.config.as_object()["model"].as_object()["sequence_mixer"];
      if (num_heads > 1) mixer.as_object()["norm_eps"] = 1e-5;  // older versions had no such option
      if (mixer.Find("name")->as_string() == "gla") mixer.as_object()["num_heads"] = num_heads;
    }
    return Input(task, std::move(cells));
  };
  const auto labels = [](const std::vector<LeaderboardInput>& inputs) {
    const Leaderboard board = MakeLeaderboard(inputs, 5);
    std::set<std::string> found;
    for (const RankedMixer& ranked : board.ranking) found.insert(board.LabelOf(ranked.mixer));
    for (const Refusal& refusal : board.refused) found.insert(refusal.what + ": " + refusal.why);
    return found;
  };
  CHECK(labels({report("mqar", 1), report("selective_copying", 1)}) ==
        std::set<std::string>{"GLA", "RetNet"});
  CHECK(labels({report("mqar", 1), report("selective_copying", 2)}) ==
        std::set<std::string>{"RetNet", "GLA (num_heads=1): lacks 1 of 2 settings",
                              "GLA (num_heads=2): lacks 1 of 2 settings"});
  // Heads that go with a size are part of one mixer.
  std::vector<CellResult> sized = report("mqar", 1).report.cells;
  const SweepReport other = report("selective_copying", 2).report;
  sized.insert(sized.end(), other.cells.begin(), other.cells.end());
  const std::vector<LeaderboardInput> one = {Input("sized", std::move(sized))};
  CHECK(labels(one) == std::set<std::string>{"GLA", "RetNet"});
}

TEST_CASE("What cannot be ranked is refused with the reason", "[reports][leaderboard]") {
  std::vector<LeaderboardInput> inputs = ThreeMixers();
  std::vector<CellResult> partial;
  Add("mqar", "gla", 512, 5, 5, partial);
  for (CellResult& cell : partial) cell.partial = true;
  inputs.push_back(Input("limited", std::move(partial)));
  std::vector<CellResult> halved;
  Add("mqar", "gla", 8192, 5, 5, halved);
  halved.front().halved_from = 512;
  inputs.push_back(Input("halved", std::move(halved)));
  std::vector<CellResult> single;
  Add("mqar", "gla", 1024, 1, 1, single);
  inputs.push_back(Input("single", std::move(single)));
  std::vector<CellResult> unfinished;
  Add("mqar", "gla", 2048, 5, 5, unfinished);
  unfinished.back().state = CellState::kPlanned;
  inputs.push_back(Input("unfinished", std::move(unfinished)));
  std::vector<CellResult> dirty;
  Add("mqar", "gla", 4096, 5, 5, dirty);
  for (CellResult& cell : dirty) {
    cell.environment = Object{{"tool", Object{{"git_dirty", true}}}};
  }
  inputs.push_back(Input("dirty", std::move(dirty)));
  std::vector<CellResult> lone;
  Add("mqar", "hyena", 64, 5, 5, lone);  // the other length is missing
  inputs.push_back(Input("lone", std::move(lone)));

  const Leaderboard board = MakeLeaderboard(inputs, 5);
  CHECK(board.ranking.size() == 3);
  const auto why = [&](const std::string& what) -> std::string {
    for (const Refusal& refusal : board.refused) {
      if (refusal.what == what) return refusal.why;
    }
    return "";
  };
  CHECK(why("limited") == "partial: it ran with a limit");
  CHECK(why("halved") == "cells trained with smaller batches than asked for, as memory lacked");
  CHECK(why("single") == "1 seed");
  CHECK(why("unfinished") == "1 of 5 cells have no result");
  CHECK(why("dirty") == "the code had uncommitted changes");
  CHECK(why("Hyena") == "lacks 1 of 2 settings");
}

TEST_CASE("A failed run is unsolved, an unsupported setting does not count",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const int length : {64, 256}) {
    Add("mqar", "gla", length, 5, 5, cells);
    Add("mqar", "retnet", length, 5, 5, cells);
  }
  for (CellResult& cell : cells) {
    if (cell.name == "mqar/retnet/input_seq_len=256") cell.state = CellState::kUnsupported;
    if (cell.name == "mqar/gla/input_seq_len=256") cell.state = CellState::kOom;
  }
  const Leaderboard board = MakeLeaderboard({Input("states", std::move(cells))}, 5);
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.ranking[0].score == 1);
  CHECK(board.mixers[static_cast<std::size_t>(board.ranking[0].mixer)].key == "retnet");
  CHECK(board.ranking[1].score == Approx(0.5));
}

TEST_CASE("Seeds that failed before they knew the threshold are unsolved runs",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  Add("mqar", "gla", 64, 5, 5, cells);
  Add("mqar", "retnet", 64, 5, 5, cells);
  for (const char* mixer : {"gla", "retnet"}) Add("no_threshold", mixer, 64, 0, 5, cells);
  for (CellResult& cell : cells) {
    const bool is_free = cell.name.starts_with("no_threshold");
    if (is_free) cell.threshold = 0;
    if (!cell.name.starts_with(is_free ? "no_threshold/retnet" : "mqar/retnet")) continue;
    cell.state = CellState::kOom;
    cell.threshold = 0;
    cell.steps_to_threshold.reset();
    cell.accuracy.clear();
  }
  const Leaderboard board = MakeLeaderboard({Input("early", std::move(cells))}, 5);
  // Nothing was to be solved in the other task, whoever failed there.
  REQUIRE(board.settings.size() == 1);
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.refused.empty());
  CHECK(board.mixers[static_cast<std::size_t>(board.ranking[1].mixer)].key == "retnet");
  CHECK(board.ranking[1].score == 0);
  CHECK(board.ranking[1].families.at("MQAR").num_runs == 5);
  CHECK_FALSE(board.ranking[1].steps);
}

TEST_CASE("Steps stand over speed, and every setting names its report", "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "retnet", "base_conv"}) {
    Add("mqar", mixer, 64, mixer[0] == 'b' ? 0 : 5, 5, cells);
    ThroughputRow row;
    row.phase = "train_step";
    row.seq_len = 64;
    row.batch_size = 8;
    row.tokens_per_second = mixer[0] == 'g' ? 1e6 : 2e6;
    cells.back().throughput.push_back(row);
  }
  LeaderboardInput here = Input("here", cells);
  here.link = "runs/here & \"now\"/report.html";
  const Leaderboard board = MakeLeaderboard({here}, 5);
  const Figure figure = StepsFigure(board);
  REQUIRE(figure.panels.size() == 1);
  const std::vector<Series>& series = figure.panels.front().series;
  REQUIRE(series.size() == 3);
  for (const Series& one : series) {
    const Mark& mark = one.marks.front();
    const std::string key = board.mixers[static_cast<std::size_t>(one.mixer)].key;
    CAPTURE(key);
    CHECK(mark.x == (key == "gla" ? 1e6 : 2e6));
    if (key == "base_conv") CHECK(mark.failed == "never");
    if (key == "gla") CHECK(mark.y == 102);
  }
  const Page page = MakeLeaderboardPage(board);
  const std::string html = RenderHtmlPage(page), text = RenderMarkdownPage(page);
  CHECK((html.find("<a href=\"runs/here%20%26%20%22now%22/report.html\">here</a>") !=
         std::string::npos));
  CHECK((text.find("[here](runs/here%20%26%20%22now%22/report.html)") != std::string::npos));
  here.link = "";
  const std::string bare = RenderHtmlPage(MakeLeaderboardPage(MakeLeaderboard({here}, 5)));
  CHECK((bare.find("Reports behind the settings") != std::string::npos));
  CHECK((bare.find(">here</a>") == std::string::npos));
}

TEST_CASE("A setting that failed before any test has the accuracy of chance",
          "[reports][leaderboard]") {
  std::vector<CellResult> cells;
  for (const char* mixer : {"gla", "retnet"}) {
    for (const int length : {64, 256}) Add("mqar", mixer, length, 5, 5, cells);
  }
  for (CellResult& cell : cells) {
    if (!cell.accuracy.empty()) cell.accuracy.front().chance = 0.25;
    if (cell.name != "mqar/gla/input_seq_len=256") continue;
    cell.state = CellState::kOom;
    cell.accuracy.clear();
  }
  const Leaderboard board = MakeLeaderboard({Input("failed", std::move(cells))}, 5);
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.ranking[0].accuracy.value() == Approx(0.99));
  CHECK(board.ranking[1].accuracy.value() == Approx((0.99 + 0.25) / 2));
}

TEST_CASE("A family's share is the mean over its settings, whatever their number of seeds",
          "[reports][leaderboard]") {
  std::vector<CellResult> few, many;
  Add("mqar", "gla", 64, 5, 5, few);
  Add("mqar", "gla", 256, 0, 20, many);
  const Leaderboard board =
      MakeLeaderboard({Input("few", std::move(few)), Input("many", std::move(many))}, 5);
  const FamilyResult& family = board.ranking.at(0).families.at("MQAR");
  CHECK(family.num_solved == 5);
  CHECK(family.num_runs == 25);
  CHECK(family.share == 0.5);
  CHECK(board.ranking[0].score == 0.5);
}

TEST_CASE("A report that does not say which code ran is ranked with a doubt",
          "[reports][leaderboard]") {
  const auto doubt_of = [](const Value& tool) {
    std::vector<CellResult> cells;
    Add("mqar", "gla", 64, 5, 5, cells);
    for (CellResult& cell : cells) cell.environment = Object{{"tool", tool}};
    const Leaderboard board = MakeLeaderboard({Input("source", std::move(cells))}, 5);
    REQUIRE(board.ranking.size() == 1);
    const std::string doubt = board.sources.at(0).doubt;
    const std::string page = RenderMarkdownPage(MakeLeaderboardPage(board));
    CHECK((page.find(doubt) != std::string::npos));
    CHECK(ConfigText(LeaderboardToValue(board), "sources.doubt") == doubt);
    return doubt;
  };
  CHECK(doubt_of(Object{{"git_commit", "7603b83"}, {"git_dirty", false}}).empty());
  CHECK(doubt_of(Object{{"git_commit", Value()}}) == "commit not recorded");
  CHECK(doubt_of(Object{{"git_commit", "7603b83"}, {"git_dirty", Value()}}) ==
        "not recorded whether the code had uncommitted changes");
}

TEST_CASE("The leaderboard is valid JSON of its schema, and the same every time",
          "[reports][leaderboard]") {
  const Value document = LeaderboardToValue(MakeLeaderboard(ThreeMixers(), 5));
  CHECK(ValidateLeaderboard(document).empty());
  CHECK(io::DumpJson(document) ==
        io::DumpJson(LeaderboardToValue(MakeLeaderboard(ThreeMixers(), 5))));
  CHECK(ValidateLeaderboard(LeaderboardToValue(MakeLeaderboard({}, 5))).empty());
  const Page page = MakeLeaderboardPage(MakeLeaderboard(ThreeMixers(), 5));
  CHECK(RenderHtmlPage(page).find("Gated") == std::string::npos);
  CHECK(RenderMarkdownPage(page).find("DeltaNet") != std::string::npos);
}

TEST_CASE("Fresh seeds rank a mixer, those that chose do not", "[reports][leaderboard]") {
  const Value config = io::ParseJson(R"({"sweep": {"select": {"over": ["train.lr"],
      "by": "validation.accuracy", "reseed": {"count": 5, "base": 0}}}})");
  const auto board_of = [&](bool is_whole) {
    std::vector<CellResult> cells, fresh;
    for (const char* mixer : {"gla", "delta_net"}) {
      Add("mqar", mixer, 64, 2, 2, cells);  // two seeds choose, and both are lucky
      Add("mqar", mixer, 64, mixer == std::string("gla") ? 3 : 5, is_whole ? 5 : 4, fresh);
    }
    for (CellResult& cell : cells) {
      cell.phase = CellPhase::kSelection;
      cell.seed += 100;
      cell.run_id += " chooses";
    }
    for (CellResult& cell : fresh) cell.phase = CellPhase::kReport;
    cells.insert(cells.end(), fresh.begin(), fresh.end());
    return MakeLeaderboard({{"recall", MakeSweepReport("recall", config, std::move(cells))}}, 5);
  };
  const Leaderboard board = board_of(true);
  REQUIRE(board.ranking.size() == 2);
  CHECK(board.ranking[0].score == Approx(1));
  CHECK(board.ranking[1].score == Approx(0.6));
  CHECK(board.num_cells == 10);
  const Leaderboard unfinished = board_of(false);
  CHECK(unfinished.ranking.empty());
  CHECK(unfinished.refused[0].why == "2 of 14 cells have no result");
}

TEST_CASE("The page and the JSON state the conditions of every setting", "[reports][leaderboard]") {
  const Value suite = io::ParseJson(R"({"sweep": {"select": {"over": ["train.lr"],
      "by": "validation.accuracy"}}})");
  const auto input = [&](const std::string& source, const std::string& mixer) {
    std::vector<CellResult> cells;
    for (const int length : {64, 256}) {
      for (const double rate : {0.001, 0.01}) {
        std::vector<CellResult> tried;
        Add("mqar", mixer, length, rate < 0.005 ? 5 : 0, 5, tried);
        for (CellResult& cell : tried) {
          cell.name += ",lr=" + std::to_string(rate);
          cell.group_id = cell.name;
          cell.run_id = cell.name + std::to_string(cell.seed);
          cell.config.as_object()["train"] =
              Object{{"lr", rate}, {"recipe", "zoology"}, {"num_epochs", length == 64 ? 8 : 16}};
          cell.learning_curve = {{.step = 100,
                                  .train_loss = 1,
                                  .validation_accuracy = cell.accuracy.front().accuracy,
                                  .lr = rate,
                                  .elapsed_s = 1}};
          cell.accuracy.front().guesses = {{"uniform over values", 0.01}, {"some value", 0.25}};
          cell.environment = Object{{"gpu", Object{{"name", "GPU of " + source}}},
                                    {"tool", Object{{"git_commit", "7603b83"}}}};
        }
        cells.insert(cells.end(), tried.begin(), tried.end());
      }
    }
    return LeaderboardInput{source, MakeSweepReport(source, suite, std::move(cells))};
  };
  const Leaderboard board = MakeLeaderboard({input("here", "gla"), input("there", "retnet")}, 5);
  REQUIRE(board.ranking.size() == 2);
  const Value document = LeaderboardToValue(board);
  CHECK(ValidateLeaderboard(document).empty());
  CHECK(ConfigText(document, "settings.threshold") == "0.95");
  CHECK(ConfigText(document, "settings.results.source") == "here");
  const auto texts = [&](const std::string& term) {
    const Value* conditions = document.Find("settings")->as_array().front().Find("conditions");
    std::string joined;
    for (const Value& text : conditions->Find(term)->as_array()) joined += text.as_string() + ";";
    return joined;
  };
  CHECK(texts("Budget") == "16 epochs;");
  CHECK(texts("Recipe") == "zoology;");
  CHECK(texts("Learning rate") == "best of 1e-3, 1e-2 by validation accuracy;");
  CHECK(texts("Seeds") == "5 (0, 1, 2, 3, 4);");
  CHECK(texts("Solved at") == "95 % validation accuracy;");
  CHECK(texts("A guesser reaches") == "1 % (uniform over values), 25 % (some value);");
  CHECK(texts("Device") == "GPU of here;GPU of there;");
  CHECK(texts("Commit") == "7603b83;");
  CHECK(texts("Report") == "here;there;");
  const Page page = MakeLeaderboardPage(board);
  // HTML keeps a number and its % together by a space that does not break.
  for (const std::string& text : {RenderMarkdownPage(page), RenderHtmlPage(page)}) {
    for (const char* said :
         {"best of 1e-3, 1e-2 by validation accuracy", "GPU of here; GPU of there", "7603b83",
          "% validation accuracy", "% (some value)", "8 epochs", "16 epochs", "here; there"}) {
      CHECK((text.find(said) != std::string::npos));
    }
  }
}

}  // namespace mixerbench::reports
