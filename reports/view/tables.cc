// Accuracy and models; what stands at the end of a report is in appendix.cc.
// SPDX-License-Identifier: Apache-2.0
#include "reports/view/tables.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>

#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/marks.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

// Where one setting has more columns than kMaxColumns, each of its tables has at most so many
// segments: with steps, length and facts beside them they fit on a sheet of paper.
constexpr std::size_t kMaxSegments = 10;

struct AccuracyColumn {
  std::size_t setting = 0;
  std::size_t segment = 0;
  Column column;
};

// "64 tokens" with "4 pairs" small under it.
void SplitLabel(const std::string& text, Column& column) {
  const std::size_t comma = text.find(", ");
  column.label = text.substr(0, comma);
  if (comma != text.npos) column.unit = text.substr(comma + 2);
}

bool HasRow(const Study& study, std::size_t setting, std::size_t segment) {
  return std::any_of(study.mixers.begin(), study.mixers.end(), [&](int mixer) {
    const GroupSummary* group = study.Shown(mixer, setting);
    return group && RowAt(study, *group, segment);
  });
}

std::string Rest(const Study& study, const Setting& setting, std::size_t first_axis) {
  std::string text;
  for (std::size_t i = first_axis; i < study.axes.size(); ++i) {
    text += (text.empty() ? "" : ", ") +
            AxisText(study.axes[i], static_cast<std::size_t>(setting.at[i]));
  }
  return text;
}

// The head of a column about one setting: the first axis groups columns when there are others.
Column SettingColumn(const Study& study, std::size_t index, const std::string& quantity) {
  const Setting& setting = study.settings[index];
  Column column{.label = "", .kind = Column::Kind::kNumber, .group = quantity};
  if (study.axes.empty()) {
    column.label = quantity;
    column.group.clear();
  } else if (study.axes.size() == 1) {
    SplitLabel(setting.text, column);
  } else {
    column.group =
        quantity + ": " + AxisText(study.axes[0], static_cast<std::size_t>(setting.at[0]));
    column.label = Rest(study, setting, 1);
  }
  return column;
}

std::vector<AccuracyColumn> ColumnsOf(const Study& study, const std::vector<std::size_t>& settings,
                                      const std::vector<std::size_t>& segments) {
  std::vector<AccuracyColumn> columns;
  const bool has_segments = study.segments.size() > 1;
  for (const std::size_t setting : settings) {
    for (const std::size_t segment : segments) {
      if (has_segments && !HasRow(study, setting, segment)) continue;
      const bool is_beyond = IsExtrapolated(study, setting, segment);
      const std::string quantity = is_beyond ? "Longer than trained, %" : "Accuracy, %";
      AccuracyColumn item{setting, segment, SettingColumn(study, setting, quantity)};
      if (has_segments) {
        SplitLabel(SegmentText(study.segments[segment]), item.column);
        const std::string& text = study.settings[setting].text;
        item.column.group = quantity + (text.empty() || settings.size() == 1 ? "" : ": " + text);
      }
      item.column.is_down_first = true;
      columns.push_back(std::move(item));
    }
  }
  return columns;
}

std::string ThresholdText(const Study& study) {
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      for (const CellResult& run : CellsOf(*study.report, *group)) {
        if (run.threshold > 0) return GuessPercent(run.threshold) + " %";
      }
    }
  }
  return "the threshold";
}

std::size_t MaxSeeds(const Study& study) {
  const std::vector<std::size_t> counts = ShownSeedCounts(study);
  return counts.empty() ? 0 : std::ranges::max(counts);
}

