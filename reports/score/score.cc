// SPDX-License-Identifier: Apache-2.0
#include "reports/score/score.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/map.hpp>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "io/read_value.h"
#include "reports/result/result_json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/axis_keys.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"
#include "reports/view/study.h"

namespace mixerbench::reports {
namespace {

using Metric = std::optional<double> AccuracyRow::*;

const std::map<std::string, Metric>& Metrics() {
  static const std::map<std::string, Metric> metrics = {
      {"accuracy", &AccuracyRow::accuracy},
      {"accuracy_per_example", &AccuracyRow::accuracy_per_example},
      {"accuracy_macro", &AccuracyRow::accuracy_macro},
      {"accuracy_macro_batched", &AccuracyRow::accuracy_macro_batched},
      {"sequence_accuracy", &AccuracyRow::sequence_accuracy}};
  return metrics;
}

void RequireOneOf(const std::string& name, const std::vector<std::string>& known,
                  const std::string& what, const std::string& where) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw ConfigError(where, UnknownName(what, name, known));
}

ScorePart ReadPart(const Value& value, const std::string& where) {
  io::RequireObject(value, where);
  io::RequireKnownKeys(value, where, {"num_settings", "suite", "weight"});
  ScorePart part;
  part.suite = io::ReadName(io::RequireMember(value, where, "suite"), where + "/suite");
  part.num_settings =
      io::ReadInt(io::RequireMember(value, where, "num_settings"), where + "/num_settings", 1);
  if (const Value* weight = value.Find("weight")) {
    part.weight = weight->is_number() ? weight->as_double() : 0;
    if (part.weight <= 0) throw ConfigError(where + "/weight", "expected a number above 0");
  }
  return part;
}

// The metric of a cell: the mean over its test segments, those that failed counting as chance.
// Nothing when a segment that completed does not have it.
std::optional<double> MetricOf(const CellResult& cell, Metric metric) {
  double sum = 0;
  int num = 0;
  for (const AccuracyRow& row : cell.accuracy) {
    if (!row.slice.empty()) continue;
    const bool failed = IsFailure(cell.state) || IsFailure(row.state);
    const std::optional<double> value = failed ? row.chance : row.*metric;
    if (!value) return std::nullopt;
    sum += *value;
    ++num;
  }
  if (num > 0) return sum / num;
  return IsFailure(cell.state) ? std::optional(0.0) : std::nullopt;
}

// Groups of one mixer at one setting, which compete, and where fresh seeds are reported that of the
// chosen one's.
struct Competition {
  std::vector<const GroupSummary*> groups;
  const GroupSummary* fresh = nullptr;
};

bool CanRun(const SweepReport& report, const GroupSummary& group) {
  const auto cells = CellsOf(report, group);
  return !group.seeds.empty() || std::any_of(cells.begin(), cells.end(), IsMissing);
}

// Why the cells of a group cannot be scored; empty when they can.
std::string WhyMissing(const SweepReport& report, const GroupSummary& group) {
  const auto cells = CellsOf(report, group);
  if (const auto num = std::count_if(cells.begin(), cells.end(), IsMissing); num > 0) {
    return fmt::format("{} of {} cells of {} have no result", num, cells.size(), group.name);
  }
  if (std::any_of(cells.begin(), cells.end(),
                  [](const CellResult& cell) { return cell.halved_from.has_value(); })) {
    return fmt::format("{} trained with smaller batches than asked for, as memory lacked",
                       group.name);
  }
  const auto without = [](const CellResult& cell) {
    return cell.state != CellState::kCompleted && !IsFailure(cell.state);
  };
  if (const auto num = std::count_if(cells.begin(), cells.end(), without); num > 0) {
    const CellResult& first = *std::find_if(cells.begin(), cells.end(), without);
    return fmt::format("{} of {} cells of {} ended {}", num, cells.size(), group.name,
                       NameOf(first.state));
  }
  return group.partial ? "ran with a limit" : "";
}

// Why a choice among these groups cannot be scored; empty when it can.
std::string WhyMissing(const SweepReport& report, const Competition& competition) {
  const auto& groups = competition.groups;
  if (groups.empty()) return "unsupported";
  bool is_chosen = groups.size() == 1;
  for (const GroupSummary* group : groups) {
    if (const std::string why = WhyMissing(report, *group); !why.empty()) return why;
    if (group->selection && !group->selection->undecided.empty()) {
      return group->selection->undecided;
    }
    is_chosen = is_chosen || (group->selection && group->selection->selected);
  }
  if (!is_chosen) return "several results, and the suite selects none";
  if (report.reseeds.empty()) return "";
  return competition.fresh ? WhyMissing(report, *competition.fresh)
                           : "the chosen setting has no fresh seeds yet";
}

class Collector {
 public:
  Collector(const ScoreRule& rule, const SweepReport& report)
      : metric_(Metrics().at(rule.metric)),
        metric_name_(rule.metric),
        report_(report),
        chosen_keys_(ChosenKeys(report.config)) {}

