// SPDX-License-Identifier: Apache-2.0
#include "reports/view/beside.h"

#include <algorithm>
#include <fmt/format.h>

#include "reports/view/correspondence.h"
#include "reports/view/counted.h"
#include "reports/view/datums.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

constexpr char kNoDifference[] = "none";
constexpr std::size_t kPublishedAt = 3, kDifferencesAt = 5;  // in the columns of PublishedTable

// The columns of PublishedTable, of one result beside `ours`.
std::vector<Datum> CellsOf(const PublishedResult& result, const std::string& label,
                           const Datum& ours, const std::string& differences) {
  const auto share = PublishedShare(result);
  Datum theirs;
  theirs.value = share;
  theirs.text = share ? Percent(share, 1) : "not given";
  Datum gap;
  if (share && ours.value) {
    gap.value = *ours.value - *share;
    gap.text = SignedPercent(*gap.value);
    const bool is_inside = ours.low && *ours.low <= *share && *share <= *ours.high;
    gap.sub = !differences.empty() ? "not judged"
              : !ours.low          ? "no interval"
              : is_inside          ? "inside our interval"
                                   : "outside our interval";
  }
  Datum source = TextDatum(result.source + ", " + result.table);
  source.note = result.note;
  return {TextDatum(label, result.mixer == label ? "" : result.mixer),
          TextDatum(SettingText(result), CountedText(HowCounted(result))),
          ours,
          theirs,
          gap,
          TextDatum(differences.empty() ? kNoDifference : differences),
          source};
}

}  // namespace

void FoldIfLong(Table& table, std::string_view what) {
  constexpr std::size_t kMaxUnfolded = 30;
  if (table.num_rows() <= kMaxUnfolded) return;
  table.is_long = true;
  table.summary = fmt::format("{} {} beside ours", table.num_rows(), what);
}

void RemarkOnSources(Table& table) {
  for (const Row& row : table.rows) {
    const Datum& source = row.cells.back();
    if (source.note.empty()) continue;
    std::string remark = source.text + ": " + source.note;
    if (std::find(table.remarks.begin(), table.remarks.end(), remark) == table.remarks.end()) {
      table.remarks.push_back(std::move(remark));
    }
  }
}

std::optional<Table> PublishedTable(const Study& study, const MixerList& mixers) {
  Table table{.key = "",
              .title = "Beside published numbers.",
              .note =
                  "Published values are quoted, never mixed into ours, which are counted as the "
                  "paper counts. A difference is judged only where no stated setting differs; "
                  "what a paper does not state may differ all the same."};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Setting", .kind = Column::Kind::kText},
                   {.label = "Ours, %", .is_down_first = true},
                   {.label = "Published, %", .is_down_first = true},
                   {.label = "Difference, points", .is_down_first = true},
                   {.label = "Settings that differ", .kind = Column::Kind::kText, .wraps = true},
                   {.label = "Source", .kind = Column::Kind::kText, .wraps = true}};
  const std::int64_t num_rates = NumRates(study);
  for (const int mixer : study.mixers) {
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      const GroupSummary* group = study.Shown(mixer, s);
      if (!group) continue;
      const CellResult& cell = study.report->cells[group->first_cell];
      for (std::size_t g = 0; g < study.segments.size(); ++g) {
        const AccuracyOverSeeds* row = RowAt(study, *group, g);
        if (!row || !row->mean) continue;
        for (const PublishedResult& result : PublishedResults()) {
          const bool is_accuracy = result.metric.find("accuracy") != std::string::npos;
          if (!is_accuracy || !Corresponds(result, cell.config, row->axes)) continue;
          table.Add(
              {.mixer = mixer,
               .cells = CellsOf(result, mixers.styles()[static_cast<std::size_t>(mixer)].label,
                                CountedDatum(study, *group, g, HowCounted(result)),
                                Differences(result, cell.config, row->axes,
                                            cell.model.num_parameters, num_rates))});
        }
      }
    }
  }
  if (table.rows.empty()) return std::nullopt;
  FoldIfLong(table, "published numbers");
  RemarkOnSources(table);
  return table;
}

std::optional<Sentence> PublishedCare(const std::vector<std::optional<Table>>& tables) {
  std::int64_t num_all = 0, num_differing = 0;
  for (const auto& table : tables) {
    if (!table) continue;
    for (const Row& row : table->rows) {
      if (!row.cells[kPublishedAt].value) continue;
      ++num_all;
      num_differing += row.cells[kDifferencesAt].text != kNoDifference;
    }
  }
  if (num_differing == 0) return std::nullopt;
  return Sentence{"Settings differ from the papers:",
                  fmt::format("for {} of {} published numbers beside ours; each row says which.",
                              num_differing, num_all)};
}

}  // namespace mixerbench::reports
