// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/config_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "harness/suite/suite.h"
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
    "task": {"name": "mqar", "vocab_size": 64, "train": {"input_seq_len": [16, 32]},
             "test": {"num_examples": 8}},
    "model": {"backbone": "zoology", "d_model": 16,
              "sequence_mixer": {"name": "gla", "num_heads": 2, "label": "mine"}},
    "train": {"lr": 0.1, "dtype": "bf16"}, "smoke": {"train.num_epochs": 1}})");
}

}  // namespace

TEST_CASE("config schema: every built-in suite is valid") {
  for (const std::string& name : BuiltInSuiteNames()) {
    CAPTURE(name);
    CHECK(reports::ValidateAgainst(SchemaText(), io::ParseJson(ReadSuiteText(name))) ==
          std::vector<std::string>());
  }
}

TEST_CASE("config schema: what the program refuses by itself is not valid") {
  REQUIRE(IsValid(Good()));
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
      {"evaluate", Object{}},
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
