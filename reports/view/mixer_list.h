// The mixers of a page, with what they are called.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/value.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

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

}  // namespace mixerbench::reports
