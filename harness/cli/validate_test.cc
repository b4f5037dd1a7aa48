// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "harness/cli/commands.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "reports/items/items.h"
#include "reports/result/result_json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/sweep_report.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const std::string kOldReport = "reports/testing/testdata/schema-1.2/report.json";

struct Answer {
  ExitCode code;
  std::string text;
};

Answer ValidateDeeply(const std::string& file) {
  const std::ostringstream captured;
  std::streambuf* terminal = std::cout.rdbuf(captured.rdbuf());
  const ExitCode code =
      Validate({.files = {file}, .overrides = {}, .is_deep = true},
               [](const std::string&, const SuiteOverrides&) { return ExitCode::kInternal; });
  std::cout.rdbuf(terminal);
  return {code, captured.str()};
}

TEST_CASE("validate --deep: what an older report's version leaves open is told") {
  const Answer answer = ValidateDeeply(kOldReport);
  CHECK(answer.code == ExitCode::kOk);
  CHECK(answer.text == kOldReport +
                           ": every aggregate agrees with what it is made of; not compared: "
                           "accuracies per sample and by class and ci_items (no items), "
                           "intervals over seeds and effective lengths of schema 1.2.0, nll\n");
}

// A run folder with one completed cell of two segments.
struct RunFolder {
  explicit RunFolder(const std::string& name)
      : out(std::filesystem::path(std::getenv("TEST_TMPDIR")) / name) {
    cell.name = "mqar/gla";
    cell.kind = "train";
    cell.experiment_id = cell.code_id = cell.data_id = cell.group_id = cell.run_id =
        "sha256:" + Sha256Hex("a");
    cell.config = Object{};
    std::filesystem::create_directories(CellFolder(out, cell.run_id));
    WritePlan(out, {"s", Object{{"name", "s"}}, {cell}});
    cell.state = reports::CellState::kCompleted;
    for (const int length : {64, 128}) {
      reports::AccuracyRow row;
      row.axes = {{"input_seq_len", length}};
      row.num_sequences = row.num_scored = row.num_correct = 4;
      row.accuracy = row.accuracy_per_example = row.accuracy_macro = 1;
      row.accuracy_macro_batched = row.sequence_accuracy = 1;
      row.ci_items = reports::ShareInterval(std::vector<reports::Score>(4, {1, 1}));
      cell.accuracy.push_back(row);
    }
  }
  std::string ResultFile() const { return CellFolder(out, cell.run_id) / "result.json"; }
  void Write() const { io::WriteFileAtomically(ResultFile(), reports::DumpCell(cell)); }

  std::filesystem::path out;
  reports::CellResult cell;
};

TEST_CASE("validate --deep: a damaged result is a fault that names its file") {
  const RunFolder folder("damaged");
  folder.Write();
  CHECK_THAT(ValidateDeeply(folder.out).text, !Catch::Contains("result.json"));
  std::string text = io::ReadFile(folder.ResultFile());
  text.replace(text.find("\"num_correct\": 4"), 16, "\"num_correct\": 3");
  io::WriteFileAtomically(folder.ResultFile(), text);
  const Answer forged = ValidateDeeply(folder.out);
  CHECK(forged.code == ExitCode::kNo);
  CHECK_THAT(forged.text, Catch::Contains(folder.ResultFile()));
  io::WriteFileAtomically(folder.ResultFile(), "{");
  const Answer cut = ValidateDeeply(folder.out);
  CHECK(cut.code == ExitCode::kNo);
  CHECK_THAT(cut.text, Catch::Contains(folder.ResultFile()));
}

TEST_CASE("validate --deep: each segment without items is named") {
  RunFolder folder("items");
  const std::string file = CellFolder(folder.out, folder.cell.run_id) / "items-0.jsonl";
  std::string lines;
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    const reports::Item item{.task = "mqar",
                             .segment = 0,
                             .length = 64,
                             .sample = sample,
                             .position = 3,
                             .expected = 5,
                             .predicted = 5,
                             .slices = {}};
    lines += reports::ItemLine(item) + "\n";
  }
  io::WriteFileAtomically(file, lines);
  folder.cell.items = {{.segment = 0,
                        .file = "items-0.jsonl",
                        .sha256 = "sha256:" + Sha256Hex(lines),
                        .num_bytes = std::ssize(lines),
                        .num_items = 4}};
  folder.Write();
  const Answer answer = ValidateDeeply(folder.out);
  CHECK(answer.text ==
        folder.out.string() +
            ": every aggregate agrees with what it is made of; not compared: accuracies per sample "
            "and by class and ci_items (no items of mqar/gla seed 0 segment 1)\n");
}

TEST_CASE("validate --deep: a report is held against its schema, too") {
  reports::SweepReport report = reports::ParseSweep(io::ReadFile(kOldReport), kOldReport);
  const std::string file =
      (std::filesystem::path(std::getenv("TEST_TMPDIR")) / "report.json").string();
  const auto write = [&] {
    io::WriteFileAtomically(
        file, reports::DumpSweep(reports::MakeSweepReport("s", report.config, report.cells)));
  };
  write();
  const Answer good = ValidateDeeply(file);
  CHECK(good.code == ExitCode::kOk);
  CHECK(good.text == file +
                         ": every aggregate agrees with what it is made of; not compared: "
                         "accuracies per sample and by class and ci_items (no items), nll\n");
  for (reports::CellResult& cell : report.cells) {  // read, but no form that is ever written
    for (reports::AccuracyRow& row : cell.accuracy) {
      row.accuracy.reset();
      row.ci_items.reset();
    }
  }
  write();
  const Answer bad = ValidateDeeply(file);
  CHECK(bad.code == ExitCode::kNo);
  CHECK_THAT(bad.text, Catch::Contains("violations of its schema; /cells/"));
}

}  // namespace
}  // namespace mixerbench::harness
