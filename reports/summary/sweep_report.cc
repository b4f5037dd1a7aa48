// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/sweep_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <tuple>
#include <utility>

#include "base/array_of.h"
#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"
#include "io/object_reader.h"
#include "reports/result/result_json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/select.h"

namespace mixerbench::reports {
namespace {

constexpr std::string_view kEffectiveLengthRule =
    "median over seeds of the largest input_seq_len where the lower ci_items bound >= 0.9 at every "
    "tested length <= it";

bool Ran(CellState state) { return state == CellState::kCompleted || IsFailure(state); }

// Of a cell that scores the weights of another, which is its rows: what one lacks, and the cell
// with it, takes nothing from the others.
bool OnlyScores(const CellResult& cell) { return cell.kind == "evaluate"; }

bool HasScoredSome(const CellResult& cell) {
  return OnlyScores(cell) && std::any_of(cell.accuracy.begin(), cell.accuracy.end(),
                                         [](const AccuracyRow& row) { return Ran(row.state); });
}

using Cells = std::vector<const CellResult*>;

// What tells segments apart. Canonical text orders integers of different lengths badly, so axes are
// compared as values first.
struct SegmentKey {
  std::vector<std::pair<std::string, double>> numbers;
  std::string text;
  auto operator<=>(const SegmentKey&) const = default;
};

SegmentKey KeyOf(const AccuracyRow& row) {
  SegmentKey key;
  key.numbers.emplace_back("", row.slice.empty() ? 0 : 1);  // whole segments first
  for (const auto& [axis, value] : row.axes) {
    if (value.is_number()) key.numbers.emplace_back(axis, value.as_double());
  }
  key.text = row.slice + "\n" + io::DumpJson(row.axes);
  return key;
}

// Buckets keep the order in which a task lists them: "0-15", "16-63", ...
struct Segment {
  SegmentKey key;
  std::string bucket;
  const AccuracyRow* example;
};

std::vector<Segment> Segments(const Cells& cells) {
  std::vector<Segment> segments;
  for (const CellResult* cell : cells) {
    for (const AccuracyRow& row : cell->accuracy) {
      Segment segment{KeyOf(row), row.bucket, &row};
      const bool known = std::any_of(segments.begin(), segments.end(), [&](const Segment& s) {
        return s.bucket == segment.bucket && s.key == segment.key;
      });
      if (!known) segments.push_back(std::move(segment));
    }
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment& a, const Segment& b) { return a.key < b.key; });
  return segments;
}

const AccuracyRow* FindRow(const CellResult& cell, const Segment& segment) {
  for (const AccuracyRow& row : cell.accuracy) {
    if (row.bucket == segment.bucket && row.slice == segment.example->slice &&
        row.axes == segment.example->axes) {
      return &row;
    }
  }
  return nullptr;
}

AccuracyOverSeeds Summarise(const Segment& segment, const Cells& cells) {
  AccuracyOverSeeds summary;
  summary.axes = segment.example->axes;
  summary.slice = segment.example->slice;
  summary.bucket = segment.bucket;
  summary.chance = segment.example->chance;
  summary.guesses = segment.example->guesses;
  summary.extrapolated = segment.example->extrapolated;
  std::vector<double> values;
  for (const CellResult* cell : cells) {
    const AccuracyRow* row = FindRow(*cell, segment);
    if (row != nullptr) summary.ceiling = std::max(summary.ceiling, row->ceiling);
    const bool is_by_row = row != nullptr && (OnlyScores(*cell) || !IsFailure(cell->state));
    const CellState state = is_by_row ? row->state : cell->state;
    const bool has_value = is_by_row && row->state == CellState::kCompleted &&
                           (OnlyScores(*cell) || cell->state == CellState::kCompleted) &&
                           row->accuracy.has_value();
    const bool failed = IsFailure(state);
    if (state != CellState::kCompleted && summary.state == CellState::kCompleted) {
      summary.state = state;
      summary.reason = is_by_row ? row->reason : cell->reason;
    }
    summary.imputed.push_back(!has_value && failed);
    if (has_value) {
      summary.per_seed.emplace_back(*row->accuracy);
      if (cells.size() == 1) summary.ci_items = row->ci_items;
    } else if (failed) {
      summary.per_seed.emplace_back(summary.chance);
    } else {
      summary.per_seed.emplace_back(std::nullopt);
      continue;
    }
    values.push_back(*summary.per_seed.back());
  }
  if (values.empty()) return summary;
  summary.mean = Mean(values);
  summary.median = Median(values);
  summary.min = *std::min_element(values.begin(), values.end());
  summary.max = *std::max_element(values.begin(), values.end());
  if (values.size() > 1) summary.std = StandardDeviation(values);
  summary.ci_seeds = SeedInterval(values);
  return summary;
}

StepsOverSeeds SummariseSteps(const Cells& cells) {
  StepsOverSeeds steps;
  std::vector<double> ranked;
  for (const CellResult* cell : cells) {
    const bool solved = Solved(*cell).value_or(false);
    steps.per_seed.push_back(solved ? cell->steps_to_threshold : std::nullopt);
    ranked.push_back(solved ? static_cast<double>(*cell->steps_to_threshold)
                            : std::numeric_limits<double>::infinity());
    if (!solved) ++steps.num_censored;
  }
  std::sort(ranked.begin(), ranked.end());
  const double lower = ranked[(ranked.size() - 1) / 2];
  const double upper = ranked[ranked.size() / 2];
  if (upper < std::numeric_limits<double>::infinity()) steps.median = (lower + upper) / 2;
  return steps;
}

// Whether accuracy is at least EffectiveLength::kBound for certain. The intervals of older
// versions, "cluster-robust", promise more than they hold near 1.
bool Holds(const AccuracyRow& row) {
  return row.state == CellState::kCompleted && row.ci_items &&
         row.ci_items->method != "cluster-robust" && row.ci_items->low >= EffectiveLength::kBound;
}

// Whether accuracy holds at every segment of a length, by length; of whole segments that have one.
std::map<std::int64_t, bool> HoldsByLength(const CellResult& cell) {
  std::map<std::int64_t, bool> holds;
  for (const AccuracyRow& row : cell.accuracy) {
    const auto length = row.axes.find("input_seq_len");
    if (!row.slice.empty() || length == row.axes.end() || !length->second.is_int()) continue;
    bool& all = holds.try_emplace(length->second.as_int(), true).first->second;
    all = all && Holds(row);
  }
  return holds;
}

std::optional<EffectiveLength> FindEffectiveLength(const Cells& cells) {
  EffectiveLength effective;
  bool has_lengths = false;
  for (const CellResult* cell : cells) {
    const std::map<std::int64_t, bool> holds = HoldsByLength(*cell);
    has_lengths = has_lengths || !holds.empty();
    auto& longest = effective.per_seed.emplace_back();
    for (const auto& [length, good] : holds) {
      if (!good || cell->state != CellState::kCompleted) break;
      longest = length;
    }
  }
  if (!has_lengths) return std::nullopt;
  auto ranked = effective.per_seed;  // nothing ranks below any length
  std::sort(ranked.begin(), ranked.end());
  effective.median = ranked[(ranked.size() - 1) / 2];
  if (!effective.median) {
    effective.reason = "the lower bound is below 0.9 at the shortest tested length";
  }
  return effective;
}

// A completed cell that scores has a row for every test segment that was asked for; one that lacks
// any says so instead of looking whole.
void RequireRows(CellResult& cell) {
  if (cell.state != CellState::kCompleted || !ScoresTests(cell)) return;
  const Value* task = cell.config.Find("task");
  const Value* test = task ? task->Find("test") : nullptr;
  if (!test || !test->is_array()) return;
  const auto num_rows = std::count_if(cell.accuracy.begin(), cell.accuracy.end(),
                                      [](const AccuracyRow& row) { return row.slice.empty(); });
  const auto num_asked = static_cast<std::ptrdiff_t>(test->as_array().size());
  if (num_rows >= num_asked) return;
  cell.state = CellState::kError;
  cell.reason = "its result has " + std::to_string(num_rows) + " of " + std::to_string(num_asked) +
                " test segments";
}

GroupSummary SummariseGroup(const Cells& cells) {
  GroupSummary group;
  group.group_id = cells.front()->group_id;
  group.name = cells.front()->name;
  group.kind = cells.front()->kind;
  group.phase = cells.front()->phase;
  Cells ran;
  for (const CellResult* cell : cells) {
    ++group.states[std::string(NameOf(cell->state))];
    group.partial = group.partial || cell->partial;
    if (!Ran(cell->state) && !HasScoredSome(*cell)) continue;
    ran.push_back(cell);
    group.seeds.push_back(cell->seed);
  }
  if (ran.empty()) return group;
  // A cell that failed before it trained may not say what it was to reach.
  const bool has_threshold = std::any_of(
      ran.begin(), ran.end(), [](const CellResult* cell) { return cell->threshold > 0; });
  if (has_threshold) {
    SolveRate rate;
    rate.num_seeds = static_cast<std::int64_t>(ran.size());
    rate.num_solved = std::count_if(ran.begin(), ran.end(), [](const CellResult* cell) {
      return Solved(*cell).value_or(false);
    });
    rate.ci = Wilson(rate.num_solved, rate.num_seeds);
    group.solve_rate = rate;
    group.steps_to_threshold = SummariseSteps(ran);
  }
  for (const Segment& segment : Segments(ran)) {
    group.accuracy.push_back(Summarise(segment, ran));
  }
  // Of all tested lengths; what is evaluated later is some of them.
  if (group.kind != "evaluate") group.effective_length = FindEffectiveLength(ran);
  return group;
}

Value RowToValue(const AccuracyOverSeeds& row) {
  Value ci = IntervalToValue(row.ci_seeds);
  if (ci.is_object()) ci.as_object()["reliable"] = true;  // older versions wrote others too
  return Object{{"axes", row.axes},
                {"slice", TextOrNull(row.slice)},
                {"bucket", TextOrNull(row.bucket)},
                {"chance", row.chance},
                {"guesses", GuessesToValue(row.guesses)},
                {"ceiling", NumberOrNull(row.ceiling)},
                {"extrapolated", row.extrapolated},
                {"per_seed", ArrayOf(row.per_seed, NumberOrNull)},
                {"imputed", Array(row.imputed.begin(), row.imputed.end())},
                {"mean", NumberOrNull(row.mean)},
                {"median", NumberOrNull(row.median)},
                {"min", NumberOrNull(row.min)},
                {"max", NumberOrNull(row.max)},
                {"std", NumberOrNull(row.std)},
                {"ci_seeds", std::move(ci)},
                {"ci_items", IntervalToValue(row.ci_items)},
                {"state", std::string(NameOf(row.state))},
                {"reason", TextOrNull(row.reason)}};
}

Array IntegersOrNull(const std::vector<std::optional<std::int64_t>>& values) {
  return ArrayOf(values, [](const auto& value) { return value ? Value(*value) : Value(); });
}

Value StepsToValue(const StepsOverSeeds& steps) {
  return Object{{"per_seed", IntegersOrNull(steps.per_seed)},
                {"median", NumberOrNull(steps.median)},
                {"num_censored", steps.num_censored}};
}

Value GroupToValue(const GroupSummary& group) {
  Object states;
  for (const auto& [state, count] : group.states) states[state] = count;
  const auto row_to_value = [](const AccuracyOverSeeds& row) { return RowToValue(row); };
  Object aggregate = {{"seeds", ArrayOf(group.seeds, SeedToValue)},
                      {"states", std::move(states)},
                      {"solve_rate", Value()},
                      {"accuracy_by_length", ArrayOf(group.accuracy, row_to_value)},
                      {"steps_to_threshold", Value()},
                      {"effective_length", Value()}};
  if (const auto& rate = group.solve_rate) {
    aggregate["solve_rate"] =
        Object{{"k", rate->num_solved}, {"n", rate->num_seeds}, {"ci", IntervalToValue(rate->ci)}};
  }
  if (const auto& steps = group.steps_to_threshold) {
    aggregate["steps_to_threshold"] = StepsToValue(*steps);
  }
  if (const auto& effective = group.effective_length) {
    aggregate["effective_length"] =
        Object{{"rule", kEffectiveLengthRule},
               {"per_seed", IntegersOrNull(effective->per_seed)},
               {"value", effective->median ? Value(*effective->median) : Value()},
               {"reason", TextOrNull(effective->reason)}};
  }
  Object value = {{"group_id", group.group_id}, {"cell", group.name},
                  {"kind", group.kind},         {"phase", PhaseToValue(group.phase)},
                  {"partial", group.partial},   {"aggregate", std::move(aggregate)}};
  if (const auto& selection = group.selection) {
    value["selection"] = Object{{"score", selection->score},
                                {"selected", selection->selected},
                                {"undecided", TextOrNull(selection->undecided)}};
  }
  return value;
}

Value LeftOutToValue(const LeftOut& result) {
  return Object{{"run_id", TextOrNull(result.run_id)},
                {"cell", result.name},
                {"seed", SeedToValue(result.seed)},
                {"reason", result.reason}};
}

LeftOut LeftOutFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  return {.run_id = reader.StringOrEmpty("run_id"),
          .name = reader.String("cell"),
          .seed = reader.Seed("seed"),
          .reason = reader.String("reason")};
}

