// The score of a collection as JSON and as a page.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "base/array_of.h"
#include "reports/result/result_json.h"
#include "reports/score/score.h"
#include "reports/view/marks.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

const MixerStyle& StyleOf(const ScoreReport& report, const MixerScore& score) {
  return report.mixers[static_cast<std::size_t>(score.mixer)];
}

Value ByValidation(const std::optional<SeedScores>& score) {
  if (!score) return {};
  const auto interval = ScoreInterval(*score);
  return Object{{"value", score->mean},
                {"seeds", ArrayOf(score->seeds, SeedToValue)},
                {"per_seed", Array(score->per_seed.begin(), score->per_seed.end())},
                {"ci_seeds", IntervalToValue(interval)},
                {"why_no_interval", TextOrNull(WhyNoInterval(*score))}};
}

Value ByTest(const std::optional<SeedScores>& score) {
  Value value = ByValidation(score);
  if (score) {
    value.as_object()["ci_seeds"] = Value();
    value.as_object()["why_no_interval"] = kWhyNoIntervalByTest;
  }
  return value;
}

Value ChosenToValue(const std::optional<ChosenScore>& choice) {
  if (!choice) return {};
  return Object{{"value", choice->score.mean}, {"chosen", TextOrNull(choice->chosen)}};
}

Value PartToValue(const ScorePart& part, const PartScore& score) {
  Array settings;
  for (const SettingScore& setting : score.settings) {
    settings.push_back(Object{{"setting", setting.text},
                              {"by_validation", ChosenToValue(setting.by_validation)},
                              {"by_test", ChosenToValue(setting.by_test)},
                              {"missing", TextOrNull(setting.missing)}});
  }
  return Object{{"suite", part.suite},
                {"by_validation", ByValidation(score.by_validation)},
                {"by_test", ByTest(score.by_test)},
                {"missing", Array(score.missing.begin(), score.missing.end())},
                {"settings", std::move(settings)}};
}

std::vector<Sentence> Formula(const ScoreReport& report) {
  const ScoreRule& rule = report.rule;
  std::string parts;
  for (const ScorePart& part : rule.parts) {
    parts += fmt::format("{}{} ({}, weight {})", parts.empty() ? "" : ", ", part.suite,
                         Plural(part.num_settings, "setting"), Significant(part.weight));
  }
  return {
      {rule.name, "= weighted mean over the suites of the mean over their settings of " +
                      rule.metric + " on the test segments: " + parts + "."},
      {"By validation:",
       "of the settings that compete, such as learning rates, the one with the highest validation "
       "accuracy counts, with its test result" +
           std::string(report.has_fresh_seeds ? " by fresh seeds, where a suite has them." : ".")},
      {"By test:",
       "the one with the highest test result itself counts. Published scores are made this way; it "
       "is " +
           std::string(report.has_fresh_seeds
                           ? "of the seeds that chose, so that against fresh ones either may be "
                             "higher."
                           : "at least as high, and more so the more settings compete.")},
      {"Failed runs",
       "count as chance. A mixer that lacks a result has no score, not the mean of "
       "those it has."},
      {"Intervals",
       fmt::format("of the score by validation are over seeds, from {} on; by test there "
                   "is none: {}.",
                   kSeedsForInterval, kWhyNoIntervalByTest)}};
}

Datum ScoreDatum(const std::optional<SeedScores>& score, bool has_interval) {
  Datum datum;
  if (!score) {
    datum.text = "incomplete";
    return datum;
  }
  datum.value = score->mean;
  datum.text = Percent(score->mean, 1);
  if (const auto interval = has_interval ? ScoreInterval(*score) : std::nullopt) {
    datum.seeds = score->per_seed;
    datum.low = interval->low;
    datum.high = interval->high;
    datum.sub = PercentRange(interval->low, interval->high, 1);
  }
  return datum;
}

Table ScoreTable(const ScoreReport& report, bool by_test) {
  Table table{.key = by_test ? "by-test" : "by-validation",
              .title = fmt::format("Table {}. {} {}.", by_test ? 2 : 1, report.rule.name,
                                   by_test ? "by test" : "by validation"),
              .note = "Percent of " + report.rule.metric +
                      (by_test ? ". Bold: the highest."
                               : ". Bold: the highest, and from five seeds on all that these do "
                                 "not tell apart from it (permutation test).")};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = report.rule.name, .is_down_first = true}};
  for (const ScorePart& part : report.rule.parts) {
    table.columns.push_back(
        {.label = part.suite, .unit = Plural(part.num_settings, "setting"), .is_down_first = true});
  }
  for (const MixerScore& score : report.scores) {
    Datum name;
    name.text = StyleOf(report, score).label;
    Row row{.mixer = score.mixer, .cells = {std::move(name)}};
    row.cells.push_back(ScoreDatum(by_test ? score.by_test : score.by_validation, !by_test));
    for (const PartScore& part : score.parts) {
      row.cells.push_back(ScoreDatum(by_test ? part.by_test : part.by_validation, !by_test));
    }
    table.rows.push_back(std::move(row));
  }
  for (std::size_t i = 1; i < table.columns.size(); ++i) MarkHighest(table, i);
  return table;
}

Row TextRow(int mixer, const std::vector<std::string>& texts) {
  Row row{.mixer = mixer, .cells = {}};
  for (const std::string& text : texts) {
    Datum datum;
    if (!text.empty()) datum.text = text;
    row.cells.push_back(std::move(datum));
  }
  return row;
}

