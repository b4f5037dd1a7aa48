// What a suite varied, found from the names and configs of its groups: mixers, the settings that
// they share, and the choice among rates. Tables and charts are drawn from this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"

namespace mixerbench::reports {

// Values that move together in all settings: one axis.
struct SettingAxis {
  std::vector<std::string> keys;  // those that are shown: "input_seq_len", "num_kv_pairs"
  bool is_task = false;           // of the task's size
  std::vector<std::vector<std::string>> values;  // in ascending order; each by key
};

// A combination of what is varied besides the mixer.
struct Setting {
  std::map<std::string, std::string> parts;  // "d_model": "64"
  std::vector<int> at;                       // the index of its value, by Study::axes
  std::string text;                          // "64 tokens, 4 pairs, d 64"
};

// The groups of one mixer at one setting: several when a suite chooses among them.
struct StudyCell {
  const GroupSummary* shown = nullptr;  // the chosen one, or the only one
  std::vector<const GroupSummary*> all;
};

// Training groups of one task; where suites were merged that differ in a size or a recipe, those of
// one such setting.
struct Study {
  const SweepReport* report = nullptr;
  std::string task;
  std::string title;  // the task and, where it has several studies, what tells this one apart
  std::vector<std::string> chosen_keys;                    // "lr"; empty when nothing is chosen
  std::string undecided;                                   // why nothing could be chosen
  std::vector<SettingAxis> axes;                           // of the task first
  std::vector<Setting> settings;                           // ascending
  std::vector<int> mixers;                                 // best first
  std::map<std::pair<int, std::size_t>, StudyCell> cells;  // by mixer and setting
  std::vector<Object> segments;  // the whole test segments; one, empty, where groups have one each
  // What a mixer has throughout and another has otherwise, "lr 1e-2, positions learned"; by mixer.
  std::map<int, std::string> own_texts;
  std::vector<const GroupSummary*> unplaced;  // in no table: their configs are those of others

  const StudyCell* At(int mixer, std::size_t setting) const;
  const GroupSummary* Shown(int mixer, std::size_t setting) const;
};

// One or more for each task that was trained, in order of name.
std::vector<Study> StudiesOf(const SweepReport& report, const MixerList& mixers);

// Whether the learning rate is chosen by validation.
bool ChoosesRate(const Study& study);

// Among how many it is: 1 where it is not chosen.
std::int64_t NumRates(const Study& study);

// The distinct texts at a path of the configs of a study, in order, without "0".
std::vector<std::string> ConfigValues(const Study& study, const std::string& path);

// The row of a whole segment of `study.segments`, or nullptr.
const AccuracyOverSeeds* RowAt(const Study& study, const GroupSummary& group, std::size_t segment);

// Whether a segment goes beyond what was trained, by the first mixer that has its row.
bool IsExtrapolated(const Study& study, std::size_t setting, std::size_t segment);

// The parts of an axis' value: "64 tokens, 4 pairs".
std::string AxisText(const SettingAxis& axis, std::size_t value, const char* between = ", ");

// The value of a chosen key, "lr 1e-2", joined; empty when nothing was chosen.
std::string ChosenText(const Study& study, const GroupSummary& group);

// What a group's setting is, whatever its mixer: equal for groups that differ in nothing but the
// mixer, its positions (attention learns them where recurrences need none) and what
// `sweep.select` chooses among.
std::string SettingKey(const SweepReport& report, const GroupSummary& group);

// The highest accuracy at which training stops early in the cells of a study; 0 for none.
double EarlyStop(const Study& study);

// How many seeds ran of each result that is shown; none of those that did not run.
std::vector<std::size_t> ShownSeedCounts(const Study& study);

}  // namespace mixerbench::reports
