// SPDX-License-Identifier: Apache-2.0
#include "harness/engine.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <span>

#include <c10/util/Logging.h>

#include "harness/cli/command_line.h"
#include "harness/cli/commands.h"
#include "harness/cli/describe_fields.h"
#include "harness/describe_collection.h"
#include "harness/device/device.h"
#include "harness/device/device_plans.h"
#include "harness/device/engine_check.h"
#include "harness/device/graph.h"
#include "harness/interop/mixer_facts.h"
#include "harness/interop/unit_run.h"
#include "harness/python/draws.h"
#include "harness/python/host.h"
#include "harness/python/python_mixer.h"
#include "harness/run/repro.h"
#include "harness/run/run.h"
#include "harness/run/run_collection.h"
#include "harness/suite/collection.h"
#include "harness/suite/config_schema.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "harness/training/batch.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

struct Summary {
  std::string summary;
  std::string source;
  std::vector<FieldInfo> params;
  std::vector<kernels::DevicePlan> device_plans;  // of cores
};

// The entries of one kind by name.
std::map<std::string, Summary> Summaries(const std::string& kind, const Registries& registries) {
  std::map<std::string, Summary> all;
  if (kind.starts_with("mixer")) {
    for (const auto& [name, e] : registries.mixers.entries())
      all[name] = {e.summary, e.source, e.params, {}};
  } else if (kind.starts_with("backbone")) {
    for (const auto& [name, e] : registries.backbones.entries())
      all[name] = {e.summary, e.source, e.params, {}};
  } else {
    for (const auto& [name, e] : registries.cores.entries())
      all[name] = {e.summary, e.source, {}, e.device_plans};
  }
  return all;
}

ExitCode List(const std::string& kind, bool json, const Registries& registries) {
  Array array;
  for (const auto& [name, entry] : Summaries(kind, registries)) {
    if (json) {
      Object object{{"name", name}, {"summary", entry.summary}};
      if (!entry.device_plans.empty()) {
        object["device_plans"] = DevicePlansToValue(entry.device_plans);
      }
      if (kind == "mixers") {
        object["source"] = entry.source;
        object["params"] = FieldsToValue(entry.params);
        if (const auto facts = MeasureMixer(name, registries)) {
          object.merge(FactsToValue(*facts, registries));
        }
      }
      array.emplace_back(std::move(object));
    } else {
      std::cout << NameAndText(name, entry.summary);
    }
  }
  if (json) std::cout << io::DumpJson(array, 2);
  return ExitCode::kOk;
}

ExitCode Describe(const std::string& kind, const std::string& name, bool json,
                  const Registries& registries) {
  if (kind == "collection") return DescribeCollection(name, json, registries);
  const auto all = Summaries(kind, registries);
  const auto found = all.find(name);
  if (found == all.end()) {
    std::vector<std::string> known;
    for (const auto& [known_name, entry] : all) known.push_back(known_name);
    throw ConfigError("describe " + kind, UnknownName(kind, name, known));
  }
  const Summary& entry = found->second;
  const auto facts = kind == "mixer" ? MeasureMixer(name, registries) : std::nullopt;
  if (json) {
    Object object{{"name", name},
                  {"summary", entry.summary},
                  {"source", entry.source},
                  {"params", FieldsToValue(entry.params)}};
    if (!entry.device_plans.empty()) {
      object["device_plans"] = DevicePlansToValue(entry.device_plans);
    }
    if (facts) object.merge(FactsToValue(*facts, registries));
    std::cout << io::DumpJson(std::move(object), 2);
  } else {
    std::cout << name << ": " << entry.summary << "\nsource: " << entry.source << "\n";
    if (!entry.params.empty()) std::cout << "\nparameters\n" << FieldsToText(entry.params);
    if (facts) std::cout << "\n" << FactsToText(*facts);
    if (!entry.device_plans.empty()) {
      std::cout << "\ndevice code\n" << DevicePlansToText(entry.device_plans);
    }
  }
  return ExitCode::kOk;
}

