// `validate`: whether files have the form that they should, and aggregates what they are made of.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gate/render/comparison_json.h"
#include "harness/cli/commands.h"
#include "harness/run/collection_folder.h"
#include "harness/run/collection_report.h"
#include "harness/run/exit_order.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "io/dataset_manifest.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/items/items.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/result/result_json.h"
#include "reports/result/schema.h"
#include "reports/score/score.h"
#include "reports/summary/deep_check.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/sentences.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxShownViolations = 3;

// "5 violations of its schema; /cells/0: ...", the first of them; empty without any.
std::string ViolationsText(const std::vector<std::string>& violations) {
  if (violations.empty()) return "";
  std::string text = std::to_string(violations.size()) + " violations of its schema";
  for (std::size_t i = 0; i < std::min(violations.size(), kMaxShownViolations); ++i) {
    text += "; " + violations[i];
  }
  return text;
}

// What a folder's files should say, and the first that says something else.
std::vector<std::string> ScoreFaults(const std::filesystem::path& out) {
  const auto score = ScoreOf(out);
  const std::filesystem::path file = out / "score.json";
  if (!score || !std::filesystem::exists(file)) return {};
  if (io::ReadFile(file) == io::DumpJson(reports::ScoreToValue(*score), 2)) return {};
  return {"score.json is not what its reports give; `report` shows what they give"};
}

// The report as it is published.
Value DocumentOf(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "report.json" : path;
  return io::ParseJson(io::ReadFile(file, io::kReportLimits.max_bytes), io::kReportLimits);
}

// Whether a row has figures that its counts alone do not give.
bool NeedsItems(const reports::AccuracyRow* row) {
  return row->accuracy_per_example || row->accuracy_macro || row->ci_items;
}

// The segments with such figures, and those of them without items: all of a report that lies
// without its cells.
struct ItemNeeds {
  std::size_t num_segments = 0;
  std::vector<std::string> without;
};

ItemNeeds ItemNeedsOf(const reports::SweepReport& report, bool is_run) {
  ItemNeeds needs;
  for (const reports::CellResult& cell : report.cells) {
    std::set<std::int64_t> kept;
    for (const reports::KeptItems& items : cell.items) kept.insert(items.segment);
    for (std::int64_t segment = 0;; ++segment) {
      const auto rows = reports::RowsOf(cell, segment);
      if (rows.empty()) break;
      if (std::none_of(rows.begin(), rows.end(), NeedsItems)) continue;
      ++needs.num_segments;
      if (is_run && kept.contains(segment)) continue;
      needs.without.push_back(cell.name + " seed " + std::to_string(cell.seed) + " segment " +
                              std::to_string(segment));
    }
  }
  return needs;
}

// "" when all segments have items.
std::string NotComparedText(const ItemNeeds& needs) {
  if (needs.without.empty()) return "";
  const bool is_all = needs.without.size() == needs.num_segments;
  return "accuracies per sample and by class and ci_items (no items" +
         (is_all ? "" : " of " + reports::FirstOf(needs.without, "; ")) + ")";
}

// Losses are of logits, which no file has.
bool HasLosses(const reports::SweepReport& report) {
  return std::any_of(report.cells.begin(), report.cells.end(), [](const auto& cell) {
    return std::any_of(cell.accuracy.begin(), cell.accuracy.end(),
                       [](const auto& row) { return row.nll.has_value(); });
  });
}

struct RunFindings {
  std::vector<std::string> faults;
  std::set<std::string> not_compared;
};

// What a run folder or report.json says beside its schema and what it is made of; a folder's
// report.json is compared byte by byte.
RunFindings FindIn(const std::filesystem::path& path) {
  const bool is_run = std::filesystem::is_directory(path / "cells");
  const reports::SweepReport report = is_run ? ReportOf(path) : ReadReport(path);
  RequireCells(report, path.string());
  RunFindings found{.faults = reports::DeepFaults(report), .not_compared = {}};
  std::vector<std::string>& faults = found.faults;
  const Value document = is_run ? reports::SweepToValue(report) : DocumentOf(path);
  const std::string violations = ViolationsText(reports::ValidateReport(document));
  if (!violations.empty()) faults.push_back(violations);
  const std::string of_items = NotComparedText(ItemNeedsOf(report, is_run));
  if (!of_items.empty()) found.not_compared.insert(of_items);
  if (HasLosses(report)) found.not_compared.insert("nll");
  if (!is_run) {
    const auto open = reports::NotCompared(io::StringAt(document, "schema_version"));
    if (!open.empty()) found.not_compared.insert(open);
    return found;
  }
  const auto damaged = DamagedResults(path);
  faults.insert(faults.end(), damaged.begin(), damaged.end());
  for (const reports::CellResult& cell : report.cells) {
    for (const reports::KeptItems& items : cell.items) {
      const auto of_file = reports::ItemFaults(CellFolder(path, cell.run_id), cell, items);
      faults.insert(faults.end(), of_file.begin(), of_file.end());
    }
  }
  const std::filesystem::path file = path / "report.json";
  if (std::filesystem::exists(file) && io::ReadFile(file) != reports::DumpSweep(report)) {
    faults.push_back("report.json is not what its cells give; `report` shows what they give");
  }
  return found;
}

