// The leaderboard as JSON and as a page.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fmt/format.h>
#include <map>

#include "reports/leaderboard/conditions.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/leaderboard/leaderboard_figures.h"
#include "reports/result/result_json.h"
#include "reports/view/datums.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

std::vector<Sentence> Formula(const Leaderboard& board) {
  std::string behind;
  for (const auto& [family, num] : board.families) {
    std::int64_t runs = 0;
    for (const RankedSetting& setting : board.settings) {
      if (setting.family != family) continue;
      for (const auto& [mixer, result] : setting.results) {
        runs += static_cast<std::int64_t>(result.solved.size());
      }
    }
    behind += fmt::format("{}{} runs for {} ({})", behind.empty() ? "" : ", ",
                          Count(static_cast<double>(runs)), family, Plural(num, "setting"));
  }
  std::vector<Sentence> formula = {
      {"Score",
       "= mean over the families of the mean over their settings of the share of seeds that "
       "solve the setting, times 100. A seed solves it when validation accuracy reaches the "
       "threshold within the budget."},
      {"Several lengths:",
       "of a setting that is tested at several lengths, accuracy and guessers are of the longest, "
       "which its name says first; a seed solves it by its validation data, whatever the lengths."},
      {"Families weigh the same,",
       "whatever their number of settings; settings weigh the same "
       "within a family."},
      {"Rank band:",
       fmt::format("the seeds of every mixer and setting are drawn again with replacement {} "
                   "times; the band holds the central {:.0f} % of its ranks. Mixers whose bands "
                   "overlap are not told apart by these data.",
                   Count(kRankResamples), 100 * kRankLevel)},
      {"Ties",
       "are broken by effective length and then by steps to the threshold, both medians over the "
       "settings, then by mean accuracy over the settings, then by tokens per second; a band knows "
       "no such order."},
      {"Failed runs",
       "are unsolved, and their accuracy counts as chance. Unsupported settings do not count for "
       "the mixer that lacks them."}};
  if (!behind.empty()) {
    formula.push_back({"Behind each figure:",
                       behind + fmt::format("; {} in all.", Plural(board.num_cells, "run"))});
  }
  return formula;
}

std::string BandText(const RankBand& rank) {
  return rank.low == rank.high ? Count(rank.low) : Count(rank.low) + "–" + Count(rank.high);
}