Table MissingTable(const ScoreReport& report) {
  Table table{.key = "missing",
              .title = "Table 3. What is missing.",
              .note = "A score is whole or it is none."};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Suite", .kind = Column::Kind::kText},
                   {.label = "Missing", .kind = Column::Kind::kText, .wraps = true}};
  for (const MixerScore& score : report.scores) {
    for (std::size_t i = 0; i < score.parts.size(); ++i) {
      for (const std::string& missing : score.parts[i].missing) {
        table.rows.push_back(TextRow(
            score.mixer, {StyleOf(report, score).label, report.rule.parts[i].suite, missing}));
      }
    }
  }
  return table;
}

Table SettingTable(const ScoreReport& report) {
  Table table{.key = "settings", .title = "", .note = ""};
  table.columns = {{.label = "Suite", .kind = Column::Kind::kText},
                   {.label = "Setting", .kind = Column::Kind::kText},
                   {.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "By validation"},
                   {.label = "chosen", .kind = Column::Kind::kText},
                   {.label = "By test"},
                   {.label = "chosen", .kind = Column::Kind::kText}};
  for (const MixerScore& score : report.scores) {
    for (std::size_t i = 0; i < score.parts.size(); ++i) {
      for (const SettingScore& setting : score.parts[i].settings) {
        const auto value = [](const std::optional<ChosenScore>& choice) {
          return ScoreDatum(choice ? std::optional(choice->score) : std::nullopt, false);
        };
        const auto chosen = [](const std::optional<ChosenScore>& choice) {
          return choice ? choice->chosen : std::string();
        };
        Row row = TextRow(score.mixer,
                          {report.rule.parts[i].suite, setting.text, StyleOf(report, score).label,
                           "", chosen(setting.by_validation), "", chosen(setting.by_test)});
        row.cells[3] = value(setting.by_validation);
        row.cells[5] = value(setting.by_test);
        table.rows.push_back(std::move(row));
      }
    }
  }
  table.is_long = true;
  table.summary = "All " + Plural(static_cast<std::int64_t>(table.rows.size()), "setting");
  return table;
}

std::int64_t CountComplete(const ScoreReport& report) {
  return std::count_if(report.scores.begin(), report.scores.end(),
                       std::mem_fn(&MixerScore::is_complete));
}

}  // namespace

Value ScoreToValue(const ScoreReport& report) {
  Array scores;
  for (const MixerScore& score : report.scores) {
    Array parts;
    for (std::size_t i = 0; i < score.parts.size(); ++i) {
      parts.push_back(PartToValue(report.rule.parts[i], score.parts[i]));
    }
    scores.push_back(Object{{"mixer", StyleOf(report, score).key},
                            {"label", StyleOf(report, score).label},
                            {"state", score.is_complete() ? "complete" : "incomplete"},
                            {"by_validation", ByValidation(score.by_validation)},
                            {"by_test", ByTest(score.by_test)},
                            {"parts", std::move(parts)}});
  }
  Array parts;
  for (const ScorePart& part : report.rule.parts) {
    parts.push_back(Object{
        {"suite", part.suite}, {"weight", part.weight}, {"num_settings", part.num_settings}});
  }
  Array sources;
  for (const auto& [suite, checksum] : report.sources) {
    sources.push_back(Object{{"suite", suite}, {"content_sha256", TextOrNull(checksum)}});
  }
  return Object{{"schema_version", kScoreVersion}, {"kind", "score"},
                {"collection", report.collection}, {"name", report.rule.name},
                {"metric", report.rule.metric},    {"parts", std::move(parts)},
                {"scores", std::move(scores)},     {"sources", std::move(sources)}};
}

Page MakeScorePage(const ScoreReport& report) {
  Page page;
  page.eyebrow = "mixerbench score";
  page.title = report.rule.name + ", " + report.collection;
  page.lead = report.description;
  const auto num_mixers = static_cast<std::int64_t>(report.scores.size());
  const std::int64_t num_complete = CountComplete(report);
  if (num_complete < num_mixers || num_mixers == 0) {
    page.banner.push_back(
        {"Incomplete:", fmt::format("{} of {} have a score; a table says what the "
                                    "others lack.",
                                    num_complete, Plural(num_mixers, "mixer"))});
  }
  page.facts = {{"Mixers", Count(static_cast<double>(num_mixers)),
                 fmt::format("{} with a score", num_complete)},
                {"Suites", Count(static_cast<double>(report.rule.parts.size())), ""},
                {"Metric", report.rule.metric, ""}};
  if (num_complete > 0) {
    const std::string why = WhyNoInterval(*report.scores.front().by_validation);
    page.facts.push_back({"Interval", why.empty() ? "over seeds" : "none", why});
  }
  page.mixers = report.mixers;
  Section scores{.id = "scores",
                 .title = report.rule.name,
                 .short_title = "Score",
                 .question = "",
                 .blocks = {ScoreTable(report, false), ScoreTable(report, true)}};
  if (Table missing = MissingTable(report); !missing.rows.empty()) {
    scores.blocks.emplace_back(std::move(missing));
  }
  page.sections.push_back(std::move(scores));
  Section method{.id = "method",
                 .title = "How it is made",
                 .short_title = "Method",
                 .question = "",
                 .blocks = {Sentences{"The score", Formula(report)}, SettingTable(report)}};
  Sentences sources{"Sources", {}};
  for (const auto& [suite, checksum] : report.sources) sources.list.push_back({suite, checksum});
  if (!sources.list.empty()) method.blocks.emplace_back(std::move(sources));
  page.sections.push_back(std::move(method));
  page.footer = kFooterOfReports;
  return page;
}

}  // namespace mixerbench::reports
