// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "harness/cli/command.h"
#include "harness/cli/values.h"

namespace mixerbench::harness::cli {
namespace {

void AddList(const Parser& parser) {
  struct Values {
    std::string kind;
    bool json = false;
  };
  const auto values = std::make_shared<Values>();
  auto* command = parser.app.add_subcommand("list", "Names of tasks, presets, suites, mixers, ...");
  command->add_option("kind", values->kind, "what to list")
      ->required()
      ->check(CLI::IsMember({"tasks", "presets", "suites", "collections", "mixers", "cores",
                             "backbones", "metrics"}));
  command->add_flag("--json", values->json, "JSON on stdout");
  parser.WhenChosen(command, [values, &engine = parser.engine] {
    if (values->kind == "tasks") return ListTasks(values->json);
    if (values->kind == "presets") return ListPresets(values->json);
    if (values->kind == "suites") return ListSuites(values->json);
    if (values->kind == "metrics") return ListMetrics(values->json);
    if (values->kind == "collections") return ListCollections(values->json);
    return engine.list(values->kind, values->json);
  });
}

void AddDescribe(const Parser& parser) {
  struct Values {
    std::string kind, name;
    bool json = false;
  };
  const auto values = std::make_shared<Values>();
  auto* command = parser.app.add_subcommand("describe", "Parameters, defaults, chance, sources");
  command->add_option("kind", values->kind, "task, preset, collection, mixer, core or backbone")
      ->required()
      ->check(CLI::IsMember({"task", "preset", "collection", "mixer", "core", "backbone"}));
  command->add_option("name", values->name, "its name; of a collection also its file")->required();
  command->add_flag("--json", values->json, "JSON on stdout");
  parser.WhenChosen(command, [values, &engine = parser.engine] {
    if (values->kind == "task") return DescribeTask(values->name, values->json);
    if (values->kind == "preset") return DescribePreset(values->name, values->json);
    return engine.describe(values->kind, values->name, values->json);
  });
}

CLI::App* AddGroup(const Parser& parser, const char* kind, const char* help) {
  auto* group = parser.app.add_subcommand(kind, help);
  group->require_subcommand(1);
  return group;
}

// `run` of a group.
void AddUnitRun(const Parser& parser, CLI::App* group, const char* help,
                const std::function<ExitCode(const UnitRunOptions&)>& run) {
  struct Values {
    UnitRunOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  UnitRunOptions& options = values->options;
  auto* command = group->add_subcommand("run", help);
  command->add_option("name", options.name, "its name")->required();
  auto* describe =
      command->add_flag("--describe", options.describe, "list the tensors with their shapes");
  auto* in = command->add_option("--in", options.in, "safetensors with inputs and weights");
  auto* out = command->add_option("--out", options.out, "safetensors to write");
  in->excludes(describe);
  out->excludes(describe);
  AddSet(command, values->set, "option, such as num_heads=4 or d_model=64");
  command->add_option("--path", options.path, "fast or reference")
      ->check(CLI::IsMember({"fast", "reference"}));
  command->add_option("--dtype", options.dtype, "fp64, fp32, tf32 or bf16")
      ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16"}));
  command->add_option("--device", options.device, "cpu, cuda[:i] or auto");
  if (group->get_name() == "mixer") {
    command->add_option("--seed", options.seed, "draw weights that the file lacks from this seed")
        ->check(AtLeast(0));
  }
  command->add_flag("--gradients", options.gradients, "also gradients of everything, given grad.y");
  command->add_flag("--final-state", options.final_state, "also the final state");
  parser.WhenChosen(command, [values, &run] {
    UnitRunOptions& chosen = values->options;
    chosen.set = ParseSettings(values->set);
    if (!chosen.describe && (chosen.in.empty() || chosen.out.empty())) {
      throw ConfigError("--in, --out", "name the files to read and write, or ask with --describe");
    }
    return run(chosen);
  });
}

void AddMixerCheck(const Parser& parser, CLI::App* group) {
  struct Values {
    MixerCheckOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  MixerCheckOptions& options = values->options;
  auto* command = group->add_subcommand("check", "Does a mixer keep what mixers promise?");
  command->add_option("name", options.name, "its name, or FILE.py:Class")->required();
  AddSet(command, values->set, "option, such as num_heads=4 or d_model=64");
  command->add_option("--dtype", options.dtype, "fp64, or fp32 with wider tolerances")
      ->check(CLI::IsMember({"fp64", "fp32"}));
  command->add_option("--device", options.device, "cpu, cuda[:i] or auto");
  command->add_option("--skip", options.skip, "a check to leave out")->type_name("NAME");
  command->add_option("--check-timeout", options.check_timeout_s, "for one check, such as 10m")
      ->transform(AtLeastSeconds(1e-9))
      ->type_name("TIME")
      ->capture_default_str();
  command->add_flag("--json", options.json, "JSON on stdout");
  parser.WhenChosen(command, [values, &check = parser.engine.mixer_check] {
    values->options.set = ParseSettings(values->set);
    return check(values->options);
  });
}

void AddSchema(const Parser& parser) {
  const auto name = std::make_shared<std::string>();
  auto* command = parser.app.add_subcommand("schema", "Print a JSON Schema");
  command
      ->add_option(
          "name", *name,
          "config (suites), collection, report, cell, leaderboard, score, comparison or dataset")
      ->required()
      ->check(CLI::IsMember({"config", "collection", "report", "cell", "leaderboard", "score",
                             "comparison", "dataset"}));
  parser.WhenChosen(command, [name, &engine = parser.engine] {
    const bool is_read = *name == "config" || *name == "collection";  // by the engine
    return is_read ? engine.print_form_schema(*name) : PrintSchema(*name);
  });
}

}  // namespace

void AddUnitCommands(const Parser& parser) {
  AddList(parser);
  AddDescribe(parser);
  auto* mixer = AddGroup(parser, "mixer", "One mixer by itself");
  AddUnitRun(parser, mixer, "Run one mixer on given weights and inputs", parser.engine.mixer_run);
  AddMixerCheck(parser, mixer);
  auto* core = AddGroup(parser, "core", "One core (recurrence) by itself");
  AddUnitRun(parser, core, "Run one core (recurrence) on given tensors", parser.engine.core_run);
  AddSchema(parser);
}

}  // namespace mixerbench::harness::cli
