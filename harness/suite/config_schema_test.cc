// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/config_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "harness/suite/collection.h"
#include "harness/suite/section_forms.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/result/schema.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const std::string& SchemaText() {
  static const std::string text = io::DumpJson(ConfigSchema(Registries()));
  return text;
}

bool IsValid(const Value& suite) { return reports::ValidateAgainst(SchemaText(), suite).empty(); }

Value Good() {
  return io::ParseJson(R"({
    "$schema": "https://example.org/config.json", "name": "good",
    "task": {"name": "mqar", "vocab_size": 64, "num_kv_pairs": 2,
             "train": {"input_seq_len": [16, 32], "num_examples": 16},
             "test": {"num_examples": 8}},
    "model": {"backbone": "zoology", "d_model": 16,
              "sequence_mixer": {"name": "gla", "num_heads": 2, "label": "mine"}},
    "train": {"lr": 0.1, "dtype": "bf16", "batch_size": 8}, "seeds": {"base": 3, "count": 2},
    "sweep": {"grid": {"train.eps": [0.1, 0.2]}, "zip": {"train.beta1": [0.8, 0.9]},
              "exclude": [{"train.eps": 0.1, "train.beta1": 0.8}],
              "select": {"by": "validation.accuracy", "over": ["train.eps"],
                         "reseed": {"base": 9, "count": 1}}},
    "throughput": {"seq_len": [8], "phases": ["decode"], "num_samples": 3},
    "evaluate": [{"input_seq_len": 32, "reset_write_gate": {"share": 0.5}}],
    "analyse": [{"taps": ["write_gate"]}], "smoke": {"train.num_epochs": 1}})");
}

Value Held(const char* mixer, const char* option, Value held) {
  return Object{{"name", mixer}, {option, std::move(held)}};
}

}  // namespace

TEST_CASE("config schema: collections are valid as far as they are read") {
  const std::string schema = io::DumpJson(CollectionSchema());
  for (const std::string& name : BuiltInCollectionNames()) {
    CAPTURE(name);
    CHECK(reports::ValidateAgainst(schema, ReadCollection(name).config).empty());
  }
  const std::vector<std::pair<const char*, Value>> changes = {
      {"suits", Array{}},
      {"name", 3},
      {"suites", Array{}},
      {"suites", Array{Object{{"name", "x"}}}},
      {"suites", Array{Object{{"suite", "quickstart"}, {"sets", Object{}}}}},
      {"suites", Array{Object{{"suite", "quickstart"}, {"set", 3}}}},
  };
  for (const auto& [path, value] : changes) {
    CAPTURE(path, io::DumpJson(value));
    Value bad = ReadCollection("smoke").config;
    io::SetPath(bad.as_object(), path, value, "");
    CHECK_FALSE(reports::ValidateAgainst(schema, bad).empty());
    CHECK_THROWS_AS(CollectionForm().check(bad, ""), ConfigError);
  }
}

TEST_CASE("config schema: every built-in suite is valid") {
  for (const std::string& name : BuiltInSuiteNames()) {
    CAPTURE(name);
    CHECK(reports::ValidateAgainst(SchemaText(), io::ParseJson(ReadSuiteText(name))) ==
          std::vector<std::string>());
  }
}

