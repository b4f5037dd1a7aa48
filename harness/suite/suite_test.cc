// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/suite.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/suite/axis_text.h"
#include "harness/suite/step_count.h"
#include "harness/suite/suite_text.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/summary/sweep_report.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;  // const: read-only for every test
  return registries;
}

// A small valid suite with `path` set to `json`.
Suite ParseWith(const std::string& path, const std::string& json,
                const SuiteOverrides& given = {}) {
  Value document = io::ParseJson(R"({
    "name": "test",
    "task": {"name": "mqar", "vocab_size": 64, "noise": "zero",
             "train": {"input_seq_len": [16, 24], "num_kv_pairs": [2, 3], "num_examples": 64},
             "validation": {"num_examples": 20},
             "test": {"input_seq_len": [16, 32], "num_kv_pairs": 2, "num_examples": [40, 50]}},
    "model": {"d_model": 16, "n_layers": 2, "sequence_mixer": {"name": "attention"}},
    "train": {"lr": 0.01, "batch_size": 16, "num_epochs": 2}})");
  if (!path.empty()) io::SetPath(document.as_object(), path, io::ParseJson(json), "");
  return ParseSuite(io::DumpJson(document), given, AllRegistries());
}

TEST_CASE("suite: lists are paired in order, validation follows train, defaults are spelt out") {
  const Cell cell = ParseWith("", "").cells.at(0);
  REQUIRE(cell.task.train.size() == 2);
  CHECK(cell.task.train[1].params.Find("input_seq_len")->as_int() == 24);
  CHECK(cell.task.train[1].params.Find("num_kv_pairs")->as_int() == 3);
  CHECK(cell.task.train[1].params.Find("power_a")->as_double() == 0.01);
  CHECK(cell.task.validation[1].params == cell.task.train[1].params);
  CHECK(cell.task.validation[1].num_examples == 20);
  CHECK(cell.task.test[1].num_examples == 50);
  CHECK(cell.model.Find("backbone")->as_string() == "zoology");
  CHECK(cell.train.weight_decay == 0.1);
  CHECK(cell.task.max_seq_len == 32);
}

TEST_CASE("suite: stages of a curriculum are segments of as many batches and epochs") {
  const auto with = [](const std::string& path, const std::string& json) {
    Object train = {{"batch_order", "stages"}, {"batch_size", 16}, {"num_epochs", 4}};
    Object document = {{"train", train}};
    if (!path.empty()) io::SetPath(document, path, io::ParseJson(json), "");
    return ParseWith("train", io::DumpJson(document.at("train"))).cells.at(0);
  };
  const Cell cell = with("", "");
  const StepCount steps = CountSteps(cell.task, cell.train);
  CHECK(steps.per_epoch == 4);  // one of two segments of 64 samples
  CHECK(steps.total == 16);
  CHECK_THROWS_WITH(with("train.num_epochs", "3"),
                    Catch::StartsWith("/train/num_epochs: must be a multiple of 2"));
  CHECK_THROWS_WITH(with("train.steps_per_epoch", "3"),
                    Catch::StartsWith("/train/steps_per_epoch: is counted from num_examples"));
  const std::string stages = R"({"batch_order": "stages", "num_epochs": 2, "batch_size": 16)";
  const auto with_sizes = [&](const std::string& sizes, const std::string& train) {
    return ParseSuite(R"({"name": "t", "task": {"name": "mqar", "vocab_size": 64,
        "train": {"input_seq_len": [16, 24], "num_kv_pairs": 2, "num_examples": )" +
                          sizes +
                          R"(}, "test": {"input_seq_len": 16, "num_kv_pairs": 2}},
        "model": {"d_model": 16}, "train": )" +
                          train + "}",
                      {}, AllRegistries());
  };
  CHECK_THROWS_WITH(with_sizes("[64, 80]", stages + "}"),
                    Catch::StartsWith("/task/train/num_examples: stages need as many batches"));
  CHECK_THROWS_WITH(with_sizes("0", stages + R"(, "steps_per_epoch": 3})"),
                    Catch::StartsWith("/train/batch_order: 'stages' passes over finite data"));
}

TEST_CASE("suite: the grid is a product, zip moves together, exclude removes") {
  CHECK(ParseWith("sweep.grid", R"({"train.lr": [0.1, 0.2], "model.d_model": [16, 32, 64]})")
            .cells.size() == 6);
  const auto zipped =
      ParseWith("sweep.zip", R"({"train.lr": [0.1, 0.2], "model.d_model": [16, 32]})").cells;
  REQUIRE(zipped.size() == 2);
  CHECK(zipped[1].train.lr == 0.2);
  CHECK(zipped[1].model.Find("d_model")->as_int() == 32);
  CHECK(zipped[1].name == "mqar/attention/d_model=32,lr=0.2");
  const auto groups = ParseWith("sweep.zip", R"([{"train.lr": [0.1, 0.2]},
                                                 {"model.d_model": [16, 32, 64]}])")
                          .cells;
  CHECK(groups.size() == 6);
  CHECK(ParseWith("sweep", R"({"grid": {"train.lr": [0.1, 0.2]}, "exclude": [{"train.lr": 0.2}]})")
            .cells.size() == 1);
}

// What ParseWith throws, without the place in the file at the end (bad_config_test has those).
std::string Refusal(const std::string& path, const std::string& json,
                    const SuiteOverrides& overrides = {}) {
  try {
    ParseWith(path, json, overrides);
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind(" ("));
  }
  return "accepted";
}

TEST_CASE("suite: what would run twice is refused") {
  CHECK(Refusal("sweep.grid", R"({"train.lr": [0.1, 0.2, 0.1]})") ==
        "/sweep/grid/train.lr/2: 0.1 stands there already");
  CHECK(Refusal("sweep.zip", R"({"train.lr": [0.1, 0.2, 0.1], "model.d_model": [16, 32, 16]})") ==
        "/sweep/zip/model.d_model/2: 16 stands there already");
  CHECK(Refusal("sweep.zip", R"({"train.lr": [0.1, 0.1], "model.d_model": [16, 32]})") ==
        "accepted");
  CHECK(Refusal("sweep", R"({"grid": {"train.lr": [0.1]}, "zip": {"train.lr": [0.2]}})") ==
        "/sweep: 'train.lr' is swept twice");
  // The same once defaults are filled in.
  CHECK(Refusal("sweep.grid", R"({"model.sequence_mixer": [
            {"name": "attention"}, {"name": "attention", "dropout": 0}]})") ==
        "/sweep: 'mqar/attention' and 'mqar/attention,dropout=0' are one cell; leave one of them "
        "out");
  CHECK(Refusal("", "", {.set = {{"train.lr", "0.1,0.1"}}}) ==
        "/sweep/grid/train.lr/1: 0.1 stands there already");
}

