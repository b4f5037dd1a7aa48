// SPDX-License-Identifier: Apache-2.0
#include "reports/view/study.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/dotted_path.h"
#include "io/json.h"
#include "reports/summary/axis_keys.h"
#include "reports/summary/select.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/study_split.h"

namespace mixerbench::reports {
namespace {

bool ValuesLess(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) return ValueLess(a[i], b[i]);
  }
  return a.size() < b.size();
}

const Value& ConfigOf(const SweepReport& report, const GroupSummary& group) {
  return report.cells[group.first_cell].config;
}

bool IsChosen(const GroupSummary& group) {
  if (group.phase != CellPhase::kNone) return group.phase == CellPhase::kReport;
  return group.selection && group.selection->selected;
}

// Whether a group may stand for its setting. While nothing is chosen every setting of the sweep
// does, by the seeds of the sweep.
bool IsShown(const Study& study, const GroupSummary& group) {
  if (study.chosen_keys.empty()) return group.phase != CellPhase::kReport;
  return IsReported(group);
}

// Whether each value of one key always meets the same value of the other, both ways.
bool MoveTogether(const std::vector<Setting>& settings, const std::string& a,
                  const std::string& b) {
  std::map<std::string, std::string> to;
  std::map<std::string, std::string> from;
  for (const Setting& setting : settings) {
    const std::string& x = setting.parts.at(a);
    const std::string& y = setting.parts.at(b);
    if (to.try_emplace(x, y).first->second != y) return false;
    if (from.try_emplace(y, x).first->second != x) return false;
  }
  return true;
}

bool IsTaskKey(const SweepReport& report, const Study& study, const std::string& key) {
  const GroupSummary* group = study.cells.begin()->second.all.front();
  const Value* task = ConfigOf(report, *group).Find("task");
  const Value* test = task ? task->Find("test") : nullptr;
  const bool in_segment = test && test->is_array() && !test->as_array().empty() &&
                          test->as_array().front().Find(key) != nullptr;
  return in_segment || (task && task->Find(key));
}

void FindAxes(Study& study, const std::set<std::string>& varying) {
  std::vector<std::string> keys(varying.begin(), varying.end());
  std::sort(keys.begin(), keys.end(), KeyLess);
  std::vector<std::vector<std::string>> classes;
  for (const std::string& key : keys) {
    auto found = std::find_if(classes.begin(), classes.end(), [&](const auto& members) {
      return MoveTogether(study.settings, members.front(), key);
    });
    if (found == classes.end()) found = classes.emplace(classes.end());
    found->push_back(key);
  }
  for (const auto& members : classes) {
    SettingAxis axis;
    for (const std::string& key : members) {
      if (IsTaskKey(*study.report, study, key)) axis.keys.push_back(key);
    }
    axis.is_task = !axis.keys.empty();
    if (!axis.is_task) axis.keys = members;
    for (const Setting& setting : study.settings) {
      std::vector<std::string> value;
      for (const std::string& key : axis.keys) value.push_back(setting.parts.at(key));
      if (std::find(axis.values.begin(), axis.values.end(), value) == axis.values.end()) {
        axis.values.push_back(std::move(value));
      }
    }
    std::sort(axis.values.begin(), axis.values.end(), ValuesLess);
    study.axes.push_back(std::move(axis));
  }
  std::stable_partition(study.axes.begin(), study.axes.end(),
                        [](const SettingAxis& axis) { return axis.is_task; });
}

void PlaceSettings(Study& study) {
  for (Setting& setting : study.settings) {
    for (const SettingAxis& axis : study.axes) {
      std::vector<std::string> value;
      for (const std::string& key : axis.keys) value.push_back(setting.parts.at(key));
      const auto found = std::find(axis.values.begin(), axis.values.end(), value);
      const auto index = static_cast<std::size_t>(found - axis.values.begin());
      setting.at.push_back(static_cast<int>(index));
      setting.text += (setting.text.empty() ? "" : ", ") + AxisText(axis, index);
    }
  }
}