TEST_CASE("config schema: what the program refuses by itself is not valid") {
  REQUIRE(IsValid(Good()));
  REQUIRE_NOTHROW(ParseSuite(io::DumpJson(Good()), {}, Registries()));
  const std::vector<std::pair<const char*, Value>> changes = {
      {"trian", Object{}},
      {"name", 3},
      {"task.name", "mqra"},
      {"task.vocab_sise", 64},
      {"task.vocab_size", "big"},
      {"task.noise", "zeros"},
      {"task.train.input_seq_length", 16},
      {"task.train.input_seq_len", Array{16, "long"}},
      {"model.backbone", "zoo"},
      {"model.d_modle", 16},
      {"model.d_model", 16.5},
      {"model.sequence_mixer.name", "glaa"},
      {"model.sequence_mixer.heads", 2},
      {"model.sequence_mixer.num_heads", true},
      {"train.learning_rate", 0.1},
      {"train.lr", "0.1"},
      {"train.dtype", "fp8"},
      {"seeds", 5},
      {"seeds.first", 5},
      {"seeds.count", 0},
      {"seeds.count", 10'001},
      {"seeds.base", -1},
      {"sweep.product", Object{}},
      {"sweep.grid", Array{}},
      {"sweep.grid", Object{{"seeds.base", Array{1, 2}}}},
      {"sweep.grid", Object{{"train.lr", Array{}}}},
      {"sweep.grid", Object{{"train.lr", Array{"0.1"}}}},
      {"sweep.grid", Object{{"task.num_kv_pairs", Array{"many"}}}},
      {"sweep.grid", Object{{"model.sequence_mixer", Array{Object{{"name", "glaa"}}}}}},
      {"sweep.grid", Object{{"model.sequence_mixer", Array{Held("gla", "heads", 2)}}}},
      {"sweep.grid", Object{{"model.sequence_mixer", "some"}}},
      {"sweep.zip", Object{{"train.dtype", Array{"fp32", "fp8"}}}},
      {"sweep.zip", Array{Object{{"task.num_kv_pairs", Array{1.5}}}}},
      {"sweep.zip", Object{}},
      {"sweep.zip", Array{Object{}}},
      {"sweep.exclude", Array{Object{}}},
      {"sweep.select.from", "x"},
      {"sweep.select.over", Array{}},
      {"sweep.select.reseed.count", 0},
      {"sweep.select.reseed.seeds", 1},
      {"throughput.length", 1},
      {"throughput.seq_len", Array{}},
      {"throughput.seq_len", Array{0}},
      {"throughput.phases", Array{"encode"}},
      {"throughput.num_samples", 2},
      {"throughput.batch_size", 0},
      {"evaluate", Object{}},
      {"evaluate", Array{}},
      {"evaluate", Array{Object{{"input_seq_length", 32}}}},
      {"evaluate", Array{Object{{"taps", "all"}}}},
      {"evaluate", Array{Object{{"reset_write_gate", Object{{"token", 1}}}}}},
      {"analyse", Array{Object{}}},
      {"analyse", Array{Object{{"taps", "some"}}}},
      {"analyse", Array{Object{{"taps", Array{"layers.0"}}}}},
      {"analyse", Array{Object{{"taps", Array{"router", "router"}}}}},
      {"model.sequence_mixer", Held("resona", "inner", Object{{"name", "glaa"}})},
      {"model.sequence_mixer", Held("resona", "inner", Object{{"name", "gla"}, {"heads", 2}})},
      {"model.sequence_mixer", Held("resona", "inner", Object{{"name", "gla"}, {"label", "x"}})},
      {"model.sequence_mixer", Held("selectlti", "core", Object{{"name", "s5"}, {"d_stat", 2}})},
      {"model.sequence_mixer", Held("hybrid", "pattern", Array{Object{{"name", "glaa"}}})},
      {"model.sequence_mixer", Held("parallel", "branches", Array{Object{{"heads", 2}}})},
  };
  for (const auto& [path, value] : changes) {
    CAPTURE(path, io::DumpJson(value));
    Value bad = Good();
    io::SetPath(bad.as_object(), path, value, "");
    CHECK_FALSE(IsValid(bad));
    CHECK_THROWS_AS(ParseSuite(io::DumpJson(bad), {}, Registries()), ConfigError);
  }
  for (const char* key : {"name", "task", "model"}) {
    Value bad = Good();
    bad.as_object().erase(key);
    CHECK_FALSE(IsValid(bad));
  }
}

TEST_CASE("config schema: it has every option of every mixer, task and backbone") {
  const Registries registries;
  const auto has = [](const std::string& name) {
    return SchemaText().find("\"" + name + "\":{") != std::string::npos;
  };
  const auto check = [&](const auto& registry) {
    for (const auto& [name, entry] : registry.entries()) {
      for (const FieldInfo& field : entry.params) {
        CAPTURE(name, field.name);
        CHECK(has(field.name));
      }
    }
  };
  check(registries.mixers);
  check(registries.tasks);
  check(registries.backbones);
}

}  // namespace mixerbench::harness