TEST_CASE("suite: settings are chosen among only where reports find them to be rivals") {
  const auto refusal = [](const std::string& path, const std::string& values,
                          const std::string& more = "") {
    return Refusal("sweep", R"({"grid": {")" + path + R"(": )" + values + more +
                                R"(}, "select": {"by": "validation.accuracy", "over": [")" + path +
                                R"("]}})");
  };
  for (const auto& [path, values] : std::vector<std::pair<std::string, std::string>>{
           {"train.lr", "[0.1, 0.2]"},
           {"train.batch_size", "[8, 16]"},
           {"train.loss_mode", R"(["scored", "all_tokens"])"},
           {"model.d_model", "[16, 32]"},
           {"model.sequence_mixer.num_heads", "[1, 2]"},
           {"model.sequence_mixer", R"([{"name": "gla"}, {"name": "delta_net"}])"}}) {
    INFO(path);
    CHECK(refusal(path, values) == "accepted");
  }
  CHECK(refusal("train.lr", "[0.1, 0.2]", R"(, "task.noise": ["zero", "random"])") == "accepted");
  // Other defaults come along, or the option is one of each segment in the end.
  for (const auto& [path, values] : std::vector<std::pair<std::string, std::string>>{
           {"train.recipe", R"(["mad", "mad-cosine"])"},
           {"model.backbone", R"(["zoology", "mamba_lm"])"},
           {"task.train.num_examples", "[64, 4096]"}}) {
    INFO(path);
    CHECK_THAT(refusal(path, values), Catch::StartsWith("/sweep/select/over: '") &&
                                          Catch::Contains("differ in more than these paths"));
  }
  for (const auto& [path, values] : std::vector<std::pair<std::string, std::string>>{
           {"train.validation_metric", R"(["accuracy", "accuracy_per_example"])"},
           {"train.recipe", R"(["zoology", "mad"])"},
           {"task.data_seed", "[1, 2]"},
           {"task.noise", R"(["zero", "random"])"},
           {"task.test.num_examples", "[40, 50]"}}) {
    INFO(path);
    CHECK_THAT(refusal(path, values),
               Catch::StartsWith("/sweep/select/over: '") && Catch::Contains("other data"));
  }
}

TEST_CASE("suite: axes whose last words are one are told apart by the word before") {
  const auto cells = ParseWith("sweep.grid", R"({"task.train.num_kv_pairs": [1, 2],
      "task.test.num_kv_pairs": [3], "train.lr": [0.1]})")
                         .cells;
  REQUIRE(cells.size() == 2);
  CHECK(cells[1].name == "mqar/attention/test.num_kv_pairs=3,train.num_kv_pairs=2,lr=0.1");
}

TEST_CASE("suite: segments of one setting, which would be one row of a report, are refused") {
  const std::string reason = "segment 1 has the options of one that stands there already";
  const std::string test = R"({"input_seq_len": [16, 16], "num_examples": [10, 80]})";
  CHECK_THAT(Refusal("task.test", R"({"num_kv_pairs": 2, "input_seq_len": [16, 16]})"),
             Catch::StartsWith("/task/test: " + reason));
  CHECK_THAT(Refusal("task.validation.num_examples", "[20, 30]"), Catch::StartsWith("accepted"));
  CHECK_THAT(Refusal("task.validation", R"({"input_seq_len": 16, "num_kv_pairs": [2, 2]})"),
             Catch::StartsWith("/task/validation: " + reason));
  CHECK_THAT(Refusal("evaluate", "[" + test + "]"), Catch::StartsWith("/evaluate/0: " + reason));
}

TEST_CASE("suite: an exclusion must name an axis and one of its values") {
  const auto refusal = [](const std::string& rule, const SuiteOverrides& overrides = {}) {
    return Refusal("sweep",
                   R"({"grid": {"train.lr": [0.1, 0.2], "model.sequence_mixer": [{"name": "gla"},
                       {"name": "delta_net"}]}, "exclude": [)" +
                       rule + "]}",
                   overrides);
  };
  CHECK(refusal(R"({"train.lr": 0.1, "model.sequence_mixer.name": "gla"})") == "accepted");
  CHECK(refusal(R"({"train.lr": 0.1}, {"train.lrr": 0.1})") ==
        "/sweep/exclude/1/train.lrr: unknown axis 'train.lrr' (did you mean 'train.lr'?); known: "
        "model.sequence_mixer, train.lr");
  CHECK(refusal(R"({"train.lr": 0.3})") ==
        "/sweep/exclude/0/train.lr: excludes nothing: 0.3 is none of 0.1, 0.2");
  CHECK_THAT(refusal(R"({"model.sequence_mixer.name": "glaa"})"),
             Catch::EndsWith("glaa is none of gla, delta_net"));
  CHECK_THAT(refusal(R"({"model.sequence_mixer.nam": "gla"})"), Catch::Contains("unknown axis"));
  // An axis that the command line replaces takes its conditions with it.
  CHECK(refusal(R"({"train.lr": 0.1})", {.set = {{"train.lr", "0.5"}}}) == "accepted");
  CHECK_THAT(refusal("", {.set = {{"sweep.exclude", R"([{"train.lrr": 1}])"}}}),
             Catch::Contains("unknown axis 'train.lrr'"));
}

TEST_CASE("suite: of all mixers one may be excluded") {
  const std::string grid = R"({"grid": {"model.sequence_mixer": "all"})";
  const auto all = ParseWith("sweep", grid + "}").cells.size();
  CHECK(ParseWith("sweep", grid + R"(, "exclude": [{"model.sequence_mixer.name": "gla"}]})")
            .cells.size() == all - 1);
}

TEST_CASE("suite: a grid of any size is refused before it is expanded") {
  std::string axis = "[0.0001";
  for (int i = 2; i <= 1000; ++i) axis += ", " + std::to_string(i * 1e-4);
  axis += "]";
  CHECK_THAT(Refusal("sweep.grid", R"({"train.lr": )" + axis + R"(, "train.weight_decay": )" +
                                       axis + R"(, "train.grad_clip": )" + axis + "}"),
             Catch::StartsWith("/sweep: more than 100000 cells"));
}

TEST_CASE("suite: its name is that of a folder") {
  for (const char* name : {"../elsewhere", "a/b", ".hidden", "", "two words", "line\\nbreak"}) {
    CHECK_THAT(Refusal("name", '"' + std::string(name) + '"'), Catch::StartsWith("/name: '"));
  }
  CHECK(Refusal("name", R"("mqar-2.1_b")") == "accepted");
}

TEST_CASE("suite: seeds are counted in 64 bits and up to a limit") {
  CHECK(Refusal("seeds", R"({"count": 10001})") == "/seeds/count: must be in 1..10000");
  CHECK(Refusal("seeds", R"({"base": 9223372036854775807})") ==
        "/seeds/base: the last seed needs 64 bits");
}

// The mixers of the cells, by their text in the names.
std::vector<std::string> MixersOf(const std::vector<Cell>& cells) {
  std::vector<std::string> mixers;
  for (const Cell& cell : cells) {
    const std::size_t start = cell.name.find('/') + 1;
    mixers.push_back(cell.name.substr(start, cell.name.find('/', start) - start));
  }
  return mixers;
}

