// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/ranked_mixers.h"

#include <algorithm>
#include <utility>

#include "reports/leaderboard/conditions.h"
#include "reports/summary/select.h"
#include "reports/view/cell_parts.h"
#include "reports/view/mixer_options.h"

namespace mixerbench::reports {
namespace {

const std::string kMixerPath = "model.sequence_mixer.";

using Values = std::set<std::string>;

// What one option of one mixer is in all reports.
struct OptionValues {
  std::map<const SweepReport*, std::map<std::string, Values>> by_setting;
  bool is_chosen = false;  // by some suite

  bool TellsApart() const {
    if (is_chosen) return false;
    Values all;
    bool is_set_by_setting = false;
    for (const auto& [report, settings] : by_setting) {
      Values of_report;
      for (const auto& [setting, values] : settings) {
        if (values.size() > 1) return true;
        of_report.insert(values.begin(), values.end());
      }
      is_set_by_setting = is_set_by_setting || of_report.size() > 1;
      all.insert(of_report.begin(), of_report.end());
    }
    return !is_set_by_setting && all.size() > 1;
  }
};

// By MixerKey and path of the option.
std::map<std::string, std::map<std::string, OptionValues>> AllOptions(
    const std::vector<const SweepReport*>& reports) {
  std::map<std::string, std::map<std::string, OptionValues>> options;
  for (const SweepReport* report : reports) {
    const std::vector<std::string> chosen = SelectedOver(report->config);
    for (const GroupSummary& group : report->groups) {
      const std::string setting = group.kind + "\n" + RankedKey(*report, group);
      for (const auto& [path, value] : MixerOptionsOf(report->cells[group.first_cell])) {
        OptionValues& option = options[MixerKey(group.name)][path];
        option.by_setting[report][setting].insert(value);
        option.is_chosen =
            option.is_chosen ||
            std::any_of(chosen.begin(), chosen.end(), [&, &at = path](const std::string& over) {
              return (kMixerPath + at + ".").starts_with(over + ".");
            });
      }
    }
  }
  return options;
}

std::map<std::string, std::set<std::string>> TellingOptions(
    const std::vector<const SweepReport*>& reports) {
  std::map<std::string, std::set<std::string>> telling;
  for (const auto& [mixer, options] : AllOptions(reports)) {
    for (const auto& [path, option] : options) {
      if (option.TellsApart()) telling[mixer].insert(path);
    }
  }
  return telling;
}

}  // namespace

RankedMixers::RankedMixers(const std::vector<const SweepReport*>& reports)
    : telling_(TellingOptions(reports)), list_(ListOf(reports)) {}

std::string RankedMixers::KeyOf(const CellResult& cell) const {
  const std::string key = MixerKey(cell.name);
  const auto telling = telling_.find(key);
  return telling == telling_.end() ? key : KeyWithOptions(cell, telling->second);
}

MixerList RankedMixers::ListOf(const std::vector<const SweepReport*>& reports) const {
  std::map<std::string, Value> models;  // by "/" and key, as in names of cells
  for (const SweepReport* report : reports) {
    for (const CellResult& cell : report->cells) {
      const Value* model = cell.config.Find("model");
      models.try_emplace("/" + KeyOf(cell), model ? *model : Value());
    }
  }
  return MixerList(models);
}

}  // namespace mixerbench::reports