  // By mixer, a setting each.
  std::map<std::string, std::vector<SettingScore>> Settings() const {
    std::map<std::pair<std::string, std::string>, Competition> competitions;  // mixer, setting
    std::map<std::string, std::string> texts;                                 // by setting
    for (const GroupSummary& group : report_.groups) {
      if (group.kind != "train") continue;
      const CellName name = SplitCellName(group.name);
      const std::string key = name.task + "\n" + SettingKey(report_, group);
      texts.try_emplace(key, TextOf(group, name.task));
      Competition& competition = competitions[{MixerKey(group.name), key}];
      if (!CanRun(report_, group)) continue;
      if (group.phase == CellPhase::kReport) {
        competition.fresh = &group;
      } else {
        competition.groups.push_back(&group);
      }
    }
    std::map<std::string, std::vector<SettingScore>> by_mixer;
    for (const auto& [place, competition] : competitions) {
      by_mixer[place.first].push_back(Score(texts.at(place.second), competition));
    }
    for (auto& [mixer, settings] : by_mixer) {
      std::sort(settings.begin(), settings.end(),
                [](const SettingScore& a, const SettingScore& b) { return a.text < b.text; });
    }
    return by_mixer;
  }

 private:
  // What names of cells say besides the mixer and the choice.
  std::string TextOf(const GroupSummary& group, const std::string& task) const {
    std::set<std::string> keys;
    for (const auto& [key, value] : PartsOf(group)) {
      if (!chosen_keys_.contains(key)) keys.insert(key);
    }
    return keys.empty() ? task : PartsText(group, keys);
  }

  SettingScore Score(const std::string& text, const Competition& competition) const {
    SettingScore setting;
    setting.text = text;
    setting.missing = WhyMissing(report_, competition);
    if (!setting.missing.empty()) return setting;
    const auto& groups = competition.groups;
    for (const GroupSummary* group : groups) {
      const auto score = ScoreOf(*group);
      const bool is_chosen = groups.size() == 1 || group->selection->selected;
      const auto reported = is_chosen && competition.fresh ? ScoreOf(*competition.fresh) : score;
      if (!score || !reported) {
        return {.text = text, .missing = group->name + " has no " + metric_name_};
      }
      const ChosenScore chosen{*score, PartsText(*group, chosen_keys_)};
      if (is_chosen) setting.by_validation = ChosenScore{*reported, chosen.chosen};
      if (!setting.by_test || score->mean > setting.by_test->score.mean) setting.by_test = chosen;
    }
    return setting;
  }

  // Of a group that lacks nothing: every cell completed or failed.
  std::optional<SeedScores> ScoreOf(const GroupSummary& group) const {
    SeedScores score;
    for (const CellResult& cell : CellsOf(report_, group)) {
      const auto value = MetricOf(cell, metric_);
      if (!value) return std::nullopt;
      score.seeds.push_back(cell.seed);
      score.per_seed.push_back(*value);
    }
    score.mean = Mean(score.per_seed);
    return score;
  }

  Metric metric_;
  std::string metric_name_;
  const SweepReport& report_;
  std::set<std::string> chosen_keys_;  // "lr"
};

SeedScores MeanOver(const std::vector<SettingScore>& settings,
                    std::optional<ChosenScore> SettingScore::*choice) {
  std::vector<std::pair<double, SeedScores>> values;
  for (const SettingScore& setting : settings) values.emplace_back(1, (setting.*choice)->score);
  return WeightedMean(values);
}

PartScore ScorePartOf(const ScorePart& part, std::vector<SettingScore> settings) {
  PartScore score{.settings = std::move(settings)};
  const auto num = static_cast<std::int64_t>(score.settings.size());
  if (num != part.num_settings) {
    score.missing.push_back(
        fmt::format("{} of {} settings were asked for", num, part.num_settings));
  }
  for (const SettingScore& setting : score.settings) {
    if (!setting.missing.empty()) score.missing.push_back(setting.text + ": " + setting.missing);
  }
  if (!score.missing.empty()) return score;
  score.by_validation = MeanOver(score.settings, &SettingScore::by_validation);
  score.by_test = MeanOver(score.settings, &SettingScore::by_test);
  return score;
}

// Nothing when a part has nothing.
std::optional<SeedScores> Total(const ScoreRule& rule, const std::vector<PartScore>& parts,
                                std::optional<SeedScores> PartScore::*choice) {
  std::vector<std::pair<double, SeedScores>> values;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!(parts[i].*choice)) return std::nullopt;
    values.emplace_back(rule.parts[i].weight, *(parts[i].*choice));
  }
  return WeightedMean(values);
}

}  // namespace