TEST_CASE("suite: --add-mixer adds one under the conditions of its neighbours") {
  using Names = std::vector<std::string>;
  const auto mixers = [](const std::string& path, const std::string& json,
                         const std::string& added) {
    return MixersOf(ParseWith(path, json, {.add_mixers = {added}}).cells);
  };
  // Without an axis, beside the suite's own.
  CHECK(mixers("", "", "gla") == Names{"attention", "gla"});
  CHECK(mixers("sweep.grid",
               R"({"model.sequence_mixer": [{"name": "gla"}, {"name": "delta_net"}]})",
               R"({"name": "retnet", "num_heads": 4})") ==
        Names{"gla", "delta_net", "retnet,num_heads=4"});
  // Of hybrids that differ in one layer it takes that layer.
  const std::string hybrids = R"({"model.sequence_mixer": [
      {"name": "hybrid", "pattern": [{"name": "base_conv"}, {"name": "attention"}]},
      {"name": "hybrid", "pattern": [{"name": "base_conv"}, {"name": "gla"}]}]})";
  CHECK(mixers("sweep.grid", hybrids, "retnet") ==
        Names{"base_conv+attention", "base_conv+gla", "base_conv+retnet"});
  CHECK(mixers("sweep.grid", hybrids,
               R"({"name": "hybrid", "pattern": [{"name": "retnet"}, {"name": "gla"}]})")
            .back() == "retnet+gla");
  // Their labels are their own.
  const std::string labelled = R"({"model.sequence_mixer": [
      {"name": "hybrid", "label": "A", "pattern": [{"name": "base_conv"}, {"name": "attention"}]},
      {"name": "hybrid", "label": "B", "pattern": [{"name": "base_conv"}, {"name": "gla"}]}]})";
  CHECK(mixers("sweep.grid", labelled, "retnet") == Names{"A", "B", "base_conv+retnet"});
  // A plain neighbour says that mixers stand alone.
  CHECK(mixers("sweep.grid", R"({"model.sequence_mixer": [{"name": "gla"},
            {"name": "hybrid", "pattern": [{"name": "base_conv"}, {"name": "gla"}]}]})",
               "retnet")
            .back() == "retnet");
}

TEST_CASE("suite: what is zipped with the mixers takes its most frequent value for an added one") {
  const std::string zipped = R"({"model.sequence_mixer": [{"name": "attention"}, {"name": "gla"},
      {"name": "delta_net"}], "model.positions": ["learned", "none", "none"],
      "train.lr": [0.1, 0.2, 0.3]})";
  for (const std::string& json : {zipped, "[{\"train.batch_size\": [8, 16]}, " + zipped + "]"}) {
    const auto cells = ParseWith("sweep.zip", json, {.add_mixers = {"retnet"}}).cells;
    const Cell& added = cells.back();
    CHECK(added.model.Find("sequence_mixer")->Find("name")->as_string() == "retnet");
    CHECK(added.model.Find("positions")->as_string() == "none");
    CHECK(added.train.lr == 0.3);
  }
}

TEST_CASE("suite: a mixer that cannot be added is refused with the reason") {
  const auto refusal = [](const std::string& json, const std::string& added) {
    return Refusal("sweep.grid", json, {.add_mixers = {added}});
  };
  const std::string plain = R"({"model.sequence_mixer": [{"name": "gla"}]})";
  CHECK_THAT(refusal(plain, "glaa"), Catch::Contains("did you mean 'gla'"));
  CHECK_THAT(refusal(plain, "{\"name\": gla}"),
             Catch::StartsWith("--add-mixer: line 1, column 10"));
  CHECK_THAT(refusal(plain, "{\"num_heads\": 2}"),
             Catch::StartsWith("--add-mixer: expected a name"));
  CHECK_THAT(refusal(plain, "gla"), Catch::Contains("gla stands there already"));
  CHECK_THAT(refusal(R"({"model.sequence_mixer": [
            {"name": "hybrid", "pattern": [{"name": "base_conv"}, {"name": "gla"}]}]})",
                     "retnet"),
             Catch::Contains("do not differ in exactly one layer"));
}

TEST_CASE("suite: a hybrid is named by its layers") {
  const auto cells = ParseWith("sweep.grid", R"({"model.sequence_mixer": [
      {"name": "gla", "num_heads": 4},
      {"name": "hybrid", "pattern": [{"name": "base_conv"}, {"name": "gla"}]}]})")
                         .cells;
  CHECK(cells.at(0).name == "mqar/gla,num_heads=4");
  CHECK(cells.at(1).name == "mqar/base_conv+gla");
}

TEST_CASE("suite: a mixer in Python is named by its class") {
  CHECK(reports::MixerText(Object{{"name", "gla"}, {"num_heads", 2}}) == "gla");
  CHECK(reports::MixerText(Object{{"name", "python"}, {"module", "folder/own.py:Mean"}}) == "Mean");
}

TEST_CASE("suite: classes of one name are told apart by their files") {
  const Value mixers = io::ParseJson(R"([
      {"name": "gla"},
      {"name": "python", "module": "one/a.py:Mine"},
      {"name": "python", "module": "/two/a.py:Mine"},
      {"name": "python", "module": "./b.py:Mine", "options": {"scale": 2}},
      {"name": "python", "module": "package.b:Mine"},
      {"name": "python", "module": "b.py:Other"},
      {"name": "hybrid", "pattern": [{"name": "gla"}, {"name": "python", "module": "c.py:Mine"}]}])");
  CHECK(AxisTexts(mixers.as_array()) == std::vector<std::string>{"gla", "one.a.Mine", "two.a.Mine",
                                                                 "b.Mine,scale=2", "package.b.Mine",
                                                                 "Other", "gla+c.Mine"});
  CHECK(AxisText(mixers.as_array().at(1)) == "Mine");
}

TEST_CASE("suite: different values have different texts") {
  const auto texts = [](const char* values) { return AxisTexts(io::ParseJson(values).as_array()); };
  CHECK(texts(R"([{"name": "hybrid", "pattern": [
                    {"name": "parallel", "branches": [{"name": "attention"}, {"name": "gla"}]},
                    {"name": "base_conv"}]},
                  {"name": "parallel",
                   "branches": [{"name": "attention"}, {"name": "gla"}, {"name": "base_conv"}]}])") ==
        std::vector<std::string>{"[parallel,branches=attention+gla]+base_conv",
                                 "parallel,branches=attention+gla+base_conv"});
  CHECK(texts(R"([true, "true", [1, 2], "1+2", true])") ==
        std::vector<std::string>{"true", "true #2", "1+2", "1+2 #2", "true"});
}