// Segments that some group has beside others; where each has one, they are told by the settings.
void FindSegments(Study& study) {
  std::vector<Object> found;
  bool has_several = false;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      int count = 0;
      for (const AccuracyOverSeeds& row : group->accuracy) {
        if (!row.slice.empty()) continue;
        ++count;
        if (std::find(found.begin(), found.end(), row.axes) == found.end()) {
          found.push_back(row.axes);
        }
      }
      has_several = has_several || count > 1;
    }
  }
  const auto key = [](const Object& axes) {
    std::vector<std::string> values;
    for (const auto& [name, value] : axes) values.push_back(io::DumpJson(value));
    return values;
  };
  std::sort(found.begin(), found.end(),
            [&](const Object& a, const Object& b) { return ValuesLess(key(a), key(b)); });
  study.segments = has_several ? std::move(found) : std::vector<Object>{{}};
}

// Settings solved, then steps, then accuracy, then the label.
void SortMixers(Study& study, const MixerList& list) {
  struct Rank {
    double unsolved = 0;
    double steps = 0;
    double wrong = 0;
    std::string label;
    auto operator<=>(const Rank&) const = default;
  };
  std::map<int, Rank> ranks;
  for (const auto& [place, cell] : study.cells) {
    Rank& rank = ranks[place.first];
    rank.label = list.styles()[static_cast<std::size_t>(place.first)].label;
    const GroupSummary* group = cell.shown ? cell.shown : cell.all.front();
    if (const auto& rate = group->solve_rate) {
      rank.unsolved -= static_cast<double>(rate->num_solved) /
                       static_cast<double>(std::max<std::int64_t>(rate->num_seeds, 1));
    }
    const auto& steps = group->steps_to_threshold;
    rank.steps += steps && steps->median ? *steps->median : 1e12;
    for (const AccuracyOverSeeds& row : group->accuracy) {
      if (row.slice.empty()) rank.wrong += 1 - row.mean.value_or(0);
    }
  }
  for (const auto& [mixer, rank] : ranks) study.mixers.push_back(mixer);
  std::sort(study.mixers.begin(), study.mixers.end(),
            [&](int a, int b) { return ranks[a] < ranks[b]; });
}

// What tells settings apart, by group.
using SaidParts = std::map<const GroupSummary*, std::map<std::string, std::string>>;

// The parts of the names. A key that only other groups name is read from the config: suites that
// were merged, and cells with a halved batch, do not all name the same. What two groups of one name
// differ in is a key too.
SaidParts SaidPartsOf(const SweepReport& report, const std::vector<const GroupSummary*>& groups) {
  SaidParts said;
  std::set<std::string> keys;
  std::map<const GroupSummary*, Leaves> known;
  const auto leaves = [&](const GroupSummary* group) -> const Leaves& {  // few need theirs
    const auto [found, is_new] = known.try_emplace(group);
    if (is_new) found->second = LeavesOf(ConfigOf(report, *group));
    return found->second;
  };
  for (const GroupSummary* group : groups) {
    said[group] = PartsOf(*group);
    for (const auto& [key, value] : said[group]) keys.insert(key);
  }
  const auto fill = [&](const std::string& key) {
    for (auto& [group, parts] : said) {
      if (!parts.contains(key)) parts[key] = LeafText(leaves(group), key);
    }
  };
  for (const std::string& key : keys) fill(key);
  std::map<std::tuple<std::string, CellPhase, std::map<std::string, std::string>>,
           std::vector<const GroupSummary*>>
      alike;
  for (const GroupSummary* group : groups) {
    alike[{MixerKey(group->name), group->phase, said[group]}].push_back(group);
  }
  for (const auto& [place, members] : alike) {
    const GroupSummary* first = members.front();
    for (const GroupSummary* group : members) {
      if (group == first) continue;
      for (const auto& [path, text] : leaves(group)) {
        const auto other = leaves(first).find(path);
        if (other == leaves(first).end() || other->second != text) fill(LastPart(path));
      }
    }
  }
  return said;
}

