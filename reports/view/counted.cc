// SPDX-License-Identifier: Apache-2.0
#include "reports/view/counted.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "reports/statistics/statistics.h"
#include "reports/view/datums.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

struct Counted {
  std::optional<double> share;
  std::optional<Interval> ci_items;
  std::int64_t num_items = 0;
};

// Of the whole segment `axes`.
Counted CountedIn(const CellResult& cell, const Object& axes, CountedAs counted) {
  const AccuracyRow* row = WholeSegment(cell, axes);
  if (row == nullptr) return {};
  if (counted == CountedAs::kMacro) return {row->accuracy_macro_batched, {}, row->num_scored};
  return {row->sequence_accuracy, row->ci_sequences, row->num_sequences};
}

// The cell of a seed that ran.
const CellResult& CellOf(const Study& study, const GroupSummary& group, std::uint64_t seed) {
  const auto cells = CellsOf(*study.report, group);
  return *std::find_if(cells.begin(), cells.end(),
                       [seed](const CellResult& cell) { return cell.seed == seed; });
}

}  // namespace

CountedAs HowCounted(const PublishedResult& result) {
  if (result.metric.starts_with("whole-output")) return CountedAs::kWholeOutputs;
  if (result.metric.starts_with("macro")) return CountedAs::kMacro;
  return CountedAs::kTokens;
}

const char* CountedText(CountedAs counted) {
  switch (counted) {
    case CountedAs::kTokens:
      return "";
    case CountedAs::kWholeOutputs:
      return "whole outputs";
    case CountedAs::kMacro:
      return "mean over classes";
  }
  return "";
}

Datum CountedDatum(const Study& study, const GroupSummary& group, std::size_t segment,
                   CountedAs counted) {
  if (counted == CountedAs::kTokens) return AccuracyDatum(study, &group, segment);
  const AccuracyOverSeeds* row = RowAt(study, group, segment);
  Datum datum;
  if (row == nullptr) return datum;
  std::vector<double> seeds;
  Counted last;
  for (std::size_t i = 0; i < group.seeds.size(); ++i) {
    if (!row->per_seed[i]) continue;  // not run for this seed
    if (row->imputed[i]) {
      seeds.push_back(row->chance);
      continue;
    }
    last = CountedIn(CellOf(study, group, group.seeds[i]), row->axes, counted);
    if (!last.share) return datum;
    seeds.push_back(*last.share);
  }
  if (seeds.empty()) return datum;
  const double mean = Mean(seeds);
  const bool is_coarse = last.share && last.num_items < kItemsForTwoDecimals;
  const int decimals = is_coarse ? 1 : 2;
  datum.value = mean;
  datum.is_imputed = AnyImputed(*row);
  datum.text = Percent(mean, decimals) + (datum.is_imputed ? " †" : "");
  const auto ci = seeds.size() == 1 ? last.ci_items : SeedInterval(seeds);
  if (ci) {
    datum.low = ci->low;
    datum.high = ci->high;
    datum.sub = IntervalText(*ci, mean, decimals);
  } else if (seeds.size() > 1) {
    datum.sub = SeedList({seeds.begin(), seeds.end()}, decimals);
  }
  return datum;
}

}  // namespace mixerbench::reports
