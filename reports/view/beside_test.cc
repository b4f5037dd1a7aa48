// SPDX-License-Identifier: Apache-2.0
#include "reports/view/beside.h"

#include <set>
#include <string>
#include <vector>

#include "io/json.h"
#include "reports/view/correspondence.h"
#include "reports/view/counted.h"
#include "reports/view/datums.h"
#include "reports/view/mixer_list.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

PublishedResult Mqar(const std::string& mixer, Object params) {
  return {.source = "paper",
          .table = "Table 1",
          .task = "MQAR",
          .mixer = mixer,
          .metric = "accuracy",
          .unit = "fraction",
          .value = 0.5,
          .params = std::move(params),
          .note = ""};
}

Value Config(const std::string& mixer, int d_model) {
  return Object{
      {"task",
       Object{{"name", "mqar"},
              {"test",
               Array{Object{{"input_seq_len", 64}, {"num_kv_pairs", 4}, {"vocab_size", 8192}}}}}},
      {"model",
       Object{{"d_model", d_model}, {"n_layers", 2}, {"sequence_mixer", Object{{"name", mixer}}}}}};
}

}  // namespace

TEST_CASE("A result corresponds when task, mixer and the sizes that name it agree",
          "[reports][published]") {
  const Object setting = {{"seq_len", 64}, {"kv_pairs", 4}, {"d_model", 64}, {"layers", 4}};
  const Object axes = {{"input_seq_len", 64}};
  CHECK(Corresponds(Mqar("BaseConv", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(Corresponds(Mqar("BaseConv", setting), Config("base_conv", 128), axes));
  CHECK_FALSE(Corresponds(Mqar("Hyena", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(
      Corresponds(Mqar("BaseConv + RESONA layer 0", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(
      Corresponds(Mqar("BaseConv", setting), Config("base_conv", 64), {{"input_seq_len", 128}}));
  CHECK(Differences(Mqar("BaseConv", setting), Config("base_conv", 64), axes, 0, 2) ==
        "Ours has 2 layers, the paper 4 layers.");
  CHECK(Differences(Mqar("BaseConv", {{"seq_len", 64}}), Config("base_conv", 64), axes, 0, 1)
            .empty());
}

TEST_CASE("Sizes of published results are numbers as ours are", "[reports][published]") {
  const std::set<std::string> sizes = {
      "batch",        "channels",       "context",       "d_model",     "dim",
      "epochs",       "kv_pairs",       "layers",        "length",      "lr",
      "num_rates",    "seq_len",        "steps",         "test_length", "vocab",
      "train_length", "tokens_to_copy", "train_examples"};
  std::set<std::string> found;
  for (const PublishedResult& result : PublishedResults()) {
    for (const auto& [key, value] : result.params) {
      if (!sizes.contains(key)) continue;
      found.insert(key);
      CAPTURE(result.source, result.table, key, io::ValueText(value));
      CHECK(PublishedNumber(io::ValueText(value)).value_or(0) > 0);
    }
  }
  CHECK(found == sizes);
}

TEST_CASE("Mixers in wrappers correspond by what they hold and where", "[reports][published]") {
  const Object setting = {{"seq_len", 64}, {"kv_pairs", 4}, {"d_model", 64}};
  const Object axes = {{"input_seq_len", 64}};
  const Object plain = {{"name", "h3"}};
  const Object wrapped = {{"name", "resona"}, {"inner", plain}};
  const auto config = [](Object mixer) {
    Object all = Config("", 64).as_object();
    all["model"] = Object{{"d_model", 64}, {"sequence_mixer", std::move(mixer)}};
    return Value(all);
  };
  const Value third =
      config({{"name", "hybrid"}, {"pattern", Array{plain, plain, wrapped, plain}}});
  CHECK(Corresponds(Mqar("H3 + RESONA layer 2", setting), third, axes));
  CHECK(Corresponds(Mqar("H3 + RESONA", setting), third, axes));
  CHECK_FALSE(Corresponds(Mqar("H3 + RESONA layer 0", setting), third, axes));
  CHECK_FALSE(Corresponds(Mqar("H3", setting), third, axes));
  const Value mixed =
      config({{"name", "hybrid"}, {"pattern", Array{wrapped, Object{{"name", "hyena"}}}}});
  CHECK_FALSE(Corresponds(Mqar("H3 + RESONA", setting), mixed, axes));

  const Value gains = config({{"name", "selectlti"}, {"core", Object{{"name", "s4"}}}});
  CHECK(Corresponds(Mqar("S4 + SelectLTI", setting), gains, axes));
  CHECK_FALSE(Corresponds(Mqar("S4", setting), gains, axes));

  Object with_kernel = setting;
  with_kernel["custom_kernel"] = true;
  CHECK(Corresponds(Mqar("S6", with_kernel), config({{"name", "s6"}, {"fused", true}}), axes));
  CHECK_FALSE(
      Corresponds(Mqar("S6", with_kernel), config({{"name", "s6"}, {"fused", false}}), axes));
}

TEST_CASE("Attention corresponds by its positions", "[reports][published]") {
  const Object setting = {{"seq_len", 64}};
  const Object axes = {{"input_seq_len", 64}};
  const auto config = [](const std::string& learned, const std::string& position) {
    Object all = Config("attention", 64).as_object();
    all["model"] =
        Object{{"positions", learned},
               {"sequence_mixer", Object{{"name", "attention"}, {"position", position}}}};
    return Value(all);
  };
  const Value rope = config("none", "rope"), learned = config("learned", "none");
  CHECK(Corresponds(Mqar("attention, RoPE", setting), rope, axes));
  CHECK_FALSE(Corresponds(Mqar("attention, RoPE", setting), learned, axes));
  CHECK(Corresponds(Mqar("attention, absolute positions", setting), learned, axes));
  CHECK_FALSE(Corresponds(Mqar("attention, absolute positions", setting), rope, axes));
  CHECK_FALSE(
      Corresponds(Mqar("attention, absolute positions", setting), config("none", "none"), axes));
  CHECK(Corresponds(Mqar("Transformer", setting), rope, axes));
  CHECK(Corresponds(Mqar("Transformer", setting), learned, axes));
}

TEST_CASE("The best of several rates is not the setting of one rate", "[reports][published]") {
  PublishedResult best = Mqar("BaseConv", {});
  best.metric = "best accuracy over lr";
  CHECK(Differences(best, Config("base_conv", 64), {}, 0, 2).empty());
  CHECK(Differences(best, Config("base_conv", 64), {}, 0, 1) ==
        "Ours is of one learning rate, the paper's the best of several.");
  best.params = {{"num_rates", 4}};
  CHECK(Differences(best, Config("base_conv", 64), {}, 0, 4).empty());
  CHECK(Differences(best, Config("base_conv", 64), {}, 0, 2) ==
        "Ours is the best of 2 learning rates, the paper's of 4.");
}

TEST_CASE("A validation accuracy of a paper stands beside ours of the test set, which is said",
          "[reports][published]") {
  PublishedResult result = Mqar("BaseConv", {});
  result.metric = "validation accuracy";
  CHECK(Differences(result, Config("base_conv", 64), {}, 0, 2) ==
        "The paper's is of its validation set, ours of the test set.");
}

TEST_CASE("What a paper leaves open, and where ours stops before it, is said",
          "[reports][published]") {
  PublishedResult whole = Mqar("RWKV", {});
  whole.metric = "whole-output accuracy";
  const auto config = [](double stop) {
    return Value(Object{{"train", Object{{"early_stop_accuracy", stop}}}});
  };
  CHECK(Differences(whole, config(0.99), {}, 0, 1) ==
        "Ours stops training at 99 % of single tokens; ours is RWKV-5, the paper does not say "
        "which RWKV.");
  whole.mixer = "RWKV5";
  CHECK(Differences(whole, config(0), {}, 0, 1).empty());
  whole.metric = "accuracy";
  CHECK(Differences(whole, config(0.99), {}, 0, 1).empty());
}

TEST_CASE("Steps and lengths are compared in the paper's units", "[reports][published]") {
  const Value config = Object{
      {"task", Object{{"name", "selective_copying"},
                      {"test", Array{Object{{"prefix_len", 4112}, {"num_tokens_to_copy", 16}}}}}},
      {"train", Object{{"steps_per_epoch", 4000}, {"num_epochs", 100}, {"max_steps", 0}}}};
  CHECK(Differences(Mqar("S4", {{"length", 4128}, {"steps", 400000}, {"architecture", "no gate"}}),
                    config, {}, 0, 2)
            .empty());
  CHECK(Differences(Mqar("S4", {{"steps", 20000}}), config, {}, 0, 2) ==
        "Ours has 400,000 steps, the paper 20,000 steps.");
}

TEST_CASE("A k of tokens is 1024, a K of parameters 1000", "[reports][published]") {
  CHECK(PublishedNumber("8k") == 8192);
  CHECK(PublishedNumber("0.5K") == 512);
  CHECK(PublishedNumber("4128") == 4128);
  CHECK(NumParameters("21K") == 21e3);
  CHECK(NumParameters("370M") == 370e6);
  CHECK(NumParameters("1.5B") == 1.5e9);
  CHECK(NumParameters("9000") == 9000);
  for (const char* text : {"", "k", "no", "8 k", "1.3B2"}) {
    CAPTURE(text);
    CHECK_FALSE(PublishedNumber(text));
    CHECK_FALSE(NumParameters(text));
  }
  CHECK_FALSE(PublishedNumber("1.5B"));
  CHECK_FALSE(NumParameters("8k"));
}

TEST_CASE("The size of a model differs from a tenth on", "[reports][published]") {
  const Value config = Config("s4", 64);
  const auto differences = [&](const char* theirs, std::int64_t ours) {
    return Differences(Mqar("S4", {{"params", theirs}}), config, {}, ours, 2);
  };
  CHECK(differences("21K", 21'500).empty());
  CHECK(differences("21K", 50'880) == "Ours has 50.9 k parameters, the paper 21K parameters.");
  CHECK(differences("69M (as printed)", 6'460'000) ==
        "Ours has 6.46 M parameters, the paper 69M (as printed) parameters.");
  CHECK(differences("1.3B", 1'300'000'000).empty());
}

TEST_CASE("What MAD's tables are of is said", "[reports][published]") {
  PublishedResult mad = Mqar("GLA", {{"layers", 2}, {"epochs", 200}, {"train_examples", 20000}});
  mad.task = "MAD compression";
  PublishedResult whole = mad;
  whole.params = {};
  whole.metric = "whole-output accuracy";
  CHECK(Differences(whole, Object{}, {}, 0, 2) ==
        "The paper says that it counts whole outputs, MAD's code means over classes; the paper's "
        "is a mean over the settings of the benchmark.");
  const Value config = Object{{"task", Object{{"name", "mad_compression"},
                                              {"train", Array{Object{{"num_examples", 12800}}}}}},
                              {"model", Object{{"n_layers", 2}}},
                              {"train", Object{{"num_epochs", 50}}}};
  CHECK(Differences(mad, config, {}, 0, 1) ==
        "Ours has 50 epochs and 12,800 training sequences, the paper 200 epochs and 20,000 "
        "training sequences; the paper's is a mean over the settings of the benchmark, each the "
        "best of six rates and decays.");
}

TEST_CASE("Needle tasks of papers are ours by haystack, needle and instruction",
          "[reports][published]") {
  const auto config = [](const char* haystack, const char* needle, const char* inst) {
    Object all = Config("gla", 64).as_object();
    all["task"] = Object{{"name", "niah"},
                         {"test", Array{Object{{"type_haystack", haystack},
                                               {"type_needle_v", needle},
                                               {"inst", inst},
                                               {"input_seq_len", 1024}}}}};
    return Value(all);
  };
  PublishedResult needle = Mqar("GLA", {{"instruction", "no inst"}, {"context", "1k"}});
  const auto corresponds = [&](const char* task, const Value& value) {
    needle.task = task;
    return Corresponds(needle, value, {});
  };
  CHECK(corresponds("NIAH-1", config("noise", "numbers", "none")));
  CHECK_FALSE(corresponds("NIAH-1", config("kjv", "numbers", "none")));
  CHECK(corresponds("NIAH-2", config("kjv", "numbers", "none")));
  CHECK(corresponds("NIAH-2", config("kjv_test", "numbers", "none")));
  CHECK_FALSE(corresponds("NIAH-2", config("noise", "numbers", "none")));
  CHECK(corresponds("NIAH-3", config("kjv", "uuids", "none")));
  CHECK_FALSE(corresponds("NIAH-3", config("kjv", "numbers", "none")));
  needle.task = "NIAH-2";
  CHECK(Differences(needle, config("kjv", "numbers", "none"), {}, 0, 2) ==
        "The paper's haystack is of essays.");
  CHECK(Differences(needle, config("kjv", "numbers", "strong"), {}, 0, 2) ==
        "Ours has instruction strong, the paper instruction none; the paper's haystack is of "
        "essays.");
}

TEST_CASE("Ours is counted as the paper counts", "[reports][published]") {
  const auto report = [](std::vector<std::optional<double>> whole) {
    std::vector<CellResult> cells;
    for (std::size_t seed = 0; seed < whole.size(); ++seed) {
      CellResult cell;
      cell.name = "mqar/base_conv/d_model=64";
      cell.kind = "train";
      cell.seed = seed;
      cell.state = CellState::kCompleted;
      cell.config = Config("base_conv", 64);
      cell.accuracy.resize(1);
      cell.accuracy[0].axes = {{"input_seq_len", 64}};
      cell.accuracy[0].num_scored = 4000;
      cell.accuracy[0].num_sequences = 1000;
      cell.accuracy[0].accuracy = 0.9;
      cell.accuracy[0].accuracy_macro_batched = 0.8;
      cell.accuracy[0].sequence_accuracy = whole[seed];
      cell.accuracy[0].ci_sequences = Interval{"wilson", 0.95, 0.45, 0.55};
      cells.push_back(std::move(cell));
    }
    return MakeSweepReport("counted", {}, std::move(cells));
  };
  const auto datum = [](const SweepReport& sweep, CountedAs counted) {
    const std::vector<Study> studies = StudiesOf(sweep, MixerList({&sweep}));
    return CountedDatum(studies.front(), sweep.groups.front(), 0, counted);
  };
  const SweepReport one = report({0.5}), two = report({0.5, 0.75}), part = report({0.5, {}});
  CHECK(datum(one, CountedAs::kTokens).value == 0.9);
  CHECK(datum(one, CountedAs::kMacro).value == 0.8);
  CHECK(datum(one, CountedAs::kWholeOutputs).value == 0.5);
  CHECK(datum(one, CountedAs::kWholeOutputs).sub == "45.00–55.00");
  CHECK(datum(two, CountedAs::kWholeOutputs).value == 0.625);
  CHECK(datum(two, CountedAs::kWholeOutputs).sub == "50.00 · 75.00");
  CHECK_FALSE(datum(part, CountedAs::kWholeOutputs).value);
  PublishedResult result = Mqar("BaseConv", {});
  CHECK(HowCounted(result) == CountedAs::kTokens);
  result.metric = "whole-output accuracy, best over lr";
  CHECK(HowCounted(result) == CountedAs::kWholeOutputs);
  result.metric = "macro accuracy";
  CHECK(HowCounted(result) == CountedAs::kMacro);
}

TEST_CASE("Ours counts a seed that failed as chance, however the paper counts",
          "[reports][published]") {
  // By seed: scored, without the segment, diverged with the scores that it had before.
  std::vector<CellResult> cells;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CellResult cell;
    cell.name = "mqar/base_conv/d_model=64";
    cell.kind = "train";
    cell.seed = seed;
    cell.state = seed == 2 ? CellState::kDiverged : CellState::kCompleted;
    cell.config = Config("base_conv", 64);
    AccuracyRow& row = cell.accuracy.emplace_back();
    row.axes = {{"input_seq_len", 64}};
    row.chance = 0.1;
    row.state = seed == 1 ? CellState::kDiverged : CellState::kCompleted;
    row.num_scored = row.num_sequences = 4000;
    row.accuracy = row.accuracy_macro_batched = row.sequence_accuracy = 0.7;
    cells.push_back(std::move(cell));
  }
  const SweepReport report = MakeSweepReport("counted", {}, std::move(cells));
  const std::vector<Study> studies = StudiesOf(report, MixerList({&report}));
  for (const auto counted : {CountedAs::kTokens, CountedAs::kWholeOutputs, CountedAs::kMacro}) {
    const Datum datum = CountedDatum(studies.front(), report.groups.front(), 0, counted);
    CHECK(datum.value.value() == Approx((0.7 + 0.1 + 0.1) / 3));
    CHECK(datum.text == "30.00 †");
    CHECK(datum.is_imputed);
    CHECK(datum.sub == "70.00 · 10.00 · 10.00");
  }
}

TEST_CASE("All settings that differ make one sentence", "[reports][published]") {
  const Value config = Object{{"model", Object{{"n_layers", 1}}},
                              {"train", Object{{"lr", 0.001}, {"batch_size", 256}}}};
  const PublishedResult result = Mqar("BaseConv", {{"layers", 4},
                                                   {"lr", 0.01},
                                                   {"batch", 256},
                                                   {"tokens_to_copy", 16},
                                                   {"gumbel_noise", false}});
  CHECK(Differences(result, config, {}, 0, 2) ==
        "Ours has 1 layer and lr 1e-3, the paper 4 layers and lr 1e-2; the paper also states no "
        "gumbel_noise and 16 tokens to copy.");
}

namespace {

SweepReport TimedReport(const std::string& mixer, const char* phase, std::int64_t length) {
  CellResult cell;
  cell.name = "throughput/" + mixer + "/d_model=64";
  cell.kind = "throughput";
  cell.state = CellState::kCompleted;
  cell.config = Config(mixer, 64);
  cell.environment = Object{{"device", "cuda"}, {"gpu", Object{{"name", "A GPU"}}}};
  cell.model.num_parameters = 500'000;
  cell.throughput.resize(1);
  ThroughputRow& row = cell.throughput.front();
  row.phase = phase;
  row.seq_len = length;
  row.batch_size = 32;
  row.median_ms = 12;
  row.tokens_per_second = 48'480;
  return MakeSweepReport("timings", {}, {cell});
}

}  // namespace

TEST_CASE("Published rates stand beside ours of the same mixer, phase and length",
          "[reports][published]") {
  const SweepReport report = TimedReport("attention", "train_step", 2048);
  const auto table = PublishedCostTable(report, MixerList({&report}));
  REQUIRE(table);
  REQUIRE(table->rows.size() == 1);
  const std::vector<Datum>& cells = table->rows.front().cells;
  CHECK(cells[2].text == "48.5 k tokens/s");
  CHECK(cells[3].text == "24.2 k tokens/s");
  CHECK(cells[4].text == "×2.00");
  CHECK(cells[5].text ==
        "Ours has batch 32, A GPU and 500 k parameters, the paper batch 8, 1x A100 and "
        "1.3B parameters.");
  CHECK(cells[6].text == "SSE: sparse state expansion, Table 17");
  for (const auto& other :
       {TimedReport("attention", "train_step", 2000), TimedReport("attention", "fwd_bwd", 2048),
        TimedReport("gla", "train_step", 2049)}) {
    CHECK_FALSE(PublishedCostTable(other, MixerList({&other})));
  }
}

TEST_CASE("A published state is of a model of its size", "[reports][published]") {
  SweepReport report = TimedReport("mamba2", "fwd", 64);
  ModelFacts& model = report.cells.front().model;
  model.state_at_num_tokens = 1;
  model.state_bytes_measured = 1024;
  CHECK_FALSE(PublishedCostTable(report, MixerList({&report})));
  model.num_parameters = 368'000'000;
  const auto table = PublishedCostTable(report, MixerList({&report}));
  REQUIRE(table);
  CHECK(table->rows.front().cells[3].text == "13,025,280 elements");
  CHECK_FALSE(table->rows.front().cells[4].value);
}

TEST_CASE("Notes of sources are remarks, each once", "[reports][published]") {
  const auto source = [](const std::string& text, const std::string& note) {
    Datum datum = TextDatum(text);
    datum.note = note;
    return datum;
  };
  Table table;
  table.Add({.cells = {TextDatum("GLA"), source("paper, Table 1", "secondary: read in notes")}});
  table.Add({.cells = {TextDatum("H3"), source("paper, Table 1", "secondary: read in notes")}});
  table.Add({.cells = {TextDatum("H3"), source("paper, Table 2", "")}});
  table.Add({.cells = {TextDatum("S4"), source("other, Table 2", "columns inferred")}});
  RemarkOnSources(table);
  CHECK(table.remarks == std::vector<std::string>{"paper, Table 1: secondary: read in notes",
                                                  "other, Table 2: columns inferred"});
}

}  // namespace mixerbench::reports
