// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/conditions.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "reports/result/device.h"
#include "reports/summary/axis_keys.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/datums.h"
#include "reports/view/numbers.h"
#include "reports/view/sentences.h"

namespace mixerbench::reports {
namespace {

std::string Joined(const std::set<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

// The groups of a report by what they are ranked as, with those that only chose a rate: a study of
// one setting each.
std::map<std::string, Study> StudiesByKey(const SweepReport& report, const RankedMixers& mixers) {
  std::map<std::string, Study> studies;
  for (const GroupSummary& group : report.groups) {
    if (group.kind != "train") continue;
    Study& study = studies[RankedKey(report, group)];
    study.report = &report;
    study.cells[{mixers.IndexOf(report, group), 0}].all.push_back(&group);
  }
  const std::set<std::string> chosen = ChosenKeys(report.config);
  for (auto& [key, study] : studies) study.chosen_keys.assign(chosen.begin(), chosen.end());
  return studies;
}

std::string GuessText(const std::vector<Guess>& guesses) {
  std::string text;
  for (const Guess& guess : guesses) {
    text += fmt::format("{}{} % ({})", text.empty() ? "" : ", ", GuessPercent(guess.accuracy),
                        guess.name);
  }
  return text;
}

std::vector<Fact> FactsOf(const RankedSetting& setting, const LeaderboardInput& input,
                          const Study& study) {
  std::set<std::string> devices;
  std::set<std::string> commits;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      for (const CellResult& run : CellsOf(input.report, *group)) {
        if (run.state != CellState::kCompleted && !IsFailure(run.state)) continue;
        const std::string device = DeviceOf(run);
        const std::string commit = ConfigText(run.environment, "tool.git_commit").substr(0, 12);
        devices.insert(device.empty() ? "not recorded" : device);
        commits.insert(commit.empty() ? "not recorded" : commit);
      }
    }
  }
  std::vector<Fact> facts = SetupOf(study);
  if (setting.threshold) {
    facts.push_back({"Solved at", GuessPercent(*setting.threshold) + " % validation accuracy"});
  }
  if (!setting.guesses.empty()) {
    facts.push_back({"A guesser reaches", GuessText(setting.guesses)});
  } else if (setting.chance.value_or(0) > 0) {  // reports of older versions name no guesser
    facts.push_back({"A guesser reaches", GuessText({{"chance", *setting.chance}})});
  }
  facts.push_back({"Device", Joined(devices)});
  facts.push_back({"Commit", Joined(commits)});
  facts.push_back({"Report", input.source});
  return facts;
}

void Add(const Fact& fact, std::vector<Condition>& conditions) {
  auto found = std::find_if(conditions.begin(), conditions.end(),
                            [&](const Condition& known) { return known.term == fact.term; });
  if (found == conditions.end()) found = conditions.insert(found, {fact.term, {}});
  if (std::find(found->texts.begin(), found->texts.end(), fact.text) == found->texts.end()) {
    found->texts.push_back(fact.text);
  }
}

std::string TextOf(const RankedSetting& setting, const std::string& term) {
  for (const Condition& condition : setting.conditions) {
    if (condition.term == term) return fmt::format("{}", fmt::join(condition.texts, "; "));
  }
  return "";
}

}  // namespace

std::string RankedKey(const SweepReport& report, const GroupSummary& group) {
  return SplitCellName(group.name).task + "\n" + SettingKey(report, group);
}

void AddConditions(const std::vector<const LeaderboardInput*>& inputs, const RankedMixers& mixers,
                   Leaderboard& board) {
  for (const LeaderboardInput* input : inputs) {
    std::map<std::string, Study> studies = StudiesByKey(input->report, mixers);
    for (RankedSetting& setting : board.settings) {
      const auto found = studies.find(setting.key);
      if (found == studies.end()) continue;
      Study& study = found->second;
      std::erase_if(study.cells, [&](const auto& cell) {
        const auto result = setting.results.find(cell.first.first);
        return result == setting.results.end() || result->second.source != input->source;
      });
      if (study.cells.empty()) continue;
      for (const Fact& fact : FactsOf(setting, *input, study)) Add(fact, setting.conditions);
    }
  }
}

std::vector<Block> ConditionBlocks(const Leaderboard& board) {
  std::vector<std::string> terms;
  for (const RankedSetting& setting : board.settings) {
    for (const Condition& condition : setting.conditions) {
      if (std::find(terms.begin(), terms.end(), condition.term) == terms.end()) {
        terms.push_back(condition.term);
      }
    }
  }
  Facts shared;
  std::vector<std::string> differing;
  for (const std::string& term : terms) {
    const std::string first = TextOf(board.settings.front(), term);
    const bool is_shared =
        std::all_of(board.settings.begin(), board.settings.end(),
                    [&](const RankedSetting& setting) { return TextOf(setting, term) == first; });
    if (is_shared) {
      shared.facts.push_back({term, first});
    } else {
      differing.push_back(term);
    }
  }
  std::vector<Block> blocks;
  if (!shared.facts.empty()) blocks.emplace_back(std::move(shared));
  if (differing.empty()) return blocks;
  constexpr std::size_t kMaxUnfolded = 12;
  Table table{.key = "conditions",
              .title = "Conditions that differ between settings.",
              .note = "What is not here is the same for all of them and stands above."};
  table.columns.push_back({.label = "Setting", .kind = Column::Kind::kText});
  for (const std::string& term : differing) {
    table.columns.push_back({.label = term, .kind = Column::Kind::kText, .wraps = true});
  }
  for (const RankedSetting& setting : board.settings) {
    Row row{.cells = {TextDatum(setting.task + " " + setting.text)}};
    for (const std::string& term : differing) row.cells.push_back(TextDatum(TextOf(setting, term)));
    table.Add(std::move(row));
  }
  table.is_long = table.num_rows() > kMaxUnfolded;
  table.summary = "Conditions, " + Plural(static_cast<std::int64_t>(table.num_rows()), "setting");
  blocks.emplace_back(std::move(table));
  return blocks;
}

}  // namespace mixerbench::reports