TEST_CASE("suite: a mixer's label names its cells and changes no id") {
  const auto plain = ParseWith("model.sequence_mixer", R"({"name": "gla"})").cells;
  const auto labelled =
      ParseWith("model.sequence_mixer", R"({"name": "gla", "label": "GLA & co"})").cells;
  CHECK(labelled.at(0).name == "mqar/GLA & co");
  CHECK(labelled.at(0).run_id == plain.at(0).run_id);
  const auto swept = ParseWith("sweep.grid", R"({"model.sequence_mixer": [
      {"name": "attention", "num_heads": 1, "label": "1 head"},
      {"name": "attention", "num_heads": 2, "label": "2 heads"}]})")
                         .cells;
  REQUIRE(swept.size() == 2);
  CHECK(swept[1].name == "mqar/2 heads");
  CHECK_THAT(Refusal("model.sequence_mixer", R"({"name": "gla", "label": "a/b"})"),
             Catch::Contains("/model/sequence_mixer/label"));
  CHECK_THAT(Refusal("sweep.grid", R"({"model.sequence_mixer": [
      {"name": "gla", "label": "x"}, {"name": "attention", "label": "x"}]})"),
             Catch::Contains("names two mixers"));
  // Nor may it be the name of a mixer without one, whichever comes first.
  for (const char* mixers : {R"([{"name": "gla"}, {"name": "attention", "label": "gla"}])",
                             R"([{"name": "attention", "label": "gla"}, {"name": "gla"}])"}) {
    CHECK(Refusal("sweep.grid", R"({"model.sequence_mixer": )" + std::string(mixers) + "}") ==
          "/model/sequence_mixer/label: 'gla' names two mixers of one setting");
  }
  const auto with_length = [](std::size_t length) {
    std::string label;
    for (std::size_t i = 0; i < length; ++i) label += "\u00e9";
    return Refusal("model.sequence_mixer", R"({"name": "gla", "label": ")" + label + "\"}");
  };
  CHECK(with_length(40) == "accepted");
  CHECK(with_length(41) != "accepted");
}

TEST_CASE("suite: a backbone may bring options that others do not have") {
  const auto model = [](const std::string& backbone) {
    return ParseWith("model.backbone", backbone).cells.at(0).model;
  };
  const Value layered = model(R"({"name": "mamba_lm", "final_norm": "layer"})");
  CHECK(layered.Find("backbone")->as_string() == "mamba_lm");
  CHECK(layered.Find("final_norm")->as_string() == "layer");
  CHECK(model(R"({"name": "mamba_lm"})") == model(R"("mamba_lm")"));
  const auto cells = ParseWith("sweep", R"({"grid": {"model.backbone": ["zoology",
                {"name": "mamba_lm", "final_norm": "layer"}]}})")
                         .cells;
  REQUIRE(cells.size() == 2);
  CHECK(cells[1].name == "mqar/attention/backbone=mamba_lm,final_norm=layer");
  CHECK_THAT(Refusal("model.backbone", R"({"name": "mamba_lm", "n_layers": 3})"),
             Catch::Contains("/model/backbone/n_layers: stands in /model too"));
  CHECK_THAT(Refusal("model.backbone", R"({"final_norm": "layer"})"),
             Catch::Contains("/model/backbone/name"));
  CHECK_THAT(Refusal("model.backbone", R"({"name": "mamba_lm", "final_nrom": "layer"})"),
             Catch::Contains("final_nrom"));
}

TEST_CASE("suite: --set changes values and makes sweeps, --seeds and --limit apply") {
  SuiteOverrides overrides;
  overrides.set = {{"train.lr", "0.5"}, {"model.d_model", "16,32"}};
  overrides.seeds = {3, 4, 9};
  overrides.limit = 7;
  const auto cells = ParseWith("", "", overrides).cells;
  REQUIRE(cells.size() == 6);
  CHECK(cells[0].train.lr == 0.5);
  CHECK(cells[5].model.Find("d_model")->as_int() == 32);
  CHECK(cells[5].seed == 9);
  CHECK(cells[5].task.test[0].num_examples == 7);
  CHECK(cells[5].task.train[0].num_examples == 64);
  CHECK(cells[5].limited);
}

TEST_CASE("suite: --set replaces an axis that the suite sweeps") {
  SuiteOverrides overrides;
  overrides.set = {{"train.lr", "0.5"}};
  const auto cells =
      ParseWith("sweep.grid", R"({"train.lr": [0.1, 0.2], "model.d_model": [16, 32]})", overrides)
          .cells;
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].train.lr == 0.5);
}

TEST_CASE("suite: --set replaces an axis of one of several zips") {
  SuiteOverrides overrides;
  overrides.set = {{"train.lr", "0.5"}, {"model.n_layers", "1"}};
  const auto cells =
      ParseWith(
          "sweep.zip",
          R"([{"train.lr": [0.1, 0.2], "model.d_model": [16, 32]}, {"model.n_layers": [1, 2]}])",
          overrides)
          .cells;
  REQUIRE(cells.size() == 2);
  for (const Cell& cell : cells) CHECK(cell.train.lr == 0.5);
}

TEST_CASE("suite: --set may leave one value to choose from") {
  SuiteOverrides overrides;
  overrides.set = {{"train.lr", "0.5"}};
  const std::string sweep =
      R"({"grid": {"train.lr": [0.1, 0.2], "model.d_model": [16, 32]}, "select":
      {"over": ["train.lr"], "by": "validation.accuracy", "reseed": {"count": 3}}})";
  const auto cells = ParseWith("sweep", sweep, overrides).cells;
  REQUIRE(cells.size() == 2);
  for (const Cell& cell : cells) {
    CHECK(cell.train.lr == 0.5);
    CHECK(cell.phase == reports::CellPhase::kSelection);
  }
}

TEST_CASE("suite: --set holds for every value of the axis that it lies in") {
  const std::string mixers = R"([{"name": "gla"}, {"name": "delta_net", "num_heads": 1}])";
  for (const std::string axes : {"sweep.grid", "sweep.zip"}) {
    for (const std::string text : {"4", "4,8"}) {
      SuiteOverrides overrides;
      overrides.set = {{"model.sequence_mixer.num_heads", text}};
      const auto cells =
          ParseWith(axes, R"({"model.sequence_mixer": )" + mixers + "}", overrides).cells;
      CHECK(cells.size() == (text == "4" ? 2 : 4));
      for (const Cell& cell : cells) {
        const Value& mixer = *cell.model.Find("sequence_mixer");
        CHECK(mixer.Find("num_heads")->as_int() >= 4);
      }
    }
  }
}

TEST_CASE("suite: a throughput section adds one cell per model, not per seed or rate") {
  SuiteOverrides overrides;
  overrides.seeds = {0, 1};
  overrides.set = {{"throughput.seq_len", "[16]"}, {"train.lr", "0.1,0.2"}};
  const auto cells = ParseWith("", "", overrides).cells;
  std::size_t timed = 0;
  for (const Cell& cell : cells) timed += cell.kind == CellKind::kThroughput ? 1 : 0;
  CHECK(cells.size() == 5);
  CHECK(timed == 1);
}