// What stands for a cell in the checksum of a report: times of a cell do not count.
Value ContentOf(const Value& cell) {
  return io::ObjectReader(cell, "").Nested("integrity").Member("content_sha256");
}

// Of a document each of whose cells is ContentOf it, without `integrity`.
std::string ContentChecksum(Object document) {
  document.erase("integrity");
  return "sha256:" + Sha256Hex(io::DumpJson(std::move(document)));
}

// Equal but for rounding: another compiler or mathematics library may differ in the last digits.
bool AlmostEqual(const Value& a, const Value& b) {
  constexpr double kRounding = 1e-9;
  if (a.is_number() && b.is_number()) {
    const double x = a.as_double();
    const double y = b.as_double();
    return std::abs(x - y) <= kRounding * std::max({1.0, std::abs(x), std::abs(y)});
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(),
                      b.as_array().end(), AlmostEqual);
  }
  if (a.is_object() && b.is_object()) {
    return std::equal(a.as_object().begin(), a.as_object().end(), b.as_object().begin(),
                      b.as_object().end(), [](const auto& p, const auto& q) {
                        return p.first == q.first && AlmostEqual(p.second, q.second);
                      });
  }
  return a == b;
}

// Of a version of schema 1: "1.2.0" has 2.
int MinorOf(std::string_view version) {
  int minor = 0;
  const std::size_t dot = std::min(version.find('.'), version.size() - 1);
  std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return minor;
}

