// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/training_uses.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "harness/suite/section_forms.h"
#include "io/read_value.h"

namespace mixerbench::harness {
namespace {

// A list of names without repetition, or "all".
std::vector<std::string> ReadTaps(const Value& value, const std::string& where) {
  TapsForm().check(value, where);
  if (value.is_string()) return {kAllTaps};
  std::vector<std::string> taps;
  for (const Value& tap : value.as_array()) taps.push_back(tap.as_string());
  return taps;
}

void AddSection(const Value& document, CellKind kind, std::vector<TrainingUse>& uses) {
  const Value* section = document.Find(std::string(NameOf(kind)));
  if (section == nullptr) return;
  const std::string name = "/" + std::string(NameOf(kind));
  if (!section->is_array() || section->as_array().empty()) {
    throw ConfigError(name, "expected a list of objects, each in the form of task.test");
  }
  const Array& entries = section->as_array();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TrainingUse use;
    use.kind = kind;
    use.where = name + "/" + std::to_string(i);
    io::RequireObject(entries[i], use.where);
    if (std::find(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(i), entries[i]) !=
        entries.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw ConfigError(use.where, "stands there already");
    }
    use.test = entries[i].as_object();
    if (kind == CellKind::kAnalyse) {
      use.taps = ReadTaps(io::RequireMember(entries[i], use.where, "taps"), use.where + "/taps");
      use.test.erase("taps");
    } else if (const Value* reset = entries[i].Find(kResetWriteGate)) {
      use.write_gate_reset = ParseWriteGateReset(*reset, use.where + "/" + kResetWriteGate);
      use.test.erase(kResetWriteGate);
    }
    uses.push_back(std::move(use));
  }
}

}  // namespace

std::vector<TrainingUse> ParseTrainingUses(const Value& document) {
  std::vector<TrainingUse> uses;
  AddSection(document, CellKind::kEvaluate, uses);
  AddSection(document, CellKind::kAnalyse, uses);
  return uses;
}

Cell UseTraining(const Cell& trained, const TrainingUse& use, const Value& task,
                 const tasks::TaskRegistry& registry) {
  constexpr std::string_view kPlace = "/task/test";
  Cell cell = trained;
  cell.kind = use.kind;
  cell.taps = use.taps;
  cell.write_gate_reset = use.write_gate_reset;
  cell.trained_max_seq_len = trained.task.max_seq_len;
  Value other_test = task;
  Object& test = other_test.as_object().try_emplace("test", Object{}).first->second.as_object();
  for (const auto& [option, value] : use.test) test[option] = value;
  try {
    cell.task = ParseTaskPlan(other_test, registry);
  } catch (const ConfigError& error) {
    const std::string& where = error.where();
    if (!where.starts_with(kPlace)) throw ConfigError(use.where, error.what());
    throw ConfigError(use.where + where.substr(kPlace.size()), error.reason());
  }
  if (use.write_gate_reset && use.write_gate_reset->last_token >= cell.task.vocab_size) {
    throw ConfigError(use.where + "/" + kResetWriteGate + "/last_token",
                      "the vocabulary ends at " + std::to_string(cell.task.vocab_size - 1));
  }
  return cell;
}

}  // namespace mixerbench::harness
