// SPDX-License-Identifier: Apache-2.0
#include "reports/view/beside.h"

#include <string>

#include "reports/view/correspondence.h"

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
  CHECK(Differences(Mqar("BaseConv", setting), Config("base_conv", 64), axes, true) ==
        "Ours has 2 layers, the paper 4 layers.");
  CHECK(Differences(Mqar("BaseConv", {{"seq_len", 64}}), Config("base_conv", 64), axes, false)
            .empty());
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
  CHECK(Differences(best, Config("base_conv", 64), {}, true).empty());
  CHECK(Differences(best, Config("base_conv", 64), {}, false) ==
        "Ours is of one learning rate, the paper's the best of several.");
}

TEST_CASE("Steps and lengths are compared in the paper's units", "[reports][published]") {
  const Value config = Object{
      {"task", Object{{"name", "selective_copying"},
                      {"test", Array{Object{{"prefix_len", 4112}, {"num_tokens_to_copy", 16}}}}}},
      {"train", Object{{"steps_per_epoch", 4000}, {"num_epochs", 100}, {"max_steps", 0}}}};
  CHECK(Differences(Mqar("S4", {{"length", 4128}, {"steps", 400000}, {"architecture", "no gate"}}),
                    config, {}, true)
            .empty());
  CHECK(Differences(Mqar("S4", {{"steps", 20000}}), config, {}, true) ==
        "Ours has 400,000 steps, the paper 20,000 steps.");
  PublishedResult whole = Mqar("S4", {});
  whole.metric = "whole-output accuracy";
  CHECK(Differences(whole, config, {}, true) == "Ours counts tokens, the paper whole outputs.");
}

TEST_CASE("All settings that differ make one sentence", "[reports][published]") {
  const Value config = Object{{"model", Object{{"n_layers", 1}}},
                              {"train", Object{{"lr", 0.001}, {"batch_size", 256}}}};
  const PublishedResult result = Mqar("BaseConv", {{"layers", 4},
                                                   {"lr", 0.01},
                                                   {"batch", 256},
                                                   {"tokens_to_copy", 16},
                                                   {"gumbel_noise", false},
                                                   {"model_size", "1.3B"}});
  CHECK(Differences(result, config, {}, true) ==
        "Ours has 1 layer and lr 1e-3, the paper 4 layers and lr 1e-2; the paper also states no "
        "gumbel_noise, 1.3B parameters and 16 tokens to copy.");
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

}  // namespace mixerbench::reports