Table RankTable(const Leaderboard& board) {
  Table table{.key = "ranks",
              .title = "Leaderboard.",
              .note =
                  "Mixers whose bands overlap are not told apart by these data. Sorted by "
                  "score, ties by their columns from left to right; every column sorts."};
  // Too long for the head of a column of short numbers.
  if (!board.shape.empty()) table.note += " Tokens/s: " + board.shape + ".";
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Rank band"},
                   {.label = fmt::format("{:.0f} % of resampled ranks", 100 * kRankLevel),
                    .kind = Column::Kind::kPlot},
                   {.label = "Score", .is_down_first = true}};
  for (const auto& [family, num] : board.families) {
    table.columns.push_back({.label = family,
                             .group = "Seeds that solve, %",
                             .unit = (num > 1 ? "mean of " : "") + Plural(num, "setting"),
                             .is_down_first = true});
  }
  const std::string ties = "What orders ties";
  table.columns.push_back({.label = "Effective length",
                           .group = ties,
                           .unit = "tokens, median",
                           .is_down_first = true});
  table.columns.push_back({.label = "Steps", .group = ties, .unit = "median"});
  table.columns.push_back(
      {.label = "Accuracy", .group = ties, .unit = "%, mean", .is_down_first = true});
  table.columns.push_back({.label = "State", .group = "Measured", .unit = "largest setting"});
  table.columns.push_back({.label = "Tokens/s",
                           .group = "Measured",
                           .unit = board.shape.empty() ? "not timed" : "see above",
                           .is_down_first = true});
  for (const RankedMixer& ranked : board.ranking) {
    Row row{.mixer = ranked.mixer, .cells = {}};
    Datum name;
    name.text = board.mixers[static_cast<std::size_t>(ranked.mixer)].label;
    Datum plot;
    plot.text = BandText(ranked.rank);
    plot.rank = ranked.rank;
    row.cells = {name,
                 NumberDatum(ranked.rank.low + ranked.rank.high / 1000, BandText(ranked.rank)),
                 plot, NumberDatum(ranked.score, fmt::format("{:.1f}", 100 * ranked.score))};
    for (const auto& [family, num] : board.families) {
      const auto found = ranked.families.find(family);
      Datum datum;
      if (found != ranked.families.end()) {
        const FamilyResult& result = found->second;
        datum.value = result.share;
        datum.text = fmt::format("{:.0f}", 100 * result.share);
        if (result.num_solved < result.num_runs && datum.text == "100") datum.text = ">99";
        datum.share = datum.value;
        datum.note = fmt::format("{} of {} runs solved", result.num_solved, result.num_runs);
      } else {
        datum.state = CellState::kUnsupported;
        datum.text = "unsupported";
      }
      row.cells.push_back(std::move(datum));
    }
    row.cells.push_back(NumberDatum(ranked.length, Count(ranked.length.value_or(0))));
    row.cells.push_back(NumberDatum(ranked.steps, Count(ranked.steps.value_or(0))));
    if (!ranked.steps) row.cells.back().text = "not reached";
    row.cells.push_back(NumberDatum(ranked.accuracy, Percent(ranked.accuracy, 1)));
    row.cells.push_back(NumberDatum(ranked.state_bytes, Bytes(ranked.state_bytes)));
    row.cells.push_back(NumberDatum(ranked.tokens_per_second, Si(ranked.tokens_per_second)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table RefusedTable(const Leaderboard& board) {
  Table table{.key = "refused",
              .title = "Listed, not ranked.",
              .note =
                  "Runs with a limit, unfinished runs, uncommitted code, failed parity, too few "
                  "seeds; and mixers that lack a setting."};
  table.columns = {{.label = "Report or mixer", .kind = Column::Kind::kText},
                   {.label = "Why", .kind = Column::Kind::kText, .wraps = true},
                   {.label = "What would rank it", .kind = Column::Kind::kText, .wraps = true}};
  for (const Refusal& refusal : board.refused) {
    Row row;
    for (const std::string* text : {&refusal.what, &refusal.why, &refusal.remedy}) {
      Datum datum;
      datum.text = *text;
      row.cells.push_back(std::move(datum));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Where each setting was run: a row for each report that has mixers of it.
Table ReportsTable(const Leaderboard& board) {
  Table table{.key = "reports",
              .title = "Reports behind the settings.",
              .note = "A link where the report lies beside this page; else its name alone."};
  table.columns = {{.label = "Setting", .kind = Column::Kind::kText},
                   {.label = "Mixers"},
                   {.label = "Report", .kind = Column::Kind::kText}};
  std::map<std::string, std::string> links;
  for (const RankedSource& source : board.sources) links[source.name] = source.link;
  for (const RankedSetting& setting : board.settings) {
    std::map<std::string, std::int64_t> num_mixers;
    for (const auto& [mixer, result] : setting.results) ++num_mixers[result.source];
    for (const auto& [source, num] : num_mixers) {
      Datum name, report;
      name.text = setting.task + " " + setting.text;
      report.text = source;
      report.link = links[source];
      const auto count = static_cast<double>(num);
      table.Add({.cells = {std::move(name), NumberDatum(count, Count(count)), std::move(report)}});
    }
  }
  constexpr std::size_t kMaxUnfolded = 12;
  table.is_long = table.num_rows() > kMaxUnfolded;
  table.summary =
      "Reports behind " + Plural(static_cast<std::int64_t>(board.settings.size()), "setting");
  return table;
}

Value Optional(const std::optional<double>& value) { return NumberOrNull(value); }

}  // namespace

Value LeaderboardToValue(const Leaderboard& board) {
  Array ranking;
  for (const RankedMixer& ranked : board.ranking) {
    Object families;
    for (const auto& [family, result] : ranked.families) {
      families[family] =
          Object{{"solved", result.num_solved}, {"runs", result.num_runs}, {"share", result.share}};
    }
    const MixerStyle& style = board.mixers[static_cast<std::size_t>(ranked.mixer)];
    ranking.push_back(
        Object{{"mixer", style.key},
               {"label", style.label},
               {"place", static_cast<std::int64_t>(ranked.rank.place)},
               {"rank_band", Object{{"low", static_cast<std::int64_t>(ranked.rank.low)},
                                    {"high", static_cast<std::int64_t>(ranked.rank.high)},
                                    {"level", kRankLevel},
                                    {"method", "bootstrap over seeds"}}},
               {"score", ranked.score},
               {"families", std::move(families)},
               {"effective_length", Optional(ranked.length)},
               {"steps_to_threshold", Optional(ranked.steps)},
               {"accuracy", Optional(ranked.accuracy)},
               {"state_bytes", Optional(ranked.state_bytes)},
               {"tokens_per_second", Optional(ranked.tokens_per_second)}});
  }
  Array settings;
  for (const RankedSetting& setting : board.settings) {
    Array results;
    for (const auto& [mixer, result] : setting.results) {
      results.push_back(Object{{"mixer", board.mixers[static_cast<std::size_t>(mixer)].key},
                               {"solved", result.num_solved},
                               {"seeds", static_cast<std::int64_t>(result.solved.size())},
                               {"accuracy", Optional(result.accuracy)},
                               {"steps_to_threshold", Optional(result.steps)},
                               {"effective_length", Optional(result.length)},
                               {"source", result.source},
                               {"state_bytes", Optional(result.state_bytes)},
                               {"unsupported", result.is_unsupported}});
    }
    Object conditions;
    for (const Condition& condition : setting.conditions) {
      conditions[condition.term] = Array(condition.texts.begin(), condition.texts.end());
    }
    settings.push_back(Object{{"family", setting.family},
                              {"task", setting.task},
                              {"setting", setting.text},
                              {"threshold", Optional(setting.threshold)},
                              {"guesses", GuessesToValue(setting.guesses)},
                              {"conditions", std::move(conditions)},
                              {"results", std::move(results)}});
  }
  Array refused;
  for (const Refusal& refusal : board.refused) {
    refused.push_back(Object{
        {"what", refusal.what}, {"why", refusal.why}, {"what_would_rank_it", refusal.remedy}});
  }
  Array sources;
  for (const RankedSource& source : board.sources) {
    sources.push_back(Object{{"source", source.name},
                             {"content_sha256", TextOrNull(source.checksum)},
                             {"doubt", TextOrNull(source.doubt)}});
  }
  std::string formula;
  for (const Sentence& sentence : Formula(board)) {
    formula += (formula.empty() ? "" : " ") + sentence.lead + " " + sentence.text;
  }
  return Object{{"schema_version", kLeaderboardVersion},
                {"kind", "leaderboard"},
                {"formula", formula},
                {"min_seeds", static_cast<std::int64_t>(board.min_seeds)},
                {"num_resamples", kRankResamples},
                {"num_runs", board.num_cells},
                {"throughput_shape", TextOrNull(board.shape)},
                {"ranking", std::move(ranking)},
                {"settings", std::move(settings)},
                {"refused", std::move(refused)},
                {"sources", std::move(sources)}};
}

Page MakeLeaderboardPage(const Leaderboard& board) {
  Page page;
  page.eyebrow = "mixerbench leaderboard";
  page.title = "Sequence mixers, ranked";
  std::string first;
  for (const RankedMixer& ranked : board.ranking) {
    if (ranked.rank.low <= 1) first += (first.empty() ? "" : ", ") + board.LabelOf(ranked.mixer);
  }
  page.lead =
      fmt::format("{}, {}, {}.", Plural(static_cast<std::int64_t>(board.ranking.size()), "mixer"),
                  Plural(static_cast<std::int64_t>(board.families.size()), "task family"),
                  Plural(static_cast<std::int64_t>(board.settings.size()), "setting"));
  if (board.families.size() != 1) {
    const std::size_t at = page.lead.find("task familys");
    if (at != page.lead.npos) page.lead.replace(at, 12, "task families");
  }
  if (!first.empty()) page.lead += " A band that reaches the first rank: " + first + ".";
  if (board.ranking.empty()) {
    page.banner.push_back({"Nothing is ranked:", "every report was refused; the table says why."});
  }
  std::map<std::string, std::string> doubted;  // reports by what they leave open
  for (const RankedSource& source : board.sources) {
    if (source.doubt.empty()) continue;
    std::string& names = doubted[source.doubt];
    names += (names.empty() ? "" : ", ") + source.name;
  }
  for (const auto& [doubt, names] : doubted) page.care.push_back({names + ":", doubt + "."});
  page.facts = {{"Reports", Count(static_cast<double>(board.sources.size())),
                 Plural(static_cast<std::int64_t>(board.refused.size()), "refusal")},
                {"Runs", Count(static_cast<double>(board.num_cells)), "behind the ranks"},
                {"Seeds", "at least " + std::to_string(board.min_seeds), "of every setting"},
                {"Speed", board.shape.empty() ? "not timed" : board.shape, ""}};
  page.mixers = board.mixers;
  if (!board.ranking.empty()) {
    page.sections.push_back({.id = "ranks",
                             .title = "Ranks",
                             .short_title = "Ranks",
                             .question = "",
                             .blocks = {RankTable(board)}});
    Section cost{.id = "cost",
                 .title = "What accuracy costs",
                 .short_title = "Cost",
                 .question = "How much state does it take, and how many steps at what speed?",
                 .blocks = {}};
    for (Figure& figure : std::array{StateFigure(board), StepsFigure(board)}) {
      if (!figure.panels.empty()) cost.blocks.emplace_back(std::move(figure));
    }
    if (!cost.blocks.empty()) page.sections.push_back(std::move(cost));
    page.sections.push_back({.id = "tasks",
                             .title = "By setting",
                             .short_title = "By setting",
                             .question = "",
                             .blocks = {TaskFigure(board)}});
  }
  std::vector<Block> conditions;
  if (!board.settings.empty()) {
    conditions = ConditionBlocks(board);
    conditions.emplace_back(ReportsTable(board));
  }
  if (!conditions.empty()) {
    page.sections.push_back({.id = "conditions",
                             .title = "Under which conditions",
                             .short_title = "Conditions",
                             .question = "How were the runs trained, chosen and scored?",
                             .blocks = std::move(conditions)});
  }
  Section method{.id = "method",
                 .title = "Score, and what is not ranked",
                 .short_title = "Score",
                 .question = "",
                 .blocks = {Sentences{"How the score is made", Formula(board)}}};
  if (!board.refused.empty()) method.blocks.emplace_back(RefusedTable(board));
  Sentences sources{"Sources", {}};
  for (const RankedSource& source : board.sources) {
    sources.list.push_back(
        {source.name, source.checksum + (source.doubt.empty() ? "" : "; " + source.doubt)});
  }
  if (!sources.list.empty()) method.blocks.emplace_back(std::move(sources));
  page.sections.push_back(std::move(method));
  page.footer = kFooterOfReports;
  NumberBlocks(page);
  return page;
}

}  // namespace mixerbench::reports
