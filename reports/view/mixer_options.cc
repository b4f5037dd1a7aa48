// SPDX-License-Identifier: Apache-2.0
#include "reports/view/mixer_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "io/json.h"
#include "reports/summary/select.h"
#include "reports/view/cell_parts.h"

namespace mixerbench::reports {
namespace {

using OptionsByMixer = std::map<std::string, std::set<std::string>>;  // by MixerKey

// As part of a key, where "," and "/" part options and what else a cell is called.
std::string InKey(std::string value) {
  std::replace(value.begin(), value.end(), ',', ';');
  std::replace(value.begin(), value.end(), '/', '|');
  return value;
}

// The task and the model around the mixer.
std::string PlaceOf(const CellResult& cell) {
  Object place{{"kind", cell.kind}};
  if (const Value* task = cell.config.Find("task")) place["task"] = *task;
  if (const Value* model = cell.config.Find("model")) {
    place["model"] = Without(*model, {"sequence_mixer"});
  }
  return io::DumpJson(place);
}

OptionsByMixer TellingOptions(const SweepReport& report) {
  struct Mixer {
    std::string key, place, option;
    auto operator<=>(const Mixer&) const = default;
  };
  std::map<Mixer, std::string> values;
  OptionsByMixer telling;
  for (const GroupSummary& group : report.groups) {
    const CellResult& cell = report.cells[group.first_cell];
    const std::string key = MixerKey(group.name), place = PlaceOf(cell);
    const auto said = PartsOf(group);
    for (const auto& [path, value] : MixerOptionsOf(cell)) {
      if (said.contains(path.substr(path.rfind('.') + 1))) continue;
      const auto [known, is_new] = values.try_emplace({key, place, path}, value);
      if (!is_new && known->second != value) telling[key].insert(path);
    }
  }
  return telling;
}

std::string NameWithOptions(const CellResult& cell, const OptionsByMixer& telling) {
  const CellName name = SplitCellName(cell.name);
  const auto options = telling.find(MixerKey(cell.name));
  if (name.mixer.empty() || options == telling.end()) return cell.name;
  const std::string key = KeyWithOptions(cell, options->second);
  return fmt::format("{}/{}{}{}", name.task, key, name.variant.empty() ? "" : "/", name.variant);
}

}  // namespace

Leaves MixerOptionsOf(const CellResult& cell) {
  const Value* model = cell.config.Find("model");
  const Value* mixer = model ? model->Find("sequence_mixer") : nullptr;
  return mixer ? LeavesOf(*mixer) : Leaves();
}

std::string KeyWithOptions(const CellResult& cell, const std::set<std::string>& telling) {
  std::string key = MixerKey(cell.name);
  for (const auto& [path, value] : MixerOptionsOf(cell)) {
    if (telling.contains(path)) key += fmt::format(",{}={}", path, InKey(value));
  }
  return key;
}

std::optional<SweepReport> WithOptionsInNames(const SweepReport& report) {
  if (!report.config.Find("merged"))
    return std::nullopt;  // names of one suite tell its cells apart
  const OptionsByMixer telling = TellingOptions(report);
  if (telling.empty()) return std::nullopt;
  SweepReport named = report;
  for (CellResult& cell : named.cells) cell.name = NameWithOptions(cell, telling);
  for (GroupSummary& group : named.groups) group.name = named.cells[group.first_cell].name;
  return named;
}

}  // namespace mixerbench::reports
