// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "harness/cli/commands.h"
#include "io/atomic_file.h"
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
                           "accuracies per sample and by class (no items), "
                           "intervals over seeds and effective lengths of schema 1.2.0\n");
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
                         "accuracies per sample and by class (no items)\n");
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
