// `report`, `schema` and `validate` of results: finished cells, their form, and whether they have
// it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "harness/cli/commands.h"
#include "harness/run/collection_report.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "io/dataset_manifest.h"
#include "io/json.h"
#include "reports/export/accuracy_csv.h"
#include "reports/export/export.h"
#include "reports/items/items.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/result/result_json.h"
#include "reports/result/schema.h"
#include "reports/score/score.h"
#include "reports/summary/deep_check.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxShownViolations = 3;

void RequireCells(const reports::SweepReport& report, const std::string& path) {
  if (!report.cells.empty()) return;
  throw Error(ExitCode::kNothingSelected, path + ": no finished cells yet");
}

// Whether the report is whole; in words on stderr, where the answer does not go.
ExitCode StateOf(const reports::SweepReport& report) {
  for (const reports::Sentence& note : reports::BannerOf(report)) {
    std::cerr << note.lead << " " << note.text << "\n";
  }
  if (reports::CountMissing(report) > 0) return ExitCode::kMissing;
  const bool completed = std::all_of(
      report.cells.begin(), report.cells.end(),
      [](const reports::CellResult& cell) { return cell.state == reports::CellState::kCompleted; });
  return completed ? ExitCode::kOk : ExitCode::kCellsFailed;
}

// The name of the run folder: pages that are published tell no paths of a machine.
std::string SourceName(const std::filesystem::path& path) {
  const auto whole = std::filesystem::weakly_canonical(path);
  return (whole.filename() == "report.json" ? whole.parent_path() : whole).filename().string();
}

// From the folder in which the command runs, where its output is meant to lie, to the page of a
// report below it; else to the report itself, "" where it lies elsewhere.
std::string LinkTo(const std::filesystem::path& path) {
  const auto whole = std::filesystem::weakly_canonical(path);
  const auto folder = std::filesystem::is_directory(whole) ? whole : whole.parent_path();
  for (const char* name : {"report.html", "report.md", "report.json"}) {
    const auto relative = (folder / name).lexically_proximate(std::filesystem::current_path());
    const bool is_below = relative.is_relative() && *relative.begin() != "..";
    if (is_below && std::filesystem::exists(folder / name)) return relative.generic_string();
  }
  return "";
}

bool IsCollection(const std::filesystem::path& out) {
  return std::filesystem::exists(out / kCollectionFile);
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

ExitCode ReportScore(const std::string& out, const std::string& format) {
  const auto score = ScoreOf(out);
  if (!score) {
    throw Error(ExitCode::kNothingSelected,
                out + ": a collection without a score; report one of its folders");
  }
  if (format == "json") {
    std::cout << io::DumpJson(reports::ScoreToValue(*score), 2);
  } else if (format == "html") {
    std::cout << reports::RenderHtmlPage(reports::MakeScorePage(*score));
  } else if (format == "md") {
    std::cout << reports::RenderMarkdownPage(reports::MakeScorePage(*score));
  } else {
    throw ConfigError("--format", "a score is json, md or html; '" + format +
                                      "' is for the folders of its suites");
  }
  return StateOf(*score);
}

// What a folder's files should say, and the first that says something else.
std::vector<std::string> ScoreFaults(const std::filesystem::path& out) {
  const auto score = ScoreOf(out);
  const std::filesystem::path file = out / "score.json";
  if (!score || !std::filesystem::exists(file)) return {};
  if (io::ReadFile(file) == io::DumpJson(reports::ScoreToValue(*score), 2)) return {};
  return {"score.json is not what its reports give; `report` shows what they give"};
}

}  // namespace

ExitCode Report(const std::string& out, const std::string& format) {
  if (IsCollection(out)) return ReportScore(out, format);
  const reports::SweepReport report = ReadReport(out);
  RequireCells(report, out);
  if (format == "json") {
    std::cout << reports::DumpSweep(report);
  } else if (format == "html") {
    std::cout << reports::RenderHtmlPage(reports::MakeReportPage(report));
  } else if (format == "csv") {
    std::cout << reports::RenderAccuracyCsv(report);
  } else if (format == "csv-cells") {
    std::cout << reports::RenderCellsCsv(report);
  } else if (format == "csv-groups") {
    std::cout << reports::RenderGroupsCsv(report);
  } else if (format == "csv-curves") {
    std::cout << reports::RenderCurvesCsv(report);
  } else if (format == "csv-timings") {
    std::cout << reports::RenderTimingsCsv(report);
  } else if (format == "csv-taps") {
    std::cout << reports::RenderTapsCsv(report);
  } else if (format == "gbench") {
    std::cout << reports::RenderGoogleBenchmark(report);
  } else if (format == "mllog") {
    std::cout << reports::RenderMlLog(report);
  } else {
    std::cout << reports::RenderMarkdownPage(reports::MakeReportPage(report));
  }
  return StateOf(report);
}

