// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/identity.h"

#include <algorithm>
#include <utility>

#include <torch/headeronly/version.h>

#include "base/sha256.h"
#include "harness/python/python_mixer.h"
#include "harness/suite/code_hash.h"
#include "harness/suite/data.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "tasks/text/text_task.h"

namespace mixerbench::harness {
namespace {

// Tokens of a segment that are hashed themselves; at least two samples.
constexpr std::int64_t kHashedTokens = std::int64_t{1} << 18;

std::string HashOf(const Value& value) { return Sha256Hex(io::DumpJson(value)); }

std::string Prefixed(std::string_view hash) { return "sha256:" + std::string(hash); }

// What of this program answers for a mixer: of one in Python its half in the package too, which can
// change without the engine.
std::string HashMixer(const std::string& name) {
  if (name != kPythonMixer) return Prefixed(models::MixerCodeHash(name));
  return Prefixed(Sha256Hex(std::string(HarnessCodeHash(name)) + PythonPackageCode()));
}

// Collects the code of all mixers in a (nested) mixer configuration, by name.
void CollectMixers(const Value& value, const models::MixerRegistry& mixers, Object& code) {
  if (value.is_array()) {
    for (const Value& item : value.as_array()) CollectMixers(item, mixers, code);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) {
      CollectMixers(item, mixers, code);
      if (key != "name" || !item.is_string() || !mixers.Contains(item.as_string())) continue;
      code[item.as_string()] = HashMixer(item.as_string());
    }
  }
}

// `mixers`: the code of those in Python.
Value DescribeCode(const Cell& cell, Object mixers, const Registries& registries) {
  CollectMixers(cell.model, registries.mixers, mixers);
  const std::string& backbone = cell.Backbone();
  return Object{{"task", Object{{cell.task.name, Prefixed(tasks::TaskCodeHash(cell.task.name))}}},
                {"mixers", mixers},
                {"backbone", Object{{backbone, Prefixed(models::BackboneCodeHash(backbone))}}},
                {"harness", Prefixed(HarnessCodeHash("training"))},
                {"libtorch", TORCH_VERSION}};
}

// Samples of one segment: all of them when they are few, else as many from both ends.
std::string HashBothEnds(const tasks::Task& task, std::int64_t num_examples, std::uint64_t seed,
                         tasks::Split split) {
  const std::int64_t fitting = std::max<std::int64_t>(2, kHashedTokens / task.shape().seq_len);
  const bool is_online = num_examples == 0;
  if (is_online || num_examples <= fitting) {
    return HashSamples(task, seed, split, 0, is_online ? fitting : num_examples);
  }
  const std::int64_t last = fitting / 2;
  const std::int64_t first = fitting - last;
  return HashSamples(task, seed, split, 0, first) +
         HashSamples(task, seed, split, num_examples - last, last);
}

}  // namespace

Object PythonCodeOf(const Cell& cell) {
  Object found;
  const Value* mixers = cell.code.Find("mixers");
  if (mixers == nullptr || mixers->Find(kPythonMixer) == nullptr) return found;
  for (const auto& [name, code] : mixers->as_object()) {
    if (name.starts_with(kPythonMixer)) found[name] = code;
  }
  return found;
}

bool RunsPython(const Cell& cell) { return !PythonCodeOf(cell).empty(); }

std::string CellIdentifier::HashFile(const std::string& path) {
  auto [entry, inserted] = files_.try_emplace(path);
  if (inserted) entry->second = Prefixed(io::HashFile(path));
  return entry->second;
}

Value CellIdentifier::DescribeSegments(const std::vector<Segment>& segments) {
  Value described = SegmentsToValue(segments);
  for (Value& segment : described.as_array()) {
    for (auto& [option, value] : segment.as_object()) {
      if (!option.ends_with("_file") || !value.is_string() || value.as_string().empty()) continue;
      value = HashFile(value.as_string());
    }
  }
  return described;
}