// Recomputes every aggregate of a run folder, a report.json, or those of a collection's suites and
// its score. kNo when anything differs, kMissing when a suite has neither run folder nor report.
ExitCode ValidateDeep(const std::string& path) {
  RunsBelow runs;
  bool is_fault = false;
  const auto say = [&](const std::string& where, const std::vector<std::string>& faults) {
    for (const std::string& fault : faults) std::cout << where << ": " << fault << "\n";
    is_fault = is_fault || !faults.empty();
  };
  if (IsCollection(path)) {
    runs = ReportsBelow(path);
    say(path, ScoreFaults(path));
  } else {
    runs.reports = {path};
  }
  std::set<std::string> not_compared;
  for (const std::string& run : runs.reports) {
    RunFindings found = FindIn(run);
    say(run, found.faults);
    not_compared.merge(found.not_compared);
  }
  for (const std::string& note : NotesOn(runs)) std::cerr << note << "\n";
  const bool is_whole = runs.not_begun.empty();
  if (!is_fault) {
    std::cout << path << ": every aggregate " << (is_whole ? "" : "that is there ")
              << "agrees with what it is made of";
    const char* separator = "; not compared: ";
    for (const std::string& part : not_compared)
      std::cout << std::exchange(separator, ", ") << part;
    std::cout << "\n";
  }
  return First(is_whole ? ExitCode::kOk : ExitCode::kMissing,
               is_fault ? ExitCode::kNo : ExitCode::kOk);
}

bool IsItemFile(const std::string& file) {
  return file.ends_with(".jsonl") || file.ends_with(".jsonl.zst");
}

// A result or a manifest, which says its kind; of items nothing is read here.
struct ResultFile {
  std::string text;
  Value document;
  std::string kind;
};

// Nothing for a suite, which says no kind, and for what is no JSON: whoever reads suites tells what
// is wrong with it.
std::optional<ResultFile> ReadResultFile(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;
  ResultFile result;
  if (IsItemFile(file)) return result;
  result.text = io::ReadFile(file);
  try {
    result.document = io::ParseJson(result.text, io::kReportLimits);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  result.kind = io::StringAt(result.document, "kind");
  if (result.kind.empty()) return std::nullopt;
  return result;
}

// A report or a cell's result against its schema and its checksums; the form of a data set's
// manifest or of a file of items. Throws Error(kBadInput) with the first violations.
ExitCode ValidateResult(const std::string& file, const ResultFile& result) {
  if (IsItemFile(file)) {
    const std::string fault = reports::ItemFormFault(file);
    if (!fault.empty()) throw Error(ExitCode::kBadInput, fault);
    std::cout << file << ": valid; `validate --deep` of its run counts it again\n";
    return ExitCode::kOk;
  }
  const auto& [text, document, kind] = result;
  if (kind == "dataset") {
    io::ParseManifest(text, file);
    std::cout << file << ": valid; `verify` compares the samples\n";
    return ExitCode::kOk;
  }
  if (kind == "leaderboard" || kind == "score" || kind == "comparison") {
    const auto violations = kind == "score" ? reports::ValidateScore(document)
                            : kind == "comparison"
                                ? reports::ValidateAgainst(gate::ComparisonSchema(), document)
                                : reports::ValidateLeaderboard(document);
    if (!violations.empty()) throw Error(ExitCode::kBadInput, file + ": " + violations.front());
    std::cout << file << ": valid\n";
    return ExitCode::kOk;
  }
  const bool is_report = kind == "sweep";
  if (!is_report && kind != "run") {
    throw Error(ExitCode::kBadInput,
                file + ": kind '" + kind.substr(0, 40) +
                    "' is none of run, sweep, leaderboard, score, comparison and "
                    "dataset");
  }
  const std::string violations = ViolationsText(is_report ? reports::ValidateReport(document)
                                                          : reports::ValidateCell(document));
  if (!violations.empty()) throw Error(ExitCode::kBadInput, file + ": " + violations);
  if (is_report) {
    reports::ParseSweep(text, file);  // checksums, and aggregates against their cells
  } else {
    reports::ParseCell(text, file);
  }
  std::cout << file << ": valid\n";
  return ExitCode::kOk;
}

// What is set changes suites alone.
void RequireSuite(const SuiteOverrides& overrides, bool is_any) {
  if (is_any || (overrides.set.empty() && !overrides.smoke)) return;
  throw ConfigError(overrides.smoke ? "--smoke" : "--set", "no suite is given, which it changes");
}

// All files, whatever is wrong with some of them.
ExitCode ValidateEach(const ValidateOptions& options, const SuiteValidator& validate_suite) {
  ExitCode worst = ExitCode::kOk;
  const auto run = [&](const std::string& file, const auto& validate) {
    try {
      worst = First(worst, validate());
    } catch (const Error& error) {
      const std::string text = error.what();
      std::cerr << "error: " << (text.starts_with(file) ? "" : file + ": ") << text << "\n";
      worst = First(worst, error.code());
    }
  };
  if (options.is_deep) {
    for (const std::string& file : options.files) run(file, [&] { return ValidateDeep(file); });
    return worst;
  }
  // Suites first: nothing must have been said when another program takes over for them.
  std::vector<std::pair<std::string, ResultFile>> results;
  for (const std::string& file : options.files) {
    if (auto result = ReadResultFile(file)) {
      results.emplace_back(file, std::move(*result));
    } else {
      run(file, [&] { return validate_suite(file, options.overrides); });
    }
  }
  RequireSuite(options.overrides, results.size() < options.files.size());
  for (const auto& [file, result] : results) {
    run(file, [&, &name = file, &read = result] { return ValidateResult(name, read); });
  }
  return worst;
}

}  // namespace

ExitCode Validate(const ValidateOptions& options, const SuiteValidator& validate_suite) {
  if (options.files.size() > 1) return ValidateEach(options, validate_suite);
  const std::string& file = options.files.front();
  if (options.is_deep) return ValidateDeep(file);
  const auto result = ReadResultFile(file);
  RequireSuite(options.overrides, !result);
  if (result) return ValidateResult(file, *result);
  return validate_suite(file, options.overrides);
}

}  // namespace mixerbench::harness