TEST_CASE("suite: a step is timed once for each kind of work that it does") {
  const auto num_timed = [](const std::string& path, const std::string& values,
                            const std::string& phase) {
    SuiteOverrides overrides;
    const std::string length = phase == "train_step" ? "" : R"("seq_len": [16], )";
    overrides.set = {{"throughput", "{" + length + R"("phases": [")" + phase + "\"]}"},
                     {path, values}};
    const auto cells = ParseWith("", "", overrides).cells;
    return std::count_if(cells.begin(), cells.end(),
                         [](const Cell& cell) { return cell.kind == CellKind::kThroughput; });
  };
  CHECK(num_timed("train.lr", "0.1,0.2", "train_step") == 1);
  for (const auto& [path, values] : std::vector<std::pair<std::string, std::string>>{
           {"train.loss_mode", "scored,all_tokens"},
           {"train.grad_clip", "0,1,2"},
           {"train.decay_all_parameters", "true,false"}}) {
    INFO(path);
    CHECK(num_timed(path, values, "train_step") == 2);
    CHECK(num_timed(path, values, "fwd") == 1);
  }
}

TEST_CASE("suite: what is timed is bounded, and timed once") {
  const auto refusal = [](const std::string& option, const std::string& value) {
    return Refusal("throughput", R"({"seq_len": [16], ")" + option + "\": " + value + "}");
  };
  CHECK(refusal("batch_size", "1048577") == "/throughput/batch_size: must be in 1..1048576");
  CHECK(refusal("num_samples", "1000000000") == "/throughput/num_samples: must be in 3..100000");
  CHECK(refusal("phases", R"(["fwd", "fwd"])") == "/throughput/phases/1: stands there already");
  CHECK(Refusal("throughput", R"({"seq_len": [4611686018427387904]})") ==
        "/throughput/seq_len/0: must be in 1..134217728");
  CHECK(Refusal("throughput", R"({"seq_len": [32, 16, 32]})") ==
        "/throughput/seq_len/2: stands there already");
  CHECK(Refusal("throughput", "{}") == "/throughput/seq_len: missing; add it");
  CHECK(Refusal("throughput", R"({"phases": ["train_step", "fwd"]})") ==
        "/throughput/seq_len: missing; add it");
  for (const std::string member : {R"("seq_len": [16])", R"("batch_size": 8)"}) {
    CAPTURE(member);
    CHECK(Refusal("throughput", R"({"phases": ["train_step"], )" + member + "}")
              .ends_with("has no effect: train_step has the task's length and train's batch_size"));
  }
}

TEST_CASE("suite: a limit that cuts nothing leaves results whole") {
  SuiteOverrides overrides;
  overrides.limit = 50;
  CHECK_FALSE(ParseWith("", "", overrides).cells.at(0).limited);
  const auto cells = ParseWith("evaluate", R"([{"num_examples": 51}])", overrides).cells;
  REQUIRE(cells.size() == 2);
  CHECK_FALSE(cells[0].limited);
  CHECK(cells[1].limited);
  overrides.limit = 49;
  CHECK(ParseWith("", "", overrides).cells.at(0).limited);
}

TEST_CASE("suite: what uses trainings is a cell for each of them, tested as it says") {
  SuiteOverrides overrides;
  overrides.seeds = {0, 1};
  overrides.set = {{"evaluate", R"([{"num_examples": 7}, {"input_seq_len": [40, 48]}])"},
                   {"train.lr", "0.1,0.2"}};
  const auto cells = ParseWith("", "", overrides).cells;
  const Cell* trained = &cells[0];
  std::vector<const Cell*> uses;
  for (const Cell& cell : cells) {
    if (cell.training_id == trained->training_id && cell.kind != CellKind::kTrain) {
      uses.push_back(&cell);
    }
  }
  CHECK(cells.size() == 12);
  REQUIRE(uses.size() == 2);
  REQUIRE(uses[0]->task.test.size() == trained->task.test.size());
  CHECK(uses[0]->task.test[0].params == trained->task.test[0].params);
  CHECK(uses[0]->task.test[0].num_examples == 7);
  CHECK(uses[1]->task.test[1].params.Find("input_seq_len")->as_int() == 48);
  CHECK(uses[1]->trained_max_seq_len == trained->task.max_seq_len);
  CHECK(uses[1]->task.max_seq_len == 48);
}

TEST_CASE("suite: a cell survives the way to its worker") {
  const Cell cell = ParseWith("throughput", R"({"seq_len": [16, 32]})").cells.back();
  const Value value = CellToValue(cell);
  CHECK(CellToValue(CellFromValue(io::ParseJson(io::DumpJson(value)), AllRegistries().tasks)) ==
        value);
}

TEST_CASE("suite: what a model lacks is refused at every point of a sweep") {
  const auto rates = [](const std::string& mixer) {
    return R"({"grid": {"train.ssm_lr": [0, 0.001], "model.sequence_mixer": [{"name": ")" + mixer +
           R"("}]}})";
  };
  CHECK_THAT(Refusal("train.ssm_lr", "0.001"), Catch::StartsWith("/train/ssm_lr: "));
  CHECK_THAT(
      Refusal("sweep", rates("mamba")),
      Catch::StartsWith("/train/ssm_lr: is the rate of time-invariant state spaces, of which "
                        "this model has none (h3, lru, s4, s4d, s5"));
  const auto cells = ParseWith("sweep", rates("s4d")).cells;
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].run_id != cells[1].run_id);
  CHECK_THAT(Refusal("sweep", R"({"grid": {"train.auxiliary_losses": [{}, {"balance": 1}]}})"),
             Catch::StartsWith("/train/auxiliary_losses/balance: "));
}

TEST_CASE("suite: settings of the rate that would do nothing, or never all they say, are refused") {
  CHECK(Refusal("train.warmup_steps", "15") == "accepted");
  CHECK_THAT(Refusal("train.warmup_steps", "16"),
             Catch::StartsWith("/train/warmup_steps: must be below the 16 steps of the training"));
  CHECK(Refusal("train", R"({"schedule": "linear", "min_lr": 1e-4})") == "accepted");
  CHECK_THAT(Refusal("train", R"({"schedule": "constant", "min_lr": 1e-4})"),
             Catch::StartsWith("/train/min_lr: is of schedules that fall"));
  CHECK(Refusal("train", R"({"recipe": "mad", "min_lr": 1e-6})") == "accepted");  // as resolved
  CHECK(Refusal("train", R"({"recipe": "mad", "lr": 1e-7})") == "accepted");      // it never falls
  CHECK_THAT(Refusal("train", R"({"recipe": "mad-cosine", "lr": 1e-7})"),
             Catch::StartsWith("/train/min_lr: must be in [0, lr]"));
}