ExitCode Leaderboard(const LeaderboardOptions& options) {
  std::vector<reports::LeaderboardInput> inputs;
  for (const std::string& out : options.outs) {
    for (const std::string& path : ReportsBelow(out)) {
      inputs.push_back({SourceName(path), ReadReport(path), LinkTo(path)});
    }
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

ExitCode ValidateDeep(const std::string& path) {
  std::vector<std::string> faults;
  if (IsCollection(path)) {
    faults = ScoreFaults(path);
  } else if (std::filesystem::is_directory(std::filesystem::path(path) / "cells")) {
    const reports::SweepReport report = ReportOf(path);
    RequireCells(report, path);
    faults = reports::DeepFaults(report);
    for (const reports::CellResult& cell : report.cells) {
      for (const reports::KeptItems& items : cell.items) {
        const auto found = reports::ItemFaults(CellFolder(path, cell.run_id), cell, items);
        faults.insert(faults.end(), found.begin(), found.end());
      }
    }
    const std::filesystem::path file = std::filesystem::path(path) / "report.json";
    if (std::filesystem::exists(file) && io::ReadFile(file) != reports::DumpSweep(report)) {
      faults.push_back("report.json is not what its cells give; `report` shows what they give");
    }
  } else {
    const reports::SweepReport report = ReadReport(path);
    RequireCells(report, path);
    faults = reports::DeepFaults(report);
  }
  for (const std::string& fault : faults) std::cout << path << ": " << fault << "\n";
  if (!faults.empty()) return ExitCode::kNo;
  std::cout << path << ": every aggregate agrees with what it is made of\n";
  return ExitCode::kOk;
}

bool ValidateResultFile(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  if (file.ends_with(".jsonl") || file.ends_with(".jsonl.zst")) {
    const std::string fault = reports::ItemFormFault(file);
    if (!fault.empty()) throw Error(ExitCode::kBadInput, fault);
    std::cout << file << ": valid; `validate --deep` of its run counts it again\n";
    return true;
  }
  const std::string text = io::ReadFile(file);
  const Value document = io::ParseJson(text, io::kReportLimits);
  const Value* kind = document.Find("kind");
  if (!kind || !kind->is_string()) return false;
  if (kind->as_string() == "dataset") {
    io::ParseManifest(text, file);
    std::cout << file << ": valid; `verify` compares the samples\n";
    return true;
  }
  if (kind->as_string() == "leaderboard" || kind->as_string() == "score") {
    const auto violations = kind->as_string() == "score" ? reports::ValidateScore(document)
                                                         : reports::ValidateLeaderboard(document);
    if (!violations.empty()) throw Error(ExitCode::kBadInput, file + ": " + violations.front());
    std::cout << file << ": valid\n";
    return true;
  }
  const bool is_report = kind->as_string() == "sweep";
  if (!is_report && kind->as_string() != "run") {
    throw Error(ExitCode::kBadInput, file + ": kind '" + kind->as_string().substr(0, 40) +
                                         "' is none of run, sweep, leaderboard, score and dataset");
  }
  const auto violations =
      is_report ? reports::ValidateReport(document) : reports::ValidateCell(document);
  if (!violations.empty()) {
    std::string message = file + ": " + std::to_string(violations.size()) + " violations";
    for (std::size_t i = 0; i < std::min(violations.size(), kMaxShownViolations); ++i) {
      message += "; " + violations[i];
    }
    throw Error(ExitCode::kBadInput, message);
  }
  if (is_report) {
    reports::ParseSweep(text, file);  // checksums, and aggregates against their cells
  } else {
    reports::ParseCell(text, file);
  }
  std::cout << file << ": valid\n";
  return true;
}

ExitCode PrintSchema(const std::string& name) {
  std::cout << (name == "cell"          ? reports::CellSchema()
                : name == "leaderboard" ? reports::LeaderboardSchema()
                                        : reports::ReportSchema());
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