// Intervals over seeds and effective lengths were made by other rules before.
constexpr int kSameRulesSince = 3;

// Whether the summaries of an older file are those made again, as far as it has them.
bool Agrees(const Value& old, const Value& again, int minor) {
  const auto agrees = [&](const Value& a, const Value& b) { return Agrees(a, b, minor); };
  if (old.is_array() && again.is_array()) {
    return std::equal(old.as_array().begin(), old.as_array().end(), again.as_array().begin(),
                      again.as_array().end(), agrees);
  }
  if (!old.is_object() || !again.is_object()) return AlmostEqual(old, again);
  return std::all_of(old.as_object().begin(), old.as_object().end(), [&](const auto& member) {
    if (minor < kSameRulesSince &&
        (member.first == "ci_seeds" || member.first == "effective_length"))
      return true;
    const Value* found = again.Find(member.first);
    return found != nullptr && agrees(member.second, *found);
  });
}

}  // namespace

std::string NotCompared(std::string_view schema_version) {
  const int minor = MinorOf(schema_version);
  const std::string of_version = " of schema " + std::string(schema_version);
  if (minor > MinorOf(kSchemaVersion)) return "summaries" + of_version;
  if (minor >= kSameRulesSince) return "";
  return "intervals over seeds and effective lengths" + of_version;
}

