// SPDX-License-Identifier: Apache-2.0
#include "reports/view/sentences.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/figure_parts.h"
#include "reports/view/numbers.h"
#include "reports/view/tables.h"

namespace mixerbench::reports {
namespace {

std::string Where(const Study& study, std::size_t setting) {
  const std::string& text = study.settings[setting].text;
  return text.empty() ? "" : " at " + text;
}

// Those behind what is shown: the fresh ones, once there are any.
std::set<std::uint64_t> ReportedSeeds(const Study& study) {
  const auto fresh = SeedsOf(study, true);
  return fresh.empty() || study.chosen_keys.empty() ? SeedsOf(study, false) : fresh;
}

void SaySolved(const Study& study, const MixerList& mixers, std::vector<Sentence>& out) {
  int solved = 0;
  int total = 0;
  std::vector<std::string> unsolved;
  std::vector<std::string> partly;
  for (const int mixer : study.mixers) {
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      const GroupSummary* group = study.Shown(mixer, s);
      if (!group || !group->solve_rate) continue;
      ++total;
      const SolveRate& rate = *group->solve_rate;
      if (rate.num_solved == rate.num_seeds) {
        ++solved;
        continue;
      }
      const std::string name = LabelOf(mixers, mixer) + Where(study, s);
      if (rate.num_solved > 0) {
        partly.push_back(fmt::format("{} ({} of {} seeds)", name, rate.num_solved, rate.num_seeds));
      } else {
        // Where it is hardest: the longest.
        const auto* row = RowAt(study, *group, study.segments.size() - 1);
        const std::string at = study.segments.size() > 1 && row ? SegmentText(row->axes) : "";
        unsolved.push_back(name + (row && row->mean ? " (" + Percent(row->mean, 1) + " %" +
                                                          (at.empty() ? "" : " at " + at) + ")"
                                                    : ""));
      }
    }
  }
  if (total == 0) return;
  Sentence say{.lead = study.title + ":",
               .text = fmt::format("{} of {} solved{}.", solved,
                                   Plural(total, study.settings.size() > 1 ? "setting" : "mixer"),
                                   ReportedSeeds(study).size() > 1 ? " by every seed" : "")};
  if (partly.empty() && unsolved.empty())
    say.text = fmt::format("all {} solved.", Plural(total, "setting"));
  if (!partly.empty()) say.text += " By some: " + FirstOf(partly, "; ") + ".";
  if (!unsolved.empty()) say.text += " Not solved: " + FirstOf(unsolved, "; ") + ".";
  out.push_back(std::move(say));
}

void SaySteps(const Study& study, const MixerList& mixers, std::vector<Sentence>& out) {
  struct Total {
    double steps = 0;
    bool reached_all = true;
  };
  std::map<int, Total> totals;
  for (const int mixer : study.mixers) {
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      const GroupSummary* group = study.Shown(mixer, s);
      const bool reached = group && group->steps_to_threshold && group->steps_to_threshold->median;
      if (reached) totals[mixer].steps += *group->steps_to_threshold->median;
      totals[mixer].reached_all = totals[mixer].reached_all && reached;
    }
  }
  if (totals.size() < 2) return;
  std::vector<int> best;  // all that need the least
  for (const auto& [mixer, total] : totals) {
    if (!total.reached_all) continue;
    if (!best.empty() && total.steps < totals[best.front()].steps) best.clear();
    if (best.empty() || total.steps == totals[best.front()].steps) best.push_back(mixer);
  }
  if (best.empty()) return;
  std::vector<std::string> names;
  std::vector<double> steps;
  for (const int mixer : best) {
    names.push_back(LabelOf(mixers, mixer));
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      steps.push_back(*study.Shown(mixer, s)->steps_to_threshold->median);
    }
  }
  const auto [low, high] = std::minmax_element(steps.begin(), steps.end());
  std::string text = FirstOf(names, ", ") + ": " + Count(*low);
  if (*low != *high) text += " to " + Count(*high);
  if (study.settings.size() > 1) {
    text += " over " + Plural(static_cast<int>(study.settings.size()), "setting");
  }
  out.push_back({study.title + ", fewest steps to the threshold:", text + "."});
}

