// SPDX-License-Identifier: Apache-2.0
#include "harness/identity.h"

#include <set>

#include "base/sha256.h"
#include "harness/data.h"
#include "harness/embedded.h"
#include "reports/json.h"

namespace mixerbench::harness {
namespace {

// Samples of each segment that enter the data hash: a generator that changes at all changes these.
constexpr std::uint64_t kHashedSamples = 64;

// Collects the names of all mixers in a (nested) mixer configuration.
void CollectMixerNames(const Value& value, const models::MixerRegistry& mixers,
                       std::set<std::string>& names) {
  if (value.is_array()) {
    for (const Value& item : value.as_array()) CollectMixerNames(item, mixers, names);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) {
      if (key == "name" && item.is_string() && mixers.Contains(item.as_string())) {
        names.insert(item.as_string());
      }
      CollectMixerNames(item, mixers, names);
    }
  }
}

Value CodeHashes(const Cell& cell, const Registries& registries) {
  std::set<std::string> mixer_names;
  CollectMixerNames(cell.model, registries.mixers, mixer_names);
  Object mixers;
  for (const std::string& name : mixer_names) mixers[name] = models::MixerCodeHash(name);
  Sha256 cores;
  for (const std::string& name : registries.cores.Names())
    cores.Update(kernels::CoreCodeHash(name));
  return Object{{"task", tasks::TaskCodeHash(cell.task.name)},
                {"mixers", mixers},
                {"cores", cores.Hex()},
                {"backbone", models::BackboneCodeHash(cell.model.Find("backbone")->as_string())},
                {"shared", SharedCodeHash()}};
}

}  // namespace

Value CellIdentifier::HashData(const TaskPlan& plan, std::uint64_t train_seed) {
  return Object{
      {"train", HashSplit(plan, plan.train, train_seed, tasks::Split::kTrain)},
      {"validation", HashSplit(plan, plan.validation, plan.data_seed, tasks::Split::kValidation)},
      {"test", HashSplit(plan, plan.test, plan.data_seed, tasks::Split::kTest)}};
}

Value CellIdentifier::HashSplit(const TaskPlan& plan, const std::vector<Segment>& segments,
                                std::uint64_t seed, tasks::Split split) {
  const std::string key = plan.name + reports::DumpJson(SegmentsToValue(segments)) + ":" +
                          std::to_string(seed) + ":" + std::to_string(static_cast<int>(split));
  auto [entry, inserted] = known_.try_emplace(key);
  if (inserted) {
    Sha256 hash;
    for (const Segment& segment : segments) {
      const auto task =
          registries_.tasks.Find(plan.name, "/task/name").create(segment.params, "/task");
      hash.Update(HashSamples(*task, seed, split, kHashedSamples));
    }
    entry->second = "sha256:" + hash.Hex();
  }
  return entry->second;
}

void CellIdentifier::Identify(Cell& cell) {
  cell.data_hash = HashData(cell.task, cell.seed);
  Value train = TrainFields().Write(cell.train);
  train.as_object().erase("eval_batch_size");  // changes speed, not results
  Object identity = {{"kind", std::string(NameOf(cell.kind))},
                     {"task", TaskPlanToValue(cell.task)},
                     {"model", cell.model},
                     {"train", train},
                     {"device_type", cell.device_type},
                     {"code", CodeHashes(cell, registries_)}};
  if (cell.kind == CellKind::kThroughput)
    identity["throughput"] = ThroughputPlanToValue(cell.throughput);
  cell.group_id = Sha256Hex(reports::DumpJson(identity));
  identity["seed"] = std::to_string(cell.seed);
  identity["data_hash"] = cell.data_hash;
  cell.run_id = Sha256Hex(reports::DumpJson(identity));
}

}  // namespace mixerbench::harness