TEST_CASE("suite: everything that can change the result changes the run id, and nothing else") {
  const std::string base = ParseWith("", "").cells.at(0).run_id;
  CHECK(base.size() == 64);
  CHECK(ParseWith("description", R"("words")").cells.at(0).run_id == base);
  CHECK(ParseWith("name", R"("other")").cells.at(0).run_id == base);
  CHECK(ParseWith("train.eval_batch_tokens", "3").cells.at(0).run_id == base);

  std::set<std::string> ids = {base};
  const auto expect_new = [&](const std::string& path, const std::string& json) {
    INFO(path);
    CHECK(ids.insert(ParseWith(path, json).cells.at(0).run_id).second);
  };
  // Every field of the training configuration but those of presentation.
  const Value train = TrainFields().Write(ParseWith("", "").cells.at(0).train);
  for (const auto& [name, value] : train.as_object()) {
    if (name == "eval_batch_tokens" || name == "steps_per_epoch") continue;
    if (name == "auxiliary_losses" || name == "ssm_lr") continue;  // this model has none
    const std::string path = "train." + name;
    if (name == "recipe") {
      expect_new(path, R"("mad-cosine")");
    } else if (name == "schedule") {
      expect_new(path, R"("constant")");
    } else if (name == "batch_order") {
      expect_new(path, R"("fixed")");
    } else if (name == "loss_mode") {
      expect_new(path, R"("all_tokens")");
    } else if (name == "dtype") {
      expect_new(path, R"("bf16")");
    } else if (value.is_bool()) {
      expect_new(path, value.as_bool() ? "false" : "true");
    } else if (name == "min_lr") {
      expect_new(path, "0.001");
    } else if (name == "early_stop_accuracy") {
      expect_new(path, "0.97");
    } else if (value.is_double() || name.ends_with("accuracy") || name.starts_with("beta")) {
      expect_new(path, "0.25");
    } else {
      expect_new(path, std::to_string(value.as_int() + 1));
    }
  }
  expect_new("train.validation_metric", R"("accuracy_per_example")");
  expect_new("task.noise", R"("random")");
  expect_new("task.data_seed", "5");
  expect_new("task.train.num_examples", "65");
  expect_new("task.test.num_examples", "41");
  expect_new("model.n_layers", "3");
  expect_new("model.sequence_mixer", R"({"name": "gla"})");
  expect_new("model.sequence_mixer.num_heads", "4");
  expect_new("seeds.base", "1");
  SuiteOverrides cuda;
  cuda.device_type = "cuda";
  CHECK(ids.insert(ParseWith("", "", cuda).cells.at(0).run_id).second);
}

TEST_CASE("suite: a cell has an id for what was asked, for its code and for its data") {
  const Cell base = ParseWith("", "").cells.at(0);
  const auto expect = [&](const std::string& path, const std::string& json, bool experiment,
                          bool code, bool data) {
    INFO(path << " " << json);
    const Cell other = ParseWith(path, json).cells.at(0);
    CHECK((other.experiment_id != base.experiment_id) == experiment);
    CHECK((other.code_id != base.code_id) == code);
    CHECK((other.data_id != base.data_id) == data);
    CHECK(other.run_id != base.run_id);
  };
  expect("train.lr", "0.25", true, false, false);
  expect("model.sequence_mixer", R"({"name": "gla"})", true, true, false);
  expect("task.data_seed", "5", true, false, true);
  expect("task.test.num_examples", "41", true, false, true);
  expect("seeds.base", "1", false, false, true);
  expect("task", R"({"name": "mod_arith", "train": {"num_examples": 64}, "test": {}})", true, true,
         true);
}

TEST_CASE("suite: the code of a cell is that of its task, mixers, backbone and of training") {
  const Cell cell = ParseWith("model.sequence_mixer", R"({"name": "hybrid", "pattern": [
      {"name": "base_conv"}, {"name": "gla"}]})")
                        .cells.at(0);
  CHECK(cell.code.Find("task")->as_object().size() == 1);
  CHECK(cell.code.Find("task")->Find("mqar") != nullptr);
  CHECK(cell.code.Find("backbone")->Find("zoology") != nullptr);
  CHECK(cell.code.Find("harness")->as_string().size() == 7 + 64);
  CHECK_FALSE(cell.code.Find("libtorch")->as_string().empty());
  std::vector<std::string> mixers;
  for (const auto& [name, hash] : cell.code.Find("mixers")->as_object()) mixers.push_back(name);
  CHECK(mixers == std::vector<std::string>{"base_conv", "gla", "hybrid"});
}

TEST_CASE("suite: a file that an option names counts by its content") {
  const auto ids = [](const std::string& name, const std::string& text) {
    const auto path = std::filesystem::temp_directory_path() / name;
    std::ofstream(path) << text;
    const Cell cell =
        ParseWith("task", R"({"name": "niah", "type_haystack": "file", "haystack_file": ")" +
                              path.string() +
                              R"(", "input_seq_len": 512,
                       "train": {"num_examples": 4}, "test": {"num_examples": 4}})")
            .cells.at(0);
    std::filesystem::remove(path);
    return cell;
  };
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Sentence number " + std::to_string(i) + " is this.\n";
  const Cell base = ids("a.txt", text);
  const Cell moved = ids("b.txt", text);
  const Cell edited = ids("a.txt", text + "One more.\n");
  CHECK(moved.run_id == base.run_id);
  CHECK(edited.experiment_id != base.experiment_id);
  CHECK(edited.data_id != base.data_id);
}

TEST_CASE("suite: seeds of one configuration share a group") {
  SuiteOverrides overrides;
  overrides.seeds = {0, 1};
  const auto cells = ParseWith("", "", overrides).cells;
  CHECK(cells[0].group_id == cells[1].group_id);
  CHECK(cells[0].run_id != cells[1].run_id);
  // Test data are the same for every seed, training data are not.
  CHECK(*cells[0].data_hash.Find("test") == *cells[1].data_hash.Find("test"));
  CHECK_FALSE(*cells[0].data_hash.Find("train") == *cells[1].data_hash.Find("train"));
}

TEST_CASE("suite: a task that a causal model only copies is refused, and takes an auto-encoder") {
  const std::string compression = R"({"preset": "mad/c/baseline"})";
  CHECK_THROWS_WITH(
      ParseWith("task", compression),
      Catch::StartsWith(
          "/model/backbone: 'mad_compression' asks for the tokens at their own positions, which "
          "'zoology' reads and copies: it would score 1 with any mixer. It needs an auto-encoder: "
          "mad_autoencoder ("));
  const Registries registries;
  const auto parse = [&](const std::string& task, const std::string& train) {
    return ParseSuite(R"({"name": "test", "task": )" + task + R"(, "train": )" + train + R"(,
        "model": {"backbone": "mad_autoencoder", "d_model": 128}})",
                      {}, registries);
  };
  CHECK(parse(compression, "{}").cells.size() == 1);
  CHECK_THROWS_WITH(
      parse(R"({"preset": "mqar/tiny"})", "{}"),
      Catch::StartsWith("/model/backbone: 'mad_autoencoder' is an auto-encoder, which only tasks "
                        "that reproduce their input ask for; 'mqar' needs another backbone ("));
  CHECK_THROWS_WITH(
      parse(compression, R"({"eval_piece_len": 16})"),
      Catch::StartsWith("/train/eval_piece_len: 'mad_autoencoder' reads an input in one "
                        "call: at least 32, the longest input ("));
  const auto timed = [&](const std::string& phases) {
    return ParseSuite(R"({"name": "test", "task": )" + compression + R"(,
        "model": {"backbone": "mad_autoencoder", "d_model": 128},
        "throughput": {"seq_len": [32], "phases": )" +
                          phases + "}}",
                      {}, registries);
  };
  CHECK(timed(R"(["fwd", "fwd_bwd", "train_step"])").cells.size() == 2);
  for (const std::string phase : {"prefill", "decode"}) {
    CHECK_THROWS_WITH(
        timed(R"(["fwd", ")" + phase + R"("])"),
        Catch::StartsWith("/throughput/phases: 'mad_autoencoder' reads an input in one call and "
                          "goes on from no state, so it has no " +
                          phase));
  }
}