// Names of guesses in order, with what each scores by column.
void AddGuesses(const Study& study, const std::vector<AccuracyColumn>& columns, Table& table) {
  std::vector<std::string> names;
  std::map<std::string, std::map<std::size_t, double>> shares;
  std::map<std::size_t, double> ceilings;
  const auto add = [&](const std::string& name, std::size_t at, double share) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    shares[name][at] = share;
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const int mixer : study.mixers) {
      const GroupSummary* group = study.Shown(mixer, columns[i].setting);
      const auto* row = group ? RowAt(study, *group, columns[i].segment) : nullptr;
      if (!row) continue;
      if (row->guesses.empty()) add("chance", i, row->chance);
      for (const Guess& guess : row->guesses) add("guess: " + guess.name, i, guess.accuracy);
      if (row->ceiling) ceilings[i] = std::max(ceilings[i], *row->ceiling);
    }
  }
  const auto add_row = [&](const std::string& name, const std::map<std::size_t, double>& values) {
    Row foot{.mixer = kNoMixer, .cells = std::vector<Datum>(table.columns.size())};
    for (Datum& datum : foot.cells) datum.text.clear();
    foot.cells[0].text = name;
    for (const auto& [at, share] : values) {
      foot.cells[at + 1].text = GuessPercent(share);
      foot.cells[at + 1].value = share;
    }
    table.foot.push_back(std::move(foot));
  };
  std::reverse(names.begin(), names.end());  // the strongest beside the results
  for (const std::string& name : names) add_row(name, shares[name]);
  const bool has_ceiling = std::any_of(ceilings.begin(), ceilings.end(),
                                       [](const auto& ceiling) { return ceiling.second < 1; });
  if (has_ceiling) add_row("ceiling: what the training data tell", ceilings);
}

// What the small line of an accuracy is, by the seeds that rows have.
std::string SpreadNote(std::size_t fewest, std::size_t most) {
  if (most <= 1) return "Small: 95 % interval over test items";
  if (fewest >= kSeedsForInterval) return "Mean over seeds. Small: its 95 % interval over seeds";
  std::string note = "Mean over seeds. Small: ";
  if (most >= kSeedsForInterval) note += "its 95 % interval over seeds or ";
  note += "the single seeds; fewer than five give no interval";
  if (fewest == 1) note += "; of one seed, 95 % interval over test items";
  return note;
}

std::string AccuracyNote(const Study& study) {
  const std::size_t most = MaxSeeds(study);
  const std::size_t fewest = most == 0 ? 0 : std::ranges::min(ShownSeedCounts(study));
  std::string note = SpreadNote(fewest, most);
  if (!study.chosen_keys.empty()) note += "; the chosen setting";
  if (most >= kSeedsForInterval) {
    note += fmt::format(
        ". Bold: the fewest steps, and the highest accuracy with all that the seeds do not tell "
        "apart from it (permutation test, p ≥ {:.2f}, each against the highest alone)",
        kNotTold);
    if (fewest < kSeedsForInterval) {
      note += "; where one of the two has fewer than five seeds, nothing is tested";
    }
  } else if (most > 1) {
    note +=
        ". Bold: the highest accuracy and the fewest steps, which so few seeds do not tell apart "
        "from others";
  } else {
    note +=
        ". Bold: the fewest steps, and the highest accuracy with all whose intervals overlap with "
        "its own";
  }
  if (const double stop = EarlyStop(study); stop > 0) {
    note += fmt::format("; {} % and more count as equal, because training stops there",
                        GuessPercent(stop));
  }
  note += ". Last rows: what a guesser reaches.";
  for (const auto& [place, cell] : study.cells) {
    if (!cell.shown) continue;
    for (const AccuracyOverSeeds& row : cell.shown->accuracy) {
      if (AnyImputed(row)) return note + " † A failed seed counts as chance; never bold.";
    }
  }
  return note;
}

// Of a mixer, with what it has of its own; or of a setting of the only one.
Row NameRow(const Study& study, const MixerList& mixers, int mixer, const std::string& text) {
  const auto own = study.own_texts.find(mixer);
  const std::string sub = own == study.own_texts.end() ? "" : own->second;
  return {.mixer = mixer,
          .cells = {text.empty() ? TextDatum(LabelOf(mixers, mixer), sub) : TextDatum(text)}};
}

bool HasSteps(const Study& study) {
  return std::any_of(study.cells.begin(), study.cells.end(), [](const auto& item) {
    return item.second.shown && item.second.shown->steps_to_threshold;
  });
}

// A column added to all rows at once.
void AddColumn(Table& table, Column column, const std::function<Datum(std::size_t)>& datum_of) {
  table.columns.push_back(std::move(column));
  for (std::size_t i = 0; i < table.rows.size(); ++i) table.rows[i].cells.push_back(datum_of(i));
}

