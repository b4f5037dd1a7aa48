// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/cell.h"

#include <string_view>

#include "base/error.h"

namespace mixerbench::harness {
namespace {

CellKind KindFrom(std::string_view text) {
  for (const auto& [kind, name] : EnumNames<CellKind>::kNames) {
    if (name == text) return kind;
  }
  throw ConfigError("/kind",
                    "'" + std::string(text) + "' is no kind of cell that this program has");
}

}  // namespace

Value CellToValue(const Cell& cell) {
  Object object = {{"kind", std::string(NameOf(cell.kind))},
                   {"name", cell.name},
                   {"seed", std::to_string(cell.seed)},
                   {"task", TaskPlanToValue(cell.task)},
                   {"model", cell.model},
                   {"train", TrainFields().Write(cell.train)},
                   {"device_type", cell.device_type},
                   {"limited", cell.limited}};
  if (cell.kind == CellKind::kThroughput)
    object["throughput"] = ThroughputPlanToValue(cell.throughput);
  if (NamesTraining(cell.kind)) object["trained_max_seq_len"] = cell.trained_max_seq_len;
  if (cell.kind == CellKind::kAnalyse) object["taps"] = Array(cell.taps.begin(), cell.taps.end());
  if (cell.write_gate_reset) {
    object[kResetWriteGate] = WriteGateResetToValue(*cell.write_gate_reset);
  }
  return object;
}

Cell CellFromValue(const Value& value, const tasks::TaskRegistry& registry) {
  const Object& object = value.as_object();
  Cell cell;
  cell.kind = KindFrom(object.at("kind").as_string());
  cell.name = object.at("name").as_string();
  cell.seed = std::stoull(object.at("seed").as_string());
  cell.task = TaskPlanFromValue(object.at("task"), registry);
  cell.model = object.at("model");
  cell.train = ParseTrainConfig(object.at("train"), "/train");
  cell.device_type = object.at("device_type").as_string();
  cell.limited = object.at("limited").as_bool();
  if (cell.kind == CellKind::kThroughput)
    cell.throughput = ParseThroughputPlan(object.at("throughput"));
  if (NamesTraining(cell.kind)) {
    cell.trained_max_seq_len = object.at("trained_max_seq_len").as_int();
  }
  if (cell.kind == CellKind::kAnalyse) {
    for (const Value& tap : object.at("taps").as_array()) cell.taps.push_back(tap.as_string());
  }
  if (const Value* reset = value.Find(kResetWriteGate)) {
    cell.write_gate_reset = ParseWriteGateReset(*reset, "/" + std::string(kResetWriteGate));
  }
  return cell;
}

Value Cell::BackboneOptions() const {
  Value options = model;
  options.as_object().erase("backbone");
  return options;
}

reports::CellResult ResultOf(const Cell& cell) {
  reports::CellResult result;
  result.run_id = "sha256:" + cell.run_id;
  result.group_id = "sha256:" + cell.group_id;
  result.experiment_id = "sha256:" + cell.experiment_id;
  result.code_id = "sha256:" + cell.code_id;
  result.data_id = "sha256:" + cell.data_id;
  if (!cell.training_id.empty()) result.training_id = "sha256:" + cell.training_id;
  result.name = cell.name;
  result.seed = cell.seed;
  result.kind = NameOf(cell.kind);
  result.partial = cell.limited;
  if (cell.kind == CellKind::kTrain) result.threshold = cell.train.solved_accuracy;
  result.config = CellToValue(cell);
  for (const char* key : {"seed", "name"}) {
    result.config.as_object().erase(key);  // stand beside it
  }
  result.code = cell.code;
  result.data_hash = cell.data_hash;
  return result;
}

}  // namespace mixerbench::harness