TEST_CASE(
    "suite: --smoke takes the reduced form that a suite has, and nothing of it stays otherwise") {
  const Registries registries;
  const std::string text = R"({"name": "t", "task": {"preset": "mqar/tiny"},
      "model": {"d_model": 64, "sequence_mixer": {"name": "gla"}}, "train": {"lr": 0.01},
      "smoke": {"model.d_model": 16, "train": {"num_epochs": 2}}})";
  const Suite whole = ParseSuite(text, {}, registries);
  CHECK(whole.name == "t");
  CHECK(whole.config.Find("smoke") == nullptr);
  CHECK(whole.cells.at(0).model.Find("d_model")->as_int() == 64);
  SuiteOverrides overrides;
  overrides.smoke = true;
  const Suite smoke = ParseSuite(text, overrides, registries);
  CHECK(smoke.name == "t-smoke");
  CHECK(smoke.cells.at(0).model.Find("d_model")->as_int() == 16);
  CHECK(smoke.cells.at(0).train.num_epochs == 2);
  CHECK(smoke.cells.at(0).train.lr == 0.001);  // the recipe's: "train" was replaced
  // It is checked without --smoke too, and is the file's alone.
  std::string wrong = text;
  wrong.replace(wrong.find("model.d_model"), 13, "model.d_modle");
  CHECK_THROWS_WITH(
      ParseSuite(wrong, {}, registries),
      Catch::StartsWith("/model/d_modle: unknown parameter") && Catch::Contains("(line 3"));
  overrides.set = {{"smoke.model.d_model", "32"}};
  CHECK_THROWS_WITH(ParseSuite(text, overrides, registries),
                    Catch::StartsWith("--set smoke.model.d_model: the reduced form"));
  overrides.set.clear();
  CHECK_THROWS_WITH(ParseSuite(R"({"name": "t", "task": {}, "model": {}})", overrides, registries),
                    "/smoke: missing: this suite has no reduced form");
}

TEST_CASE("suite: a preset brings its options, sizes, labels and seed") {
  const Cell memorization = ParseWith("task", R"({"preset": "mad/m/baseline"})").cells.at(0);
  CHECK(memorization.task.name == "mad_memorization");
  CHECK(memorization.task.data_seed == 12345);
  REQUIRE(memorization.task.train.size() == 1);
  CHECK(memorization.task.train[0].num_examples == 256);
  CHECK(memorization.task.train[0].params.Find("vocab_size")->as_int() == 256);
  CHECK(memorization.task.validation[0].num_examples == 1000);
  CHECK(memorization.task.test[0].num_examples == 1280);
  CHECK(memorization.name == "mad_memorization/attention");

  const Cell mixture = ParseWith("task", R"({"preset": "mqar/based"})").cells.at(0);
  REQUIRE(mixture.task.train.size() == 5);
  CHECK(mixture.task.train[0].num_examples == 100000);
  CHECK(mixture.task.train[4].params.Find("num_kv_pairs")->as_int() == 64);
  CHECK(mixture.task.train[4].num_examples == 20000);
  REQUIRE(mixture.task.test.size() == 7);
  CHECK(mixture.task.test[6].params.Find("input_seq_len")->as_int() == 1024);

  const Cell fuzzy = ParseWith("task", R"({"preset": "mad/fr/baseline"})").cells.at(0);
  CHECK(fuzzy.task.train[0].params.Find("key_length")->as_string() == "uniform");
  CHECK(fuzzy.task.validation[0].params.Find("key_length")->as_string() == "uniform");
  CHECK(fuzzy.task.test[0].params.Find("key_length")->as_string() == "longest");
  CHECK(fuzzy.train.loss_mode == LossMode::kAllTokens);
}

TEST_CASE("suite: what stands beside a preset wins over it") {
  const Cell cell = ParseWith("task", R"({"preset": "mad/fr/baseline", "vocab_size": 64,
      "data_seed": 7, "train": {"num_examples": 800}, "validation": {"num_examples": 50},
      "test": {"input_seq_len": [128, 256]}})")
                        .cells.at(0);
  CHECK(cell.task.data_seed == 7);
  CHECK(cell.task.train[0].num_examples == 800);
  CHECK(cell.task.train[0].params.Find("vocab_size")->as_int() == 64);
  CHECK(cell.task.validation[0].num_examples == 50);
  REQUIRE(cell.task.test.size() == 2);
  CHECK(cell.task.test[1].params.Find("input_seq_len")->as_int() == 256);
  CHECK(cell.task.test[1].params.Find("vocab_size")->as_int() == 64);
  CHECK(cell.task.test[1].params.Find("key_length")->as_string() == "longest");
  CHECK(cell.task.test[1].num_examples == 1280);

  // A preset knows better than a recipe what its task is trained on, and "train" knows best.
  const auto loss_mode = [](const std::string& train) {
    return ParseSuite(R"({"name": "test", "task": {"preset": "mad/m/baseline"}, "model": {
        "d_model": 16, "sequence_mixer": {"name": "attention"}}, "train": )" +
                          train + "}",
                      {}, AllRegistries())
        .cells.at(0)
        .train.loss_mode;
  };
  CHECK(loss_mode(R"({"recipe": "mad", "dtype": "fp32"})") == LossMode::kScored);
  CHECK(loss_mode(R"({"recipe": "mad", "loss_mode": "all_tokens"})") == LossMode::kAllTokens);
}

TEST_CASE(
    "suite: a weighted loss has options of its own, and needs answers that stand in the input") {
  const auto parse = [](const std::string& task, const std::string& train) {
    return ParseSuite(R"({"name": "test", "task": {"preset": ")" + task + R"("}, "model": {
        "d_model": 16, "sequence_mixer": {"name": "attention"}}, "train": )" +
                          train + "}",
                      {}, AllRegistries())
        .cells.at(0);
  };
  const Cell cell = parse("mqar/fig2-64x4", R"({"loss_mode": "weighted", "loss_fade_steps": 3})");
  CHECK(cell.train.loss_mode == LossMode::kWeighted);
  CHECK(cell.train.loss_fade_steps == 3);
  CHECK_THROWS_WITH(parse("mad/m/baseline", R"({"loss_mode": "weighted"})"),
                    Catch::Contains("/train/loss_mode") && Catch::Contains("stand nowhere in it"));
  CHECK_THROWS_WITH(parse("mqar/fig2-64x4", R"({"loss_distance_weight": 1})"),
                    Catch::Contains("/train/loss_distance_weight: is of loss_mode weighted"));
  // Options that joined later leave the identity of all other cells what it was.
  CHECK(TrainFields().Write(parse("mqar/fig2-64x4", "{}").train).Find("loss_fade_steps") ==
        nullptr);
}

