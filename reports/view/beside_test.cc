// SPDX-License-Identifier: Apache-2.0
#include "reports/view/beside.h"

#include <string>

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
        "n_layers 2, theirs 4");
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
        "one learning rate, theirs the best of several");
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
        "steps 400000, theirs 20000");
  PublishedResult whole = Mqar("S4", {});
  whole.metric = "whole-output accuracy";
  CHECK(Differences(whole, config, {}, true) == "accuracy of tokens, theirs of whole outputs");
}

}  // namespace mixerbench::reports