// Of one setting: a mixer may be the highest in one and the lowest in another.
void SayBeyond(const Study& study, const MixerList& mixers, std::vector<Sentence>& out) {
  if (study.segments.size() < 2 || study.mixers.size() < 2 || study.settings.size() > 1) return;
  const std::size_t last = study.segments.size() - 1;
  std::vector<std::pair<double, int>> means;
  for (const int mixer : study.mixers) {
    const GroupSummary* group = study.Shown(mixer, 0);
    const auto* row = group ? RowAt(study, *group, last) : nullptr;
    if (row && row->mean && row->extrapolated) means.emplace_back(*row->mean, mixer);
  }
  if (means.size() < 2) return;
  std::sort(means.begin(), means.end());
  out.push_back(
      {study.title + ", longer than trained, " + SegmentText(study.segments[last]) + ":",
       fmt::format("highest {} with {} %, lowest {} with {} %.",
                   LabelOf(mixers, means.back().second), Percent(means.back().first, 1),
                   LabelOf(mixers, means.front().second), Percent(means.front().first, 1))});
}

// The last column in which mixers can be compared, else nothing.
std::optional<std::size_t> LastComparison(const Table& table) {
  for (std::size_t at = table.columns.size() - 1; at > 0; --at) {
    const auto num = std::count_if(table.rows.begin(), table.rows.end(),
                                   [&](const Row& row) { return row.cells[at].value; });
    if (num > 1) return at;
  }
  return std::nullopt;
}

void SaySpeed(const SweepReport& report, const MixerList& mixers, std::vector<Sentence>& out) {
  const std::vector<Table> tables = SpeedTables(report, mixers);
  if (tables.empty()) return;
  const Table& table = tables.front();
  const auto last = LastComparison(table);
  if (!last) return;
  const Row* fast = nullptr;
  const Row* slow = nullptr;
  for (const Row& row : table.rows) {
    const Datum& datum = row.cells[*last];
    if (!datum.value) continue;
    if (!fast || *datum.value < *fast->cells[*last].value) fast = &row;
    if (!slow || *datum.value > *slow->cells[*last].value) slow = &row;
  }
  if (fast == slow) return;
  const Column& column = table.columns[*last];
  std::string title = table.title;
  title.pop_back();
  // Of the group "ms: d 64" what follows the unit.
  const std::size_t colon = column.group.find(": ");
  const std::string setting =
      colon == std::string::npos ? "" : ", " + column.group.substr(colon + 2);
  out.push_back({title + fmt::format(" ({}, {}{}):", column.label, column.unit, setting),
                 fmt::format("{} ms for {} to {} ms for {}.", fast->cells[*last].text,
                             fast->cells[0].text, slow->cells[*last].text, slow->cells[0].text)});
}

// "mqar/gla/batch_size=256 seed 0 (512 asked for)".
std::vector<std::string> HalvedOf(const SweepReport& report) {
  std::vector<std::string> halved;
  for (const CellResult& cell : report.cells) {
    if (!cell.halved_from) continue;
    halved.push_back(
        fmt::format("{} seed {} ({} asked for)", cell.name, cell.seed, *cell.halved_from));
  }
  return halved;
}

}  // namespace

std::string FirstOf(const std::vector<std::string>& parts, const std::string& between,
                    std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i == most) return text + fmt::format(" and {} more", parts.size() - most);
    text += (i == 0 ? "" : between) + parts[i];
  }
  return text;
}

std::vector<std::string> Distinct(const SweepReport& report, const std::string& path) {
  std::set<std::string> found;
  for (const CellResult& cell : report.cells) {
    if (const std::string text = ConfigText(cell.environment, path); !text.empty()) {
      found.insert(text);
    }
  }
  return {found.begin(), found.end()};
}

