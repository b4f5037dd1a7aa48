// `status`: where the cells of a run folder stand.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/array_of.h"
#include "harness/cli/commands.h"
#include "harness/run/eta.h"
#include "harness/run/folder_report.h"
#include "harness/run/folder_status.h"
#include "harness/run/plan.h"
#include "io/json.h"
#include "io/text.h"
#include "reports/result/result_json.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {
namespace {

// "step 120/300, val 0.54, 2s ago".
std::string ProgressText(const AttemptProgress& attempt) {
  std::string text;
  if (attempt.num_steps > 0) text = fmt::format("step {}/{}, ", attempt.step, attempt.num_steps);
  if (attempt.validation_accuracy) {
    text += fmt::format("val {:.2f}, ", *attempt.validation_accuracy);
  }
  return text + FormatDuration(attempt.silent_s) + " ago";
}

std::string CellLine(const CellStatus& status) {
  const reports::CellResult& cell = status.cell;
  std::string line =
      fmt::format("{:.16}  {:<11}  {}", DigitsOf(cell.run_id), StateName(status), LabelOf(cell));
  if (!reports::IsMissing(cell)) line += ": " + FormatDuration(cell.wall_s);
  if (status.attempt) line += ": " + ProgressText(*status.attempt);
  if (!cell.reason.empty()) line += " (" + cell.reason + ")";
  return io::PlainLine(line) + "\n";
}

// Cells without a row: what is to be trained is not chosen or not entered yet.
std::string ReseedLine(const reports::Reseed& reseed) {
  const std::size_t count = reseed.unplanned.size();
  const std::string seeds =
      fmt::format("{}{}", reseed.unplanned.front(),
                  count > 1 ? fmt::format("..{}", reseed.unplanned.back()) : "");
  const std::string what = reseed.group_id.empty()
                               ? fmt::format("the best of {} such as {}, not chosen yet",
                                             reseed.num_settings, reseed.name)
                               : reseed.name + ", chosen";
  return io::PlainLine(
             fmt::format("{:<16}  {:<11}  {}: fresh seeds {}", "-", "planned", what, seeds)) +
         "\n";
}

std::string Summary(const FolderStatus& status) {
  std::string text = fmt::format("{}: {} cells", status.name, status.cells.size());
  const char* separator = ": ";
  for (const auto& [state, count] : CountStates(status)) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), count, state);
  }
  text += fmt::format("; {} to run", CountToRun(status));
  if (const std::size_t count = CountToRetry(status); count > 0) {
    text += fmt::format(", {} more with --retry failed", count);
  }
  if (const auto left = TimeLeft(status)) text += ", left " + FormatLeft(*left);
  if (!status.left_out.empty()) {
    text += fmt::format("; {} results beside the plan", status.left_out.size());
  }
  return io::PlainLine(text) + "\n";
}

Value AttemptToValue(const AttemptProgress& attempt) {
  return Object{{"step", attempt.step},
                {"num_steps", attempt.num_steps == 0 ? Value() : Value(attempt.num_steps)},
                {"validation_accuracy", reports::NumberOrNull(attempt.validation_accuracy)},
                {"elapsed_s", attempt.elapsed_s},
                {"silent_s", attempt.silent_s}};
}

Value CellToValue(const CellStatus& status) {
  const reports::CellResult& cell = status.cell;
  return Object{{"run_id", cell.run_id},
                {"cell", cell.name},
                {"kind", cell.kind},
                {"phase", reports::PhaseToValue(cell.phase)},
                {"seed", reports::SeedToValue(cell.seed)},
                {"state", StateName(status)},
                {"reason", reports::TextOrNull(cell.reason)},
                {"wall_s", reports::IsMissing(cell) ? Value() : reports::NumberOrNull(cell.wall_s)},
                {"attempt", status.attempt ? AttemptToValue(*status.attempt) : Value()}};
}

Value FolderToValue(const std::string& path, const FolderStatus& status) {
  Object states;
  for (const auto& [state, count] : CountStates(status)) states[state] = count;
  Array left_out;
  for (const reports::LeftOut& result : status.left_out) {
    left_out.push_back(Object{{"run_id", reports::TextOrNull(result.run_id)},
                              {"cell", result.name},
                              {"reason", result.reason}});
  }
  const auto left = TimeLeft(status);
  return Object{{"folder", path},
                {"name", status.name},
                {"states", std::move(states)},
                {"num_to_run", CountToRun(status)},
                {"num_to_retry", CountToRetry(status)},
                {"left_s", left ? Value(left->seconds) : Value()},
                {"left_is_at_least", left ? Value(left->at_least) : Value()},
                {"cells", ArrayOf(status.cells, CellToValue)},
                {"reseeds", ArrayOf(status.reseeds, reports::ReseedToValue)},
                {"left_out", std::move(left_out)}};
}

}  // namespace

ExitCode Status(const std::string& out, bool json) {
  Array folders;
  const RunsBelow runs = ReportsBelow(out);
  for (const std::string& path : runs.reports) {
    if (!std::filesystem::is_directory(path)) continue;  // a report alone
    const FolderStatus status = ReadStatus(path);
    folders.push_back(FolderToValue(path, status));
    if (json) continue;
    for (const CellStatus& cell : status.cells) std::cout << CellLine(cell);
    for (const reports::Reseed& reseed : status.reseeds) std::cout << ReseedLine(reseed);
    std::cout << Summary(status);
  }
  if (folders.empty()) {
    throw Error(ExitCode::kBadInput, out + ": a report; give the output folder of a run");
  }
  if (json) {
    const auto text = [](const std::string& path) { return Value(path); };
    std::cout << io::DumpJson(Object{{"folders", std::move(folders)},
                                     {"not_begun", ArrayOf(runs.not_begun, text)},
                                     {"beside", ArrayOf(runs.beside, text)}},
                              2);
    return ExitCode::kOk;
  }
  for (const std::string& note : NotesOn(runs)) std::cout << io::PlainLine(note) << "\n";
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