bool AnyImputed(const AccuracyOverSeeds& row) {
  return std::find(row.imputed.begin(), row.imputed.end(), true) != row.imputed.end();
}

std::optional<Interval> SeedInterval(std::span<const double> values) {
  if (values.size() < kSeedsForInterval) return std::nullopt;
  std::vector<Score> seeds;
  for (const double value : values) seeds.push_back({value});
  return ShareInterval(seeds);
}

CellName SplitCellName(const std::string& name) {
  const std::size_t first = name.find('/');
  if (first == name.npos) return {.task = name, .mixer = "", .variant = ""};
  const std::size_t second = name.find('/', first + 1);
  if (second == name.npos) {
    return {.task = name.substr(0, first), .mixer = name.substr(first + 1), .variant = ""};
  }
  return {.task = name.substr(0, first),
          .mixer = name.substr(first + 1, second - first - 1),
          .variant = name.substr(second + 1)};
}

std::string MixerText(const Value& mixer) {
  const std::string& name = mixer.Find("name")->as_string();
  const Value* module = name == "python" ? mixer.Find("module") : nullptr;
  if (module == nullptr || !module->is_string()) return name;
  return module->as_string().substr(module->as_string().rfind(':') + 1);
}

SweepReport MakeSweepReport(std::string name, Value config, std::vector<CellResult> cells) {
  SweepReport report{.name = std::move(name),
                     .config = std::move(config),
                     .cells = std::move(cells),
                     .groups = {}};
  for (CellResult& cell : report.cells) RequireRows(cell);
  std::sort(report.cells.begin(), report.cells.end(), [](const CellResult& a, const CellResult& b) {
    return std::tie(a.name, a.kind, a.group_id, a.phase, a.seed, a.run_id) <
           std::tie(b.name, b.kind, b.group_id, b.phase, b.seed, b.run_id);
  });
  for (auto first = report.cells.begin(); first != report.cells.end();) {
    Cells group;
    auto last = first;
    for (; last != report.cells.end() && last->group_id == first->group_id &&
           last->phase == first->phase;
         ++last) {
      group.push_back(&*last);
    }
    report.groups.push_back(SummariseGroup(group));
    report.groups.back().first_cell = static_cast<std::size_t>(first - report.cells.begin());
    report.groups.back().num_cells = group.size();
    first = last;
  }
  SelectGroups(report);
  return report;
}

