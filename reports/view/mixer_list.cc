// SPDX-License-Identifier: Apache-2.0
#include "reports/view/mixer_list.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/mixer_style.h"

namespace mixerbench::reports {
namespace {

// The options of "attention,dropout=0.1,num_heads=1".
std::set<std::string> OptionsOf(const std::string& key) {
  std::set<std::string> options;
  std::istringstream text(key);
  for (std::string part; std::getline(text, part, ',');) options.insert(part);
  return options;
}

// The same, but where the mixer is written instead of its name.
std::set<std::string> OptionsOf(const std::string& key, bool is_in_python) {
  std::set<std::string> options = OptionsOf(key);
  options.erase(key.substr(0, key.find(',')));
  if (is_in_python) options.insert("Python");
  return options;
}

// Appends to each of these labels, which are alike, what its mixer has and another lacks.
void TellApart(const std::vector<MixerStyle*>& alike, const std::set<std::string>& in_python) {
  const auto num_in_python =
      std::count_if(alike.begin(), alike.end(),
                    [&](const MixerStyle* style) { return in_python.contains(style->key); });
  const bool is_mixed = num_in_python > 0 && num_in_python < std::ssize(alike);
  const auto options_of = [&](const MixerStyle& style) {
    return is_mixed ? OptionsOf(style.key, in_python.contains(style.key)) : OptionsOf(style.key);
  };
  std::map<std::string, std::size_t> count;
  for (const MixerStyle* style : alike) {
    for (const std::string& option : options_of(*style)) ++count[option];
  }
  for (MixerStyle* style : alike) {
    std::string own;
    for (const std::string& option : options_of(*style)) {
      if (count[option] < alike.size()) own += (own.empty() ? "" : ", ") + option;
    }
    if (!own.empty()) style->label += " (" + own + ")";
  }
}

// "Simple GLA" and "SimpleGla" look alike.
std::string LookOf(const std::string& label) {
  std::string look;
  for (const char c : label) {
    if (c != ' ' && c != '-') look += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return look;
}

}  // namespace

std::string LabelOf(const MixerList& mixers, int mixer) {
  return mixers.styles()[static_cast<std::size_t>(mixer)].label;
}

MixerList::MixerList(const std::vector<const SweepReport*>& reports) {
  static const Value kNoModel;
  for (const SweepReport* report : reports) {
    for (const CellResult& cell : report->cells) {
      const Value* model = cell.config.Find("model");
      Add(cell.name, model ? *model : kNoModel);
    }
  }
  TellAlikeApart();
}

MixerList::MixerList(const std::map<std::string, Value>& models) {
  for (const auto& [name, model] : models) Add(name, model);
  TellAlikeApart();
}

void MixerList::Add(const std::string& cell_name, const Value& model) {
  const std::string key = MixerKey(cell_name);
  if (!index_.try_emplace(key, static_cast<int>(styles_.size())).second) return;
  styles_.push_back(StyleOf(key, model));
  if (ConfigText(model, "sequence_mixer.name") == "python") in_python_.insert(key);
}

void MixerList::TellAlikeApart() {
  std::map<std::string, std::vector<MixerStyle*>> by_look;
  for (MixerStyle& style : styles_) by_look[LookOf(style.label)].push_back(&style);
  for (const auto& [look, alike] : by_look) {
    if (alike.size() > 1) TellApart(alike, in_python_);
  }
}

}  // namespace mixerbench::reports
