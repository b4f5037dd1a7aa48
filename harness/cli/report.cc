// `report`, `leaderboard` and `schema`: what finished cells say, and the form they say it in.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "gate/render/comparison_json.h"
#include "harness/cli/commands.h"
#include "harness/cli/source_names.h"
#include "harness/cli/standard_input.h"
#include "harness/run/collection_folder.h"
#include "harness/run/collection_report.h"
#include "harness/run/exit_order.h"
#include "harness/run/folder_report.h"
#include "harness/run/verdict_outputs.h"
#include "io/json.h"
#include "reports/export/accuracy_csv.h"
#include "reports/export/export.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/result/schema.h"
#include "reports/score/score.h"
#include "reports/summary/merge_reports.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"

namespace mixerbench::harness {
namespace {

// Whether the report is whole; in words on stderr, where the answer does not go.
ExitCode StateOf(const reports::SweepReport& report) {
  for (const reports::Sentence& note : reports::BannerOf(report)) {
    std::cerr << note.lead << " " << note.text << "\n";
  }
  if (reports::CountMissing(report) > 0) return ExitCode::kMissing;
  const bool completed = std::all_of(report.cells.begin(), report.cells.end(), &reports::IsWhole);
  return completed ? ExitCode::kOk : ExitCode::kCellsFailed;
}

// From the folder in which the command runs, where its output is meant to lie, to the page of a
// report below it; else to the report itself, "" where it lies elsewhere.
std::string LinkTo(const std::filesystem::path& path) {
  if (path == cli::kStandardInput) return "";
  const auto whole = std::filesystem::weakly_canonical(path);
  const auto folder = std::filesystem::is_directory(whole) ? whole : whole.parent_path();
  for (const char* name : {"report.html", "report.md", "report.json"}) {
    const auto relative = (folder / name).lexically_proximate(std::filesystem::current_path());
    const bool is_below = relative.is_relative() && *relative.begin() != "..";
    if (is_below && std::filesystem::exists(folder / name)) return relative.generic_string();
  }
  return "";
}

// What a score lacks, a line for each mixer and suite.
ExitCode StateOf(const reports::ScoreReport& score) {
  bool is_whole = !score.scores.empty();
  for (const reports::MixerScore& mixer : score.scores) {
    is_whole = is_whole && mixer.is_complete();
    for (std::size_t i = 0; i < mixer.parts.size(); ++i) {
      if (mixer.parts[i].missing.empty()) continue;
      std::cerr << "incomplete: " << score.mixers[static_cast<std::size_t>(mixer.mixer)].label
                << ", " << score.rule.parts[i].suite << ": " << mixer.parts[i].missing.front()
                << (mixer.parts[i].missing.size() > 1 ? ", and more" : "") << "\n";
    }
  }
  return is_whole ? ExitCode::kOk : ExitCode::kMissing;
}

std::string Render(const reports::ScoreReport& score, const std::string& format) {
  if (format == "json") return io::DumpJson(reports::ScoreToValue(score), 2);
  if (format == "html") return reports::RenderHtmlPage(reports::MakeScorePage(score));
  if (format == "md") return reports::RenderMarkdownPage(reports::MakeScorePage(score));
  throw ConfigError(
      "--format", "a score is json, md or html; '" + format + "' is for the folders of its suites");
}

std::string Render(const reports::SweepReport& report, const std::string& format) {
  if (format == "json") return reports::DumpSweep(report);
  if (format == "html") return reports::RenderHtmlPage(reports::MakeReportPage(report));
  if (format == "csv") return reports::RenderAccuracyCsv(report);
  if (format == "csv-cells") return reports::RenderCellsCsv(report);
  if (format == "csv-groups") return reports::RenderGroupsCsv(report);
  if (format == "csv-curves") return reports::RenderCurvesCsv(report);
  if (format == "csv-timings") return reports::RenderTimingsCsv(report);
  if (format == "csv-taps") return reports::RenderTapsCsv(report);
  if (format == "gbench") return reports::RenderGoogleBenchmark(report);
  if (format == "mllog") return reports::RenderMlLog(report);
  return reports::RenderMarkdownPage(reports::MakeReportPage(report));
}

// Says what a folder of several lacks and what is left out of it: kMissing when it lacks a suite.
ExitCode StateOf(const RunsBelow& runs) {
  for (const std::string& note : NotesOn(runs)) std::cerr << note << "\n";
  return runs.not_begun.empty() ? ExitCode::kOk : ExitCode::kMissing;
}

// One run folder or report, or those of several and of folders that hold several.
RunsBelow RunsOf(const std::vector<std::string>& outs) {
  RunsBelow all;
  if (outs.size() == 1 && !IsCollection(outs.front())) {
    all.reports = outs;
    return all;
  }
  for (const std::string& out : outs) {
    const RunsBelow runs = ReportsBelow(out);
    for (auto part : {&RunsBelow::reports, &RunsBelow::not_begun, &RunsBelow::beside}) {
      (all.*part).insert((all.*part).end(), (runs.*part).begin(), (runs.*part).end());
    }
  }
  return all;
}

}  // namespace

ExitCode Report(const ReportOptions& options) {
  VerdictOutputs files = options.outputs;
  files.json = false;  // is the answer
  RequireWritable(files);
  const std::string format = options.outputs.json ? "json" : options.format;
  const std::string& first = options.outs.front();
  const auto score =
      options.outs.size() == 1 && IsCollection(first) ? ScoreOf(first) : std::nullopt;
  if (score) {
    std::cout << Render(*score, format);
    const ExitCode code = First(StateOf(*score), StateOf(FindReports(first)));
    WriteCollectionVerdicts(files, first, code);
    return code;
  }
  const RunsBelow runs = RunsOf(options.outs);
  const ExitCode lacks = StateOf(runs);
  std::vector<reports::SweepReport> parts;
  for (const std::string& path : runs.reports) parts.push_back(ReadReport(path));
  const reports::SweepReport report = reports::MergeReports(parts);
  RequireCells(report, first);
  std::cout << Render(report, format);
  const ExitCode code = First(lacks, StateOf(report));
  WriteVerdicts(files, std::move(parts), runs.not_begun, code);
  return code;
}

ExitCode Leaderboard(const LeaderboardOptions& options) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& out : options.outs) {
    const RunsBelow runs = ReportsBelow(out);
    for (const std::string& note : NotesOn(runs)) std::cerr << note << "\n";
    paths.insert(paths.end(), runs.reports.begin(), runs.reports.end());
  }
  const std::vector<std::string> names = SourceNames(paths);
  std::vector<reports::LeaderboardInput> inputs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    inputs.push_back({names[i], ReadReport(paths[i]), LinkTo(paths[i])});
  }
  const reports::Leaderboard board =
      reports::MakeLeaderboard(inputs, static_cast<std::size_t>(options.min_seeds));
  if (options.format == "json") {
    std::cout << io::DumpJson(reports::LeaderboardToValue(board), 2);
  } else if (options.format == "html") {
    std::cout << reports::RenderHtmlPage(reports::MakeLeaderboardPage(board));
  } else {
    std::cout << reports::RenderMarkdownPage(reports::MakeLeaderboardPage(board));
  }
  for (const reports::Refusal& refusal : board.refused) {
    std::cerr << "not ranked: " << refusal.what << ": " << refusal.why << "\n";
  }
  return board.ranking.empty() ? ExitCode::kNothingSelected : ExitCode::kOk;
}

ExitCode PrintSchema(const std::string& name) {
  if (name == "report") {
    std::cout << reports::WholeReportSchema() << "\n";
    return ExitCode::kOk;
  }
  std::cout << (name == "cell"          ? reports::CellSchema()
                : name == "comparison"  ? gate::ComparisonSchema()
                : name == "dataset"     ? reports::DatasetSchema()
                : name == "leaderboard" ? reports::LeaderboardSchema()
                                        : reports::ScoreSchema());
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
