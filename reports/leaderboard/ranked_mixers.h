// Which mixers of several reports are one: those of one name and the same options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"

namespace mixerbench::reports {

// Options tell mixers of one name apart where two reports, or one at the same setting, give them
// different values; then they are part of key and label: "GLA (num_heads=2)". Not those among whose
// values a suite chose, nor those that a report itself has otherwise from setting to setting, as
// heads that go with a width: that is one mixer at several sizes. An option that a config of an
// older version does not have says nothing.
class RankedMixers {
 public:
  explicit RankedMixers(const std::vector<const SweepReport*>& reports);
  int IndexOf(const CellResult& cell) const { return list_.IndexOf(KeyOf(cell)); }
  int IndexOf(const SweepReport& report, const GroupSummary& group) const {
    return IndexOf(report.cells[group.first_cell]);
  }
  const std::vector<MixerStyle>& styles() const { return list_.styles(); }

 private:
  std::string KeyOf(const CellResult& cell) const;
  MixerList ListOf(const std::vector<const SweepReport*>& reports) const;

  std::map<std::string, std::set<std::string>> telling_;  // options, by MixerKey
  MixerList list_;
};

}  // namespace mixerbench::reports