std::span<const CellResult> CellsOf(const SweepReport& report, const GroupSummary& group) {
  return std::span(report.cells).subspan(group.first_cell, group.num_cells);
}

const AccuracyRow* WholeSegment(const CellResult& cell, const Object& axes) {
  for (const AccuracyRow& row : cell.accuracy) {
    if (row.slice.empty() && row.axes == axes) return &row;
  }
  return nullptr;
}

std::int64_t CountUnplanned(const SweepReport& report) {
  std::int64_t count = 0;
  for (const Reseed& reseed : report.reseeds) {
    count += static_cast<std::int64_t>(reseed.unplanned.size());
  }
  return count;
}

std::int64_t CountMissing(const SweepReport& report) {
  return CountUnplanned(report) +
         std::count_if(report.cells.begin(), report.cells.end(), IsMissing);
}

Value ReseedToValue(const Reseed& reseed) {
  return Object{{"group_id", TextOrNull(reseed.group_id)},
                {"cell", reseed.name},
                {"num_settings", static_cast<std::int64_t>(reseed.num_settings)},
                {"seeds", ArrayOf(reseed.seeds, SeedToValue)},
                {"unplanned", ArrayOf(reseed.unplanned, SeedToValue)}};
}

Value SweepToValue(const SweepReport& report) {
  Array cells, contents;
  for (const CellResult& cell : report.cells) {
    cells.push_back(CellToValue(cell));
    contents.push_back(ContentOf(cells.back()));
  }
  Object document = {{"schema_version", kSchemaVersion},
                     {"kind", "sweep"},
                     {"name", report.name},
                     {"config", report.config},
                     {"cells", std::move(contents)},
                     {"groups", ArrayOf(report.groups, GroupToValue)},
                     {"reseeds", ArrayOf(report.reseeds, ReseedToValue)},
                     {"left_out", ArrayOf(report.left_out, LeftOutToValue)}};
  document["integrity"] = Object{{"content_sha256", ContentChecksum(document)}};
  document["cells"] = std::move(cells);
  return document;
}

std::string DumpSweep(const SweepReport& report) { return io::DumpJson(SweepToValue(report), 2); }

SweepReport ParseSweep(std::string_view text, const std::string& path) {
  try {
    std::vector<CellResult> cells;
    const auto take = [&](const Value& cell, std::size_t index) {
      cells.push_back(CellFromValue(cell, fmt::format("/cells/{}", index)));
      return ContentOf(cell);
    };
    const Value document = io::ParseJson(text, io::kReportLimits, {"cells", take});
    CheckDocument(document, "sweep", "");
    const io::ObjectReader reader(document, "");
    const auto is_taken = [](const Value& left, const std::string&) { return left.is_string(); };
    if (reader.List("cells", is_taken).size() != cells.size()) {
      throw Error(ExitCode::kBadInput, reader.Pointer("cells") + ": a cell is no object");
    }
    SweepReport report =
        MakeSweepReport(reader.String("name"), reader.Member("config"), std::move(cells));
    if (reader.Has("left_out")) report.left_out = reader.List("left_out", LeftOutFromValue);
    const io::ObjectReader integrity = reader.Nested("integrity");
    if (integrity.String("content_sha256") != ContentChecksum(document.as_object())) {
      throw Error(ExitCode::kBadInput,
                  integrity.Pointer("content_sha256") +
                      ": the content does not match its checksum; the file was damaged or edited, "
                      "build the report again from its cells");
    }
    // A later minor version may summarise more than this one; its cells are still read.
    const int minor = MinorOf(reader.String("schema_version"));
    if (minor <= MinorOf(kSchemaVersion)) {
      const Object again = {{"groups", ArrayOf(report.groups, GroupToValue)},
                            {"reseeds", ArrayOf(report.reseeds, ReseedToValue)}};
      for (const auto& [part, value] : again) {
        const bool is_older = minor < MinorOf(kSchemaVersion);
        if (is_older && !reader.Has(part)) continue;
        const Value& read = reader.Member(part);
        if (is_older ? Agrees(read, value, minor) : AlmostEqual(value, read)) continue;
        throw Error(ExitCode::kBadInput, reader.Pointer(part) +
                                             ": the summaries are not those of the cells; build "
                                             "the report again from its cells");
      }
    }
    return report;
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

}  // namespace mixerbench::reports