Value CellIdentifier::DescribeExperiment(const Cell& cell) {
  Value train = TrainFields().Write(cell.train);
  train.as_object().erase("eval_batch_tokens");  // changes results by rounding alone
  Object experiment = {{"kind", std::string(NameOf(cell.kind))},
                       {"task", cell.task.name},
                       {"data_seed", std::to_string(cell.task.data_seed)},
                       {"train_data", DescribeSegments(cell.task.train)},
                       {"validation_data", DescribeSegments(cell.task.validation)},
                       {"test_data", DescribeSegments(cell.task.test)},
                       {"train", train},
                       {"device_type", cell.device_type}};
  if (cell.kind == CellKind::kThroughput) {
    experiment["throughput"] = ThroughputPlanToValue(cell.throughput);
  }
  if (NamesTraining(cell.kind)) experiment["trained_max_seq_len"] = cell.trained_max_seq_len;
  if (cell.kind == CellKind::kAnalyse) {
    experiment["taps"] = Array(cell.taps.begin(), cell.taps.end());
  }
  if (cell.write_gate_reset) {
    experiment[kResetWriteGate] = WriteGateResetToValue(*cell.write_gate_reset);
  }
  return experiment;
}

Value CellIdentifier::HashSplit(const TaskPlan& plan, const std::vector<Segment>& segments,
                                std::uint64_t seed, tasks::Split split) {
  const Value source = Object{{"task", plan.name},
                              {"code", std::string(tasks::TaskCodeHash(plan.name))},
                              {"segments", DescribeSegments(segments)},
                              {"seed", std::to_string(seed)},
                              {"split", static_cast<std::int64_t>(split)}};
  auto [entry, inserted] = splits_.try_emplace(io::DumpJson(source));
  if (inserted) {
    Array samples;
    for (const Segment& segment : segments) {
      const auto task =
          registries_.tasks.Find(plan.name, "/task/name").create(segment.params, "/task");
      Object described = {{"canon", task->canon()},
                          {"samples", HashBothEnds(*task, segment.num_examples, seed, split)}};
      if (const tasks::TextTask* text = task->text()) {
        described["tokenizer"] = std::string(text->tokenizer().name());
      }
      samples.emplace_back(std::move(described));
    }
    entry->second = Prefixed(HashOf(Object{{"source", source}, {"segments", samples}}));
  }
  return entry->second;
}

void CellIdentifier::Identify(Cell& cell) {
  const TaskPlan& plan = cell.task;
  const Value validation =
      HashSplit(plan, plan.validation, plan.data_seed, tasks::Split::kValidation);
  const Value test = HashSplit(plan, plan.test, plan.data_seed, tasks::Split::kTest);
  cell.data_hash = Object{{"train", HashSplit(plan, plan.train, cell.seed, tasks::Split::kTrain)},
                          {"validation", validation},
                          {"test", test}};
  Object python_code;
  Value model = NamePythonModules(cell.model, python_code);
  cell.code = DescribeCode(cell, std::move(python_code), registries_);
  Value experiment = DescribeExperiment(cell);
  experiment.as_object()["model"] = std::move(model);
  cell.experiment_id = HashOf(experiment);
  cell.code_id = HashOf(cell.code);
  cell.data_id = HashOf(cell.data_hash);
  cell.group_id = HashOf(Object{{"experiment", cell.experiment_id},
                                {"code", cell.code_id},
                                {"validation", validation},
                                {"test", test}});
  cell.run_id = HashOf(Object{{"experiment", cell.experiment_id},
                              {"code", cell.code_id},
                              {"data", cell.data_id},
                              {"seed", std::to_string(cell.seed)}});
  if (cell.kind == CellKind::kThroughput) return;
  // The same of a training and of every cell that names it.
  experiment.as_object()["kind"] = std::string(NameOf(CellKind::kTrain));
  for (const char* key : {"test_data", "trained_max_seq_len", "taps", kResetWriteGate}) {
    experiment.as_object().erase(key);
  }
  Value data = cell.data_hash;
  data.as_object().erase("test");
  cell.training_id = HashOf(Object{{"experiment", experiment},
                                   {"code", cell.code_id},
                                   {"data", data},
                                   {"seed", std::to_string(cell.seed)}});
}

}  // namespace mixerbench::harness