// The keys with several values for one mixer, but those among which one is chosen.
std::set<std::string> VaryingAmong(const SaidParts& said, const std::set<std::string>& chosen) {
  std::map<std::pair<std::string, std::string>, std::string> value_of;  // by mixer and key
  std::set<std::string> varying;
  for (const auto& [group, parts] : said) {
    for (const auto& [key, value] : parts) {
      if (chosen.contains(key)) continue;
      const auto [known, is_new] = value_of.try_emplace({MixerKey(group->name), key}, value);
      if (!is_new && known->second != value) varying.insert(key);
    }
  }
  return varying;
}

// Of each mixer the values that it has throughout and another mixer has otherwise.
std::map<int, std::string> OwnTexts(const SaidParts& said, const std::set<std::string>& elsewhere,
                                    const MixerList& list) {
  std::map<std::string, std::map<int, std::string>> values;  // by key and mixer
  for (const auto& [group, parts] : said) {
    for (const auto& [key, value] : parts) {
      if (!elsewhere.contains(key)) values[key][list.IndexOf(MixerKey(group->name))] = value;
    }
  }
  std::vector<std::string> keys;
  for (const auto& [key, by_mixer] : values) {
    const std::string& first = by_mixer.begin()->second;
    if (std::any_of(by_mixer.begin(), by_mixer.end(),
                    [&](const auto& value) { return value.second != first; })) {
      keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end(), KeyLess);
  std::map<int, std::string> texts;
  for (const std::string& key : keys) {
    for (const auto& [mixer, value] : values.at(key)) {
      if (value.empty()) continue;
      std::string& text = texts[mixer];
      text += (text.empty() ? "" : ", ") + PartText(key, value);
    }
  }
  return texts;
}

Study MakeStudy(const SweepReport& report, const std::string& task, const TaskPart& part,
                const MixerList& list) {
  const std::vector<const GroupSummary*>& groups = part.groups;
  Study study;
  study.report = &report;
  study.task = task;
  study.title = part.title;
  const std::set<std::string> over = ChosenKeys(report.config);
  for (const GroupSummary* group : groups) {
    if (group->selection && !group->selection->undecided.empty()) {
      study.undecided = group->selection->undecided;
    }
  }
  if (study.undecided.empty()) study.chosen_keys.assign(over.begin(), over.end());

  const std::set<std::string> chosen(study.chosen_keys.begin(), study.chosen_keys.end());
  const SaidParts said = SaidPartsOf(report, groups);
  const std::set<std::string> varying = VaryingAmong(said, chosen);
  std::set<std::string> elsewhere = varying;
  elsewhere.insert(chosen.begin(), chosen.end());
  study.own_texts = OwnTexts(said, elsewhere, list);
  std::map<std::map<std::string, std::string>, std::vector<const GroupSummary*>> by_setting;
  for (const GroupSummary* group : groups) {
    std::map<std::string, std::string> own;
    for (const std::string& key : varying) own[key] = said.at(group).at(key);
    by_setting[own].push_back(group);
  }
  std::vector<std::pair<Setting, std::vector<const GroupSummary*>>> order;
  for (auto& [parts, members] : by_setting) order.push_back({{parts, {}, ""}, members});
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    std::vector<std::string> x;
    std::vector<std::string> y;
    std::vector<std::string> keys;
    for (const auto& [key, value] : a.first.parts) keys.push_back(key);
    std::sort(keys.begin(), keys.end(), KeyLess);
    for (const std::string& key : keys) {
      x.push_back(a.first.parts.at(key));
      y.push_back(b.first.parts.at(key));
    }
    return ValuesLess(x, y);
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    study.settings.push_back(order[i].first);
    for (const GroupSummary* group : order[i].second) {
      StudyCell& cell = study.cells[{list.IndexOf(MixerKey(group->name)), i}];
      cell.all.push_back(group);
      if (!IsShown(study, *group)) continue;
      if (cell.shown != nullptr && IsChosen(*cell.shown) == IsChosen(*group) &&
          (chosen.empty() || IsChosen(*group))) {
        study.unplaced.push_back(group);
      } else if (cell.shown == nullptr || IsChosen(*group)) {
        cell.shown = group;
      }
    }
  }
  FindAxes(study, varying);
  PlaceSettings(study);
  FindSegments(study);
  SortMixers(study, list);
  return study;
}

}  // namespace