std::set<std::uint64_t> SeedsOf(const Study& study, bool fresh) {
  std::set<std::uint64_t> seeds;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      if ((group->phase == CellPhase::kReport) == fresh) {
        seeds.insert(group->seeds.begin(), group->seeds.end());
      }
    }
  }
  return seeds;
}

std::vector<Sentence> GlanceOf(const SweepReport& report, const std::vector<Study>& studies,
                               const MixerList& mixers) {
  std::vector<Sentence> out;
  constexpr std::size_t kRoom = 12;
  std::size_t num_left = studies.size();
  for (const Study& study : studies) {
    if (out.size() >= kRoom) break;
    SaySolved(study, mixers, out);
    SaySteps(study, mixers, out);
    SayBeyond(study, mixers, out);
    --num_left;
  }
  if (num_left > 0) {
    out.push_back({Plural(static_cast<std::int64_t>(num_left), "more task") + ":",
                   "each has its section below."});
  }
  SaySpeed(report, mixers, out);
  return out;
}

std::vector<Sentence> TermsOf(const SweepReport&) {
  return {
      {"Accuracy:",
       "share of scored positions answered right, on test samples that no choice was "
       "made on. 100 means no error at all: it is never rounded to."},
      {"Guessers:",
       "what answers score that recall nothing: first one at the rate of all values, the chance "
       "level; then, where a task has them, others that also look at the sample, such as some "
       "value of the context. A mixer at those knows which words are values, not which one is "
       "asked for."},
      {"Interval over items:",
       "sampling of the test set, by sequence. Interval over seeds: "
       "training runs, from five seeds on. They are never mixed."},
      {"Failed seed:", "counts as chance accuracy and as unsolved."},
      {"Solved:",
       "validation accuracy reached the threshold within the budget. Its rate has "
       "Wilson's interval."},
      {"Steps to the threshold:", "median over seeds; a seed that never reached it ranks last."},
      {"Effective length:",
       "the longest tested length up to which the lower bound of accuracy "
       "stays at 90 % or above; median over seeds."},
      {"State:", "bytes of the tensors that a decode step carries for one sequence, measured."},
      {"Run:",
       "SHA-256 of everything that can change a result: what was asked, code, data and "
       "seed. The same id gives the same numbers in strict mode."}};
}

std::vector<Sentence> BannerOf(const SweepReport& report) {
  std::vector<Sentence> out;
  if (const std::int64_t missing = CountMissing(report); missing > 0) {
    const std::int64_t unplanned = CountUnplanned(report);
    std::string text = fmt::format("{} of {} planned cells have no result yet", missing,
                                   static_cast<std::int64_t>(report.cells.size()) + unplanned);
    if (unplanned > 0) {
      text +=
          fmt::format(", {} of them by fresh seeds of settings that validation chooses", unplanned);
    }
    out.push_back({"Not finished:", text + "."});
  }
  const auto num_limited = std::count_if(report.cells.begin(), report.cells.end(),
                                         [](const CellResult& cell) { return cell.partial; });
  if (num_limited > 0) {
    out.push_back({"Partial:", fmt::format("{} of {} cells ran with a limit: they compare with "
                                           "nothing, and no leaderboard takes them.",
                                           num_limited, report.cells.size())});
  }
  if (const auto halved = HalvedOf(report); !halved.empty()) {
    out.push_back({"Smaller batches:",
                   Plural(static_cast<std::int64_t>(halved.size()), "cell") +
                       " did not fit in memory as asked and trained with smaller batches, which is "
                       "another experiment: " +
                       FirstOf(halved, ", ", 3) + "."});
  }
  std::map<std::string, std::vector<std::string>> names;  // by reason
  for (const LeftOut& result : report.left_out) {
    names[result.reason].push_back(result.name + " seed " + std::to_string(result.seed));
  }
  for (const auto& [reason, results] : names) {
    out.push_back({"Left out:", Plural(static_cast<std::int64_t>(results.size()), "result") + " " +
                                    reason + ": " + FirstOf(results, ", ", 3) + "."});
  }
  return out;
}

}  // namespace mixerbench::reports