std::vector<std::size_t> UpTo(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

// What a table of accuracies has.
struct Extent {
  std::vector<std::size_t> settings;
  std::vector<std::size_t> segments;
  bool settings_in_rows = false;  // each row is a setting of the only mixer
  bool has_rest = true;           // columns of solved seeds, steps, length and facts, and the note
};

Table AccuracyTable(const Study& study, const MixerList& mixers, const Extent& extent) {
  const auto& [settings, segments, settings_in_rows, has_rest] = extent;
  Table table{.key = "", .title = "Accuracy and speed of learning.", .note = AccuracyNote(study)};
  table.columns.push_back({.label = "Mixer", .kind = Column::Kind::kText});
  std::vector<std::pair<int, std::size_t>> rows;
  if (settings_in_rows) {
    table.columns[0].label = LabelOf(mixers, study.mixers[0]);
    for (const std::size_t setting : settings) rows.emplace_back(study.mixers[0], setting);
  } else {
    for (const int mixer : study.mixers) rows.emplace_back(mixer, 0);
  }
  for (const auto& [mixer, setting] : rows) {
    table.rows.push_back(
        NameRow(study, mixers, mixer, settings_in_rows ? study.settings[setting].text : ""));
  }
  const auto shown = [&](std::size_t row, std::size_t setting) {
    return study.Shown(rows[row].first, settings_in_rows ? rows[row].second : setting);
  };
  const std::vector<std::size_t> head =
      settings_in_rows ? std::vector<std::size_t>{settings.front()} : settings;
  auto columns = ColumnsOf(study, head, segments);
  if (settings_in_rows && study.segments.size() <= 1) {
    columns.front().column = {.label = "Accuracy, %", .is_down_first = true};
  }
  const double stop = EarlyStop(study);  // over all cells: once
  for (const AccuracyColumn& item : columns) {
    AddColumn(table, item.column, [&](std::size_t row) {
      return AccuracyDatum(study, shown(row, item.setting), item.segment);
    });
    MarkHighest(table, table.columns.size() - 1, stop > 0 ? std::optional(stop) : std::nullopt);
  }
  const auto add_each = [&](const std::string& quantity, bool is_down,
                            const std::function<Datum(const GroupSummary*)>& datum_of) {
    for (const std::size_t setting : head) {
      Column column =
          settings_in_rows ? Column{.label = quantity} : SettingColumn(study, setting, quantity);
      column.is_down_first = is_down;
      AddColumn(table, column, [&](std::size_t row) { return datum_of(shown(row, setting)); });
    }
  };
  if (has_rest && HasSteps(study)) {
    const std::string solved_at = ThresholdText(study);
    if (MaxSeeds(study) > 1) add_each("Solved seeds", true, SolvedDatum);
    const std::size_t first = table.columns.size();
    add_each("Steps to " + solved_at, false,
             [&](const GroupSummary* group) { return StepsDatum(study, group); });
    for (std::size_t i = first; i < table.columns.size(); ++i) MarkLowest(table, i);
  }
  if (has_rest && head.size() == 1) {
    const std::size_t at = head.front();
    if (study.segments.size() > 1) {
      AddColumn(table, {.label = "Effective length", .unit = "tokens", .is_down_first = true},
                [&](std::size_t row) { return LengthDatum(shown(row, at)); });
    }
    AddColumn(table, {.label = "Parameters"},
              [&](std::size_t row) { return ParamsDatum(study, shown(row, at)); });
    AddColumn(table, {.label = "State", .unit = "per sequence"},
              [&](std::size_t row) { return StateSizeDatum(study, shown(row, at)); });
  }
  if (!settings_in_rows || study.segments.size() > 1) AddGuesses(study, columns, table);
  return table;
}

// The tables of one setting: a second and a third where it has more segments than paper has room
// for.
std::vector<Table> TablesOfSetting(const Study& study, const MixerList& mixers,
                                   std::size_t setting) {
  std::vector<std::size_t> segments;
  for (const std::size_t segment : UpTo(study.segments.size())) {
    if (HasRow(study, setting, segment)) segments.push_back(segment);
  }
  const std::string at = study.settings[setting].text;
  const std::string where = at.empty() ? "" : ": " + at;
  if (segments.size() <= kMaxColumns) {
    std::vector<Table> tables = {AccuracyTable(study, mixers, {{setting}, segments})};
    tables.back().title = "Accuracy and speed of learning" + where + ".";
    return tables;
  }
  const std::size_t num_tables = (segments.size() + kMaxSegments - 1) / kMaxSegments;
  std::vector<Table> tables;
  for (std::size_t i = 0; i < num_tables; ++i) {
    const auto begin = static_cast<std::ptrdiff_t>(i * segments.size() / num_tables);
    const auto end = static_cast<std::ptrdiff_t>((i + 1) * segments.size() / num_tables);
    const std::vector<std::size_t> some(segments.begin() + begin, segments.begin() + end);
    tables.push_back(AccuracyTable(study, mixers, {{setting}, some, false, /*has_rest=*/i == 0}));
    Table& table = tables.back();
    table.title =
        fmt::format("{}{}{}{} to {}.", i == 0 ? "Accuracy and speed of learning" : "Accuracy",
                    where, where.empty() ? ": " : ", ", SegmentText(study.segments[some.front()]),
                    SegmentText(study.segments[some.back()]));
    if (i > 0) table.note = "Small lines, bold and last rows are as in the table before.";
  }
  return tables;
}

}  // namespace