const StudyCell* Study::At(int mixer, std::size_t setting) const {
  const auto found = cells.find({mixer, setting});
  return found == cells.end() ? nullptr : &found->second;
}

const GroupSummary* Study::Shown(int mixer, std::size_t setting) const {
  const StudyCell* cell = At(mixer, setting);
  return cell ? cell->shown : nullptr;
}

std::vector<Study> StudiesOf(const SweepReport& report, const MixerList& mixers) {
  std::map<std::string, std::vector<const GroupSummary*>> by_task;
  for (const GroupSummary& group : report.groups) {
    if (group.kind == "train") by_task[SplitCellName(group.name).task].push_back(&group);
  }
  std::vector<Study> studies;
  for (const auto& [task, groups] : by_task) {
    for (const TaskPart& part : SplitTask(report, task, groups)) {
      studies.push_back(MakeStudy(report, task, part, mixers));
    }
  }
  return studies;
}

bool ChoosesRate(const Study& study) {
  return std::find(study.chosen_keys.begin(), study.chosen_keys.end(), "lr") !=
         study.chosen_keys.end();
}

std::int64_t NumRates(const Study& study) {
  if (!ChoosesRate(study)) return 1;
  return static_cast<std::int64_t>(ConfigValues(study, "train.lr").size());
}

std::vector<std::string> ConfigValues(const Study& study, const std::string& path) {
  std::set<std::string> texts;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      const std::string text = ConfigText(study.report->cells[group->first_cell].config, path);
      if (!text.empty() && text != "0") texts.insert(text);
    }
  }
  std::vector<std::string> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end(), ValueLess);
  return sorted;
}

const AccuracyOverSeeds* RowAt(const Study& study, const GroupSummary& group, std::size_t segment) {
  const bool any = study.segments.size() == 1 && study.segments.front().empty();
  for (const AccuracyOverSeeds& row : group.accuracy) {
    if (row.slice.empty() && (any || row.axes == study.segments[segment])) return &row;
  }
  return nullptr;
}

bool IsExtrapolated(const Study& study, std::size_t setting, std::size_t segment) {
  for (const int mixer : study.mixers) {
    const GroupSummary* group = study.Shown(mixer, setting);
    const AccuracyOverSeeds* row = group ? RowAt(study, *group, segment) : nullptr;
    if (row) return row->extrapolated;
  }
  return false;
}

std::string AxisText(const SettingAxis& axis, std::size_t value, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < axis.keys.size(); ++i) {
    text += (i == 0 ? "" : between) + PartText(axis.keys[i], axis.values[value][i]);
  }
  return text;
}

std::string SettingKey(const SweepReport& report, const GroupSummary& group) {
  std::vector<std::string> free = SelectedOver(report.config);
  free.insert(free.end(), {"model.sequence_mixer", "model.positions"});
  return io::DumpJson(Without(ConfigOf(report, group), free));
}

std::string ChosenText(const Study& study, const GroupSummary& group) {
  const auto parts = PartsOf(group);
  std::string text;
  for (const std::string& key : study.chosen_keys) {
    if (const auto found = parts.find(key); found != parts.end()) {
      text += (text.empty() ? "" : ", ") + PartText(key, found->second);
    }
  }
  return text;
}

double EarlyStop(const Study& study) {
  double highest = 0;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      const Value& config = study.report->cells[group->first_cell].config;
      const Value* train = config.Find("train");
      const Value* stop = train ? train->Find("early_stop_accuracy") : nullptr;
      if (stop && stop->is_number()) highest = std::max(highest, stop->as_double());
    }
  }
  return highest;
}

std::vector<std::size_t> ShownSeedCounts(const Study& study) {
  std::vector<std::size_t> counts;
  for (const auto& [place, cell] : study.cells) {
    if (cell.shown && !cell.shown->seeds.empty()) counts.push_back(cell.shown->seeds.size());
  }
  return counts;
}

}  // namespace mixerbench::reports
