// SPDX-License-Identifier: Apache-2.0
#include "reports/export/accuracy_csv.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "io/text.h"
#include "reports/export/csv_fields.h"

namespace mixerbench::reports {
namespace {

// The guess with the highest accuracy, the first of equals; nothing when no guess is known.
std::optional<Guess> StrongestGuess(const std::vector<Guess>& guesses) {
  if (guesses.empty()) return std::nullopt;
  return *std::max_element(guesses.begin(), guesses.end(),
                           [](const Guess& a, const Guess& b) { return a.accuracy < b.accuracy; });
}

std::vector<std::string> CellFields(const GroupSummary& group, const CellResult& cell) {
  const CellName name = SplitCellName(cell.name);
  return {io::CsvField(name.task),
          io::CsvField(name.mixer),
          io::CsvField(name.variant),
          io::CsvField(cell.kind),
          std::to_string(cell.seed),
          std::string(NameOf(cell.state)),
          io::CsvField(cell.reason),
          io::CsvField(cell.run_id),
          Truth(cell.partial),
          group.selection ? Truth(group.selection->selected) : "",
          group.phase == CellPhase::kNone ? "" : std::string(NameOf(group.phase))};
}

std::vector<std::string> RowFields(const AccuracyRow& row) {
  const std::optional<Guess> strongest = StrongestGuess(row.guesses);
  return {io::CsvField(row.slice),
          io::CsvField(row.bucket),
          std::string(NameOf(row.state)),
          io::CsvField(row.reason),
          std::to_string(row.num_sequences),
          std::to_string(row.num_scored),
          std::to_string(row.num_correct),
          Number(row.accuracy),
          row.ci_items ? Number(row.ci_items->low) : "",
          row.ci_items ? Number(row.ci_items->high) : "",
          Number(row.accuracy_per_example),
          Number(row.accuracy_macro),
          Number(row.accuracy_macro_batched),
          Number(row.sequence_accuracy),
          Number(row.nll),
          Number(row.chance),
          strongest ? Number(strongest->accuracy) : "",
          Number(row.ceiling),
          Truth(row.extrapolated)};
}

}  // namespace

std::string RenderAccuracyCsv(const SweepReport& report) {
  std::set<std::string> axes;
  for (const CellResult& cell : report.cells) {
    for (const AccuracyRow& row : cell.accuracy) {
      for (const auto& [axis, value] : row.axes) axes.insert(axis);
    }
  }
  std::vector<std::string> header = {"task",    "mixer",      "variant",     "kind",
                                     "seed",    "cell_state", "cell_reason", "run_id",
                                     "partial", "selected",   "phase"};
  const std::vector<std::string> metrics = {"slice",
                                            "bucket",
                                            "state",
                                            "reason",
                                            "num_sequences",
                                            "num_scored",
                                            "num_correct",
                                            "accuracy",
                                            "ci_low",
                                            "ci_high",
                                            "accuracy_per_example",
                                            "accuracy_macro",
                                            "accuracy_macro_batched",
                                            "sequence_accuracy",
                                            "nll",
                                            "chance",
                                            "strongest_guess",
                                            "ceiling",
                                            "extrapolated"};
  std::vector<std::string> taken = header;
  taken.insert(taken.end(), metrics.begin(), metrics.end());
  const std::vector<std::string> columns = AxisColumns(axes, taken);
  header.insert(header.end(), columns.begin(), columns.end());
  header.insert(header.end(), metrics.begin(), metrics.end());

  std::string out = Line(header);
  for (const GroupSummary& group : report.groups) {
    for (const CellResult& cell : CellsOf(report, group)) {
      const std::vector<std::string> about_cell = CellFields(group, cell);
      if (cell.accuracy.empty()) {
        std::vector<std::string> fields = about_cell;
        fields.resize(header.size());
        out += Line(fields);
      }
      for (const AccuracyRow& row : cell.accuracy) {
        std::vector<std::string> fields = about_cell;
        for (const std::string& axis : axes) fields.push_back(Member(row.axes, axis));
        const std::vector<std::string> scores = RowFields(row);
        fields.insert(fields.end(), scores.begin(), scores.end());
        out += Line(fields);
      }
    }
  }
  return out;
}

}  // namespace mixerbench::reports