std::vector<Table> AccuracyTables(const Study& study, const MixerList& mixers) {
  const std::vector<std::size_t> all = UpTo(study.settings.size());
  const std::size_t num_segments = study.segments.size();
  const std::vector<std::size_t> segments = UpTo(num_segments);
  if (study.mixers.size() == 1 && all.size() > 1 && all.size() * num_segments > 4) {
    return {AccuracyTable(study, mixers, {all, segments, true})};
  }
  if (all.size() * num_segments <= kMaxColumns) {
    return {AccuracyTable(study, mixers, {all, segments})};
  }
  if (study.axes.empty()) return TablesOfSetting(study, mixers, 0);
  // One table for each value of the first axis, or for each setting where that is still too wide.
  std::map<int, std::vector<std::size_t>> by_first;
  for (const std::size_t i : all) by_first[study.settings[i].at.front()].push_back(i);
  std::vector<Table> tables;
  for (const auto& [value, settings] : by_first) {
    if (settings.size() * num_segments <= kMaxColumns) {
      tables.push_back(AccuracyTable(study, mixers, {settings, segments}));
      tables.back().title = "Accuracy and speed of learning: " +
                            AxisText(study.axes[0], static_cast<std::size_t>(value)) + ".";
      continue;
    }
    for (const std::size_t setting : settings) {
      std::ranges::move(TablesOfSetting(study, mixers, setting), std::back_inserter(tables));
    }
  }
  return tables;
}

std::optional<Table> ModelTable(const Study& study, const MixerList& mixers) {
  if (study.settings.size() < 2 || study.settings.size() > kMaxColumns) return std::nullopt;
  if (study.mixers.size() == 1) return std::nullopt;
  Table table{.key = "",
              .title = "Models.",
              .note =
                  "State: bytes of what one sequence carries "
                  "from token to token, measured."};
  table.columns.push_back({.label = "Mixer", .kind = Column::Kind::kText});
  for (const int mixer : study.mixers) table.rows.push_back(NameRow(study, mixers, mixer, ""));
  const auto add = [&](const std::string& quantity,
                       Datum (*datum_of)(const Study&, const GroupSummary*)) {
    std::vector<std::vector<std::string>> known;  // columns that say the same are said once
    for (std::size_t i = 0; i < study.settings.size(); ++i) {
      std::vector<Datum> data;
      std::vector<std::string> texts;
      for (const int mixer : study.mixers) {
        data.push_back(datum_of(study, study.Shown(mixer, i)));
        texts.push_back(data.back().text);
      }
      const bool says_nothing =
          std::all_of(texts.begin(), texts.end(), [](const std::string& t) { return t == kNone; });
      if (says_nothing || std::find(known.begin(), known.end(), texts) != known.end()) continue;
      known.push_back(texts);
      AddColumn(table, SettingColumn(study, i, quantity),
                [&](std::size_t row) { return data[row]; });
    }
  };
  add("Parameters", ParamsDatum);
  add("State", StateSizeDatum);
  if (table.columns.size() == 1) return std::nullopt;
  return table;
}

}  // namespace mixerbench::reports