TEST_CASE("suite: a preset and its options written out are the same cell") {
  const std::string written = R"({"name": "mad_memorization", "data_seed": 12345,
      "train": {"num_examples": 256}, "test": {"num_examples": 1280}})";
  CHECK(ParseWith("task", R"({"preset": "mad/m/baseline"})").cells.at(0).run_id ==
        ParseWith("task", written).cells.at(0).run_id);
  SuiteOverrides overrides;
  overrides.set = {{"task.preset", "mad/m/baseline,mad/m/vocab_size-512"}};
  const auto swept = ParseWith("task", R"({"preset": "mad/m/baseline"})", overrides).cells;
  REQUIRE(swept.size() == 2);
  CHECK(swept[1].task.vocab_size == 512);
}

TEST_CASE("suite: a preset that does not fit is named") {
  CHECK_THROWS_WITH(ParseWith("task", R"({"preset": "mad/m/baselin"})"),
                    Catch::Contains("/task/preset: unknown preset 'mad/m/baselin' (did you mean "
                                    "'mad/m/baseline'?)"));
  CHECK_THROWS_WITH(ParseWith("task", R"({"name": "mqar", "preset": "mad/m/baseline"})"),
                    Catch::StartsWith("/task/preset: 'mad/m/baseline' is a preset of "
                                      "'mad_memorization', not of 'mqar'; leave 'name' out ("));
  CHECK_THROWS_WITH(
      ParseWith("task", R"({"preset": "mqar/based", "test": {"input_seq_len": [64, 128]}})"),
      Catch::Contains("need equal lengths") &&
          Catch::Contains("what you leave out is the preset's"));
}

TEST_CASE("suite: num_examples beside the name holds for every split") {
  const Cell cell = ParseWith("task", R"({"name": "mqar", "vocab_size": 64, "input_seq_len": 16,
      "num_kv_pairs": 2, "num_examples": 30, "train": {"num_examples": 64}, "test": {}})")
                        .cells.at(0);
  CHECK(cell.task.train[0].num_examples == 64);
  CHECK(cell.task.validation[0].num_examples == 30);
  CHECK(cell.task.test[0].num_examples == 30);
}

TEST_CASE("suite: every built-in suite is valid") {
  SuiteOverrides overrides;
  overrides.device_type = "cuda";  // step-time measures tf32 too
  for (const std::string& name : BuiltInSuiteNames()) {
    INFO(name);
    const std::string text = ReadSuiteText(name);
    overrides.smoke = false;
    CHECK_FALSE(ParseSuite(text, overrides, AllRegistries()).cells.empty());
    overrides.smoke = io::ParseJson(text).Find("smoke") != nullptr;
    if (!overrides.smoke) continue;
    for (const Cell& cell : ParseSuite(text, overrides, AllRegistries()).cells) {
      CHECK(CountSteps(cell.task, cell.train).total <= 300);
    }
  }
  CHECK_THROWS_WITH(ReadSuiteText("quickstrat"), Catch::Contains("did you mean 'quickstart'"));
}

TEST_CASE("suite: fresh seeds are none of the sweep's") {
  const auto sweep = [](const std::string& reseed) {
    return R"({"grid": {"train.lr": [0.1, 0.2]},
               "select": {"over": ["train.lr"], "by": "validation.accuracy", "reseed": )" +
           reseed + "}}";
  };
  for (const Cell& cell : ParseWith("sweep", sweep(R"({"count": 3})")).cells) {
    CHECK(cell.phase == reports::CellPhase::kSelection);
  }
  CHECK(ParseWith("", "").cells[0].phase == reports::CellPhase::kNone);
  CHECK_THAT(Refusal("sweep", sweep(R"({"count": 3, "base": 0})")),
             Catch::Contains("/sweep/select/reseed/base") &&
                 Catch::Contains("seed 0 of the sweep would be a fresh one too: 0..2"));
  CHECK(Refusal("sweep", sweep(R"({"count": 1, "base": 4})"), {.seeds = {3, 4}}) != "accepted");
  CHECK(Refusal("sweep", sweep(R"({"count": 1, "base": 4})"), {.seeds = {3, 5}}) == "accepted");
  CHECK_THAT(Refusal("sweep", sweep(R"({"base": 9})")), Catch::Contains("/reseed/count"));
  for (const char* wrong : {"3", R"({"count": 0})", R"({"count": 1, "seeds": 1})",
                            R"({"count": 20000})", R"({"count": 1, "base": -1})"}) {
    CAPTURE(wrong);
    CHECK_THAT(Refusal("sweep", sweep(wrong)), Catch::Contains("/sweep/select/reseed"));
  }
}

// The pointers of all keys of a suite.
void CollectKeys(const Value& value, const std::vector<std::string>& above,
                 std::vector<std::vector<std::string>>& keys) {
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.as_object()) {
    std::vector<std::string> path = above;
    path.push_back(key);
    keys.push_back(path);
    CollectKeys(member, path, keys);
  }
}

// Whether an axis of the suite stands in the place of this member.
bool Sweeps(const Value& suite, const std::vector<std::string>& path) {
  std::string dotted;
  for (const std::string& key : path) dotted += (dotted.empty() ? "" : ".") + key;
  const Value* sweep = suite.Find("sweep");
  std::vector<const Value*> axes = {sweep ? sweep->Find("grid") : nullptr};
  const Value* zip = sweep ? sweep->Find("zip") : nullptr;
  if (zip && zip->is_array()) {
    for (const Value& part : zip->as_array()) axes.push_back(&part);
  } else {
    axes.push_back(zip);
  }
  return std::any_of(axes.begin(), axes.end(), [&](const Value* part) {
    return part && std::any_of(part->as_object().begin(), part->as_object().end(),
                               [&](const auto& axis) { return dotted.starts_with(axis.first); });
  });
}

TEST_CASE("suite: no key of a built-in suite can be misspelt, nor its value be of another type") {
  std::size_t num_cases = 0;
  for (const std::string& name : BuiltInSuiteNames()) {
    const Value document = io::ParseJson(ReadSuiteText(name));
    std::vector<std::vector<std::string>> keys;
    CollectKeys(document, {}, keys);
    for (const auto& path : keys) {
      if (Sweeps(document, path)) continue;  // replaced at every point
      for (const bool is_misspelt : {true, false}) {
        Value changed = document;
        Value* at = &changed;
        for (std::size_t i = 0; i + 1 < path.size(); ++i) at = &at->as_object().at(path[i]);
        Object& object = at->as_object();
        if (is_misspelt) {
          object[path.back() + "x"] = object.at(path.back());
          object.erase(path.back());
        } else {
          object[path.back()] = Object{{"no such option", true}};
        }
        INFO(name << " " << io::DumpJson(Array(path.begin(), path.end())) << " " << is_misspelt);
        ++num_cases;
        CHECK_THROWS_AS(ParseSuite(io::DumpJson(changed), {}, AllRegistries()), ConfigError);
      }
    }
  }
  CHECK(num_cases > 1000);
}

}  // namespace
}  // namespace mixerbench::harness
