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
#include "reports/view/page.h"

namespace mixerbench::reports {

// The mixer of a cell's name, as MixerStyle::key.
std::string MixerKey(const std::string& cell_name);

// The mixers of a page, each once. Those whose labels would be alike, in all but case, spaces and
// hyphens, get their options in it, and "Python" where some are and some are not.
class MixerList {
 public:
  explicit MixerList(const std::vector<const SweepReport*>& reports);
  // Of cells by name, each with its resolved "model"; null where that is not known.
  explicit MixerList(const std::map<std::string, Value>& models);
  int IndexOf(const std::string& key) const { return index_.at(key); }
  const std::vector<MixerStyle>& styles() const { return styles_; }

 private:
  void Add(const std::string& cell_name, const Value& model);
  void TellAlikeApart();

  std::map<std::string, int> index_;
  std::vector<MixerStyle> styles_;
  std::set<std::string> in_python_;  // by key
};

// What a mixer is called on the page.
std::string LabelOf(const MixerList& mixers, int mixer);

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

// The test segments, or the train ones, of a config.
std::vector<Object> SegmentsOf(const Value& config, const char* split);

// The row of a whole segment of `study.segments`, or nullptr.
const AccuracyOverSeeds* RowAt(const Study& study, const GroupSummary& group, std::size_t segment);

// Whether a segment goes beyond what was trained, by the first mixer that has its row.
bool IsExtrapolated(const Study& study, std::size_t setting, std::size_t segment);

// Parts of names that tell timings apart: keys with several values for one mixer, without those
// that a timing says itself (length, batch, type).
std::set<std::string> TimingKeys(const SweepReport& report);

// The parts of a group's name whose keys are in `keys`: "d 64, lr 1e-3".
std::string PartsText(const GroupSummary& group, const std::set<std::string>& keys);

// Keys of names with several values for one mixer, "it has none" being one.
std::set<std::string> VaryingKeys(const SweepReport& report);

// "64 tokens", "4 pairs", "d 64", "lr 1e-3", "noise zero".
std::string PartText(const std::string& key, const std::string& value);

// "d_model=64,lr=0.003" of a cell's name, by key.
std::map<std::string, std::string> PartsOf(const std::string& cell_name);
std::map<std::string, std::string> PartsOf(const GroupSummary& group);

// The parts of an axis' value: "64 tokens, 4 pairs".
std::string AxisText(const SettingAxis& axis, std::size_t value, const char* between = ", ");

// "64 tokens, 4 pairs" of a segment.
std::string SegmentText(const Object& axes, const char* between = ", ");

// The value of a chosen key, "lr 1e-2", joined; empty when nothing was chosen.
std::string ChosenText(const Study& study, const GroupSummary& group);

// What a group's setting is, whatever its mixer: equal for groups that differ in nothing but the
// mixer, its positions (attention learns them where recurrences need none) and what
// `sweep.select` chooses among.
std::string SettingKey(const SweepReport& report, const GroupSummary& group);

// Whether a key is a size of the task or of the model: "input_seq_len", "d_model".
bool IsSizeKey(const std::string& key);

// The order of keys in heads and titles: sizes, the rate, others by name.
bool KeyLess(const std::string& a, const std::string& b);

// Numbers as numbers, before texts.
bool ValueLess(const std::string& a, const std::string& b);

// A member at a dotted path of a config, as text; empty when it is not there.
std::string ConfigText(const Value& config, const std::string& path);

}  // namespace mixerbench::reports