ExitCode GenerateOnDevice(const GenerateOptions& options, const Registries& registries) {
  const at::Device device = ParseDevice(options.device);
  const auto generate = [&](std::string_view task_name, const tasks::Task& task,
                            const tasks::BatchRequest& request, std::span<std::int32_t> inputs,
                            std::span<std::int32_t> labels) {
    const Batch batch =
        TaskGenerator(std::string(task_name), task, device, registries).Generate(request);
    const auto copy = [](const at::Tensor& from, std::span<std::int32_t> to) {
      const at::Tensor host = from.cpu();
      std::copy_n(host.const_data_ptr<std::int32_t>(), to.size(), to.begin());
    };
    copy(batch.inputs, inputs);
    copy(batch.labels, labels);
  };
  return Generate(options, generate);
}

ExitCode Validate(const std::string& file, const SuiteOverrides& overrides,
                  const Registries& registries) {
  const std::string text = ReadSuiteText(file);
  if (io::ParseJson(text).Find("suites") == nullptr) {
    const Suite suite = ParseSuite(text, overrides, registries);
    std::cout << file << ": valid, " << suite.cells.size() << " cells\n";
    return ExitCode::kOk;
  }
  std::size_t num_cells = 0;
  const Collection collection = ReadCollection(file);
  CheckScore(collection);
  const std::vector<Suite> suites = ParseItems(collection, overrides, registries);
  const bool is_as_given = overrides.set.empty() && !overrides.smoke;
  if (is_as_given) CheckNumSettings(collection, suites);
  for (const Suite& suite : suites) num_cells += suite.cells.size();
  std::cout << file << ": valid, " << suites.size() << " suites, " << num_cells << " cells\n";
  return ExitCode::kOk;
}

Registries WithPythonMixer() {
  Registries registries;
  RegisterPythonMixer(registries.mixers);
  return registries;
}

}  // namespace

int EngineMain(int argc, char** argv, const std::vector<std::string>& worker_command, int answers) {
  // cuBLAS reads it when the first context is made; without it some products are not repeatable.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  // libsentencepiece has a larger variable under the name of one of libtorch's: the loader makes
  // them one, and its constructor overwrites what lies behind it in libtorch. That is this flag, by
  // which an allocation that fails ends the process instead of throwing.
  FLAGS_caffe2_use_fatal_for_enforce = false;
  if (HasPython()) {
    HoldInGraphs({.capture = [] { return std::make_shared<CollectorPause>(); },
                  .begin = HoldTorchsGenerators,
                  .work = DrawFrom});
  }
  const Registries registries = WithPythonMixer();
  const EngineCommands engine = {
      .run =
          [&](RunOptions options) {
            options.worker_command = worker_command;
            return options.is_collection ? RunCollection(options, registries)
                                         : Run(options, registries);
          },
      .repro =
          [&](ReproOptions options) {
            options.worker_command = worker_command;
            return Repro(options, registries);
          },
      .validate_suite = [&](const auto& file,
                            const auto& o) { return Validate(file, o, registries); },
      .check_suite = [&](const auto& text,
                         const auto& overrides) { ParseSuite(text, overrides, registries); },
      .list = [&](const auto& kind, bool json) { return List(kind, json, registries); },
      .describe = [&](const auto& kind, const auto& name,
                      bool json) { return Describe(kind, name, json, registries); },
      .generate_on_device = [&](const auto& o) { return GenerateOnDevice(o, registries); },
      .mixer_run = [&](const auto& options) { return MixerRun(options, registries); },
      .core_run = [&](const auto& options) { return CoreRun(options, registries); },
      .mixer_check = [&](const auto& options) { return MixerCheck(options, registries); },
      .print_form_schema =
          [&](const auto& name) {
            std::cout << io::DumpJson(
                name == "config" ? ConfigSchema(registries) : CollectionSchema(), 2);
            return ExitCode::kOk;
          },
      .check = CheckEngine,
      .worker = [&](const auto& options) { return WorkerMain(options, registries); }};
  return Main(argc, argv, engine, answers);
}

}  // namespace mixerbench::harness
