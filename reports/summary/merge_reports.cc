// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/merge_reports.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace mixerbench::reports {
namespace {

void AddOnce(Array& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

// The suites of a report: one, or those of a plan that merged several.
void AddSuites(Array& suites, const Value& config) {
  const Value* merged = config.Find("merged");
  if (merged == nullptr || !merged->is_array()) return AddOnce(suites, config);
  for (const Value& suite : merged->as_array()) AddOnce(suites, suite);
}

}  // namespace

SweepReport MergeReports(std::vector<SweepReport> reports) {
  if (reports.empty()) throw std::logic_error("MergeReports: no report");
  if (reports.size() == 1) return std::move(reports.front());
  Array suites, names;
  std::vector<CellResult> cells;
  std::map<std::string, std::size_t> places;  // in `cells`, by run id
  std::vector<LeftOut> left_out;
  for (SweepReport& report : reports) {
    AddSuites(suites, report.config);
    AddOnce(names, report.name);
    for (CellResult& cell : report.cells) {
      const auto [known, is_new] = places.try_emplace(cell.run_id, cells.size());
      if (is_new) {
        cells.push_back(std::move(cell));
      } else if (IsMissing(cells[known->second]) && !IsMissing(cell)) {
        cells[known->second] = std::move(cell);
      }
    }
    std::move(report.left_out.begin(), report.left_out.end(), std::back_inserter(left_out));
  }
  std::string name;
  for (const Value& part : names) name += (name.empty() ? "" : " + ") + part.as_string();
  Value config = suites.size() == 1 ? suites.front() : Value(Object{{"merged", suites}});
  SweepReport merged = MakeSweepReport(std::move(name), std::move(config), std::move(cells));
  merged.left_out = std::move(left_out);
  return merged;
}

}  // namespace mixerbench::reports