std::optional<ScoreRule> ReadScoreRule(const Value& collection) {
  const Value* score = collection.Find("score");
  if (!score) return std::nullopt;
  const std::string where = "/score";
  io::RequireObject(*score, where);
  io::RequireKnownKeys(*score, where, {"metric", "name", "parts"});
  ScoreRule rule;
  rule.name = io::ReadName(io::RequireMember(*score, where, "name"), where + "/name");
  rule.metric = io::ReadName(io::RequireMember(*score, where, "metric"), where + "/metric");
  const auto metrics = Metrics() | ranges::views::keys | ranges::to<std::vector>();
  RequireOneOf(rule.metric, metrics, "metric", where + "/metric");
  const Value& parts = io::RequireMember(*score, where, "parts");
  if (!parts.is_array() || parts.as_array().empty()) {
    throw ConfigError(where + "/parts", "expected a list of objects with at least one entry");
  }
  std::set<std::string> names;
  for (const Value& part : parts.as_array()) {
    const std::string place = where + "/parts/" + std::to_string(rule.parts.size());
    rule.parts.push_back(ReadPart(part, place));
    if (!names.insert(rule.parts.back().suite).second) {
      throw ConfigError(place + "/suite", "'" + rule.parts.back().suite + "' stands there twice");
    }
  }
  return rule;
}

void RequireSuites(const ScoreRule& rule, const std::vector<std::string>& suites) {
  for (std::size_t i = 0; i < rule.parts.size(); ++i) {
    RequireOneOf(rule.parts[i].suite, suites, "suite of this collection",
                 "/score/parts/" + std::to_string(i) + "/suite");
  }
}

void RequireNumSettings(const ScoreRule& rule, const std::vector<ScoreInput>& inputs) {
  for (std::size_t i = 0; i < rule.parts.size(); ++i) {
    const ScorePart& part = rule.parts[i];
    for (const ScoreInput& input : inputs) {
      if (input.suite != part.suite) continue;
      std::set<std::int64_t> nums{0};  // by mixer: one may be trained at some settings alone
      for (const auto& [mixer, settings] : Collector(rule, input.report).Settings()) {
        nums.insert(static_cast<std::int64_t>(settings.size()));
      }
      if (nums.contains(part.num_settings)) continue;
      throw ConfigError(fmt::format("/score/parts/{}/num_settings", i),
                        fmt::format("is {}, but the suite trains each mixer at {}",
                                    part.num_settings, Plural(*nums.rbegin(), "setting")));
    }
  }
}

SeedScores WeightedMean(const std::vector<std::pair<double, SeedScores>>& values) {
  SeedScores mean{.mean = 0, .seeds = values.front().second.seeds, .per_seed = {}};
  double total = 0;
  for (const auto& [weight, value] : values) {
    total += weight;
    mean.mean += weight * value.mean;
    if (value.seeds != mean.seeds) mean.seeds.clear();
  }
  mean.mean /= total;
  mean.per_seed.assign(mean.seeds.size(), 0);
  for (std::size_t i = 0; i < mean.per_seed.size(); ++i) {
    for (const auto& [weight, value] : values) {
      mean.per_seed[i] += weight / total * value.per_seed[i];
    }
  }
  return mean;
}

ScoreReport MakeScoreReport(const Value& collection, const ScoreRule& rule,
                            const std::vector<ScoreInput>& inputs) {
  ScoreReport report;
  report.collection = io::ReadName(io::RequireMember(collection, "", "name"), "/name");
  if (const Value* description = collection.Find("description")) {
    report.description = io::ReadName(*description, "/description");
  }
  report.rule = rule;
  std::map<std::string, std::map<std::string, std::vector<SettingScore>>> settings;  // by suite
  std::vector<const SweepReport*> reports;
  for (const ScoreInput& input : inputs) {
    settings[input.suite] = Collector(rule, input.report).Settings();
    reports.push_back(&input.report);
    report.has_fresh_seeds = report.has_fresh_seeds || !input.report.reseeds.empty();
    const Value document = SweepToValue(input.report);
    report.sources.emplace_back(input.suite, ConfigText(document, "integrity.content_sha256"));
  }
  report.mixers = MixerList(reports).styles();
  for (std::size_t m = 0; m < report.mixers.size(); ++m) {
    MixerScore score{.mixer = static_cast<int>(m)};
    for (const ScorePart& part : rule.parts) {
      score.parts.push_back(ScorePartOf(part, settings[part.suite][report.mixers[m].key]));
    }
    score.by_validation = Total(rule, score.parts, &PartScore::by_validation);
    score.by_test = Total(rule, score.parts, &PartScore::by_test);
    report.scores.push_back(std::move(score));
  }
  std::stable_sort(report.scores.begin(), report.scores.end(),
                   [](const MixerScore& a, const MixerScore& b) {
                     return (a.by_validation ? a.by_validation->mean : -1) >
                            (b.by_validation ? b.by_validation->mean : -1);
                   });
  return report;
}

std::optional<Interval> ScoreInterval(const SeedScores& score) {
  return SeedInterval(score.per_seed);
}

std::string WhyNoInterval(const SeedScores& score) {
  if (score.seeds.empty()) return "the settings ran with different seeds";
  if (score.seeds.size() >= kSeedsForInterval) return "";
  return Plural(static_cast<std::int64_t>(score.seeds.size()), "seed") + "; an interval needs " +
         std::to_string(kSeedsForInterval);
}

}  // namespace mixerbench::reports
