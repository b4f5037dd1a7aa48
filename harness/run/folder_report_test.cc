// A run folder's plan and what its report says of cells without result and of results beside it.
// SPDX-License-Identifier: Apache-2.0
#include "harness/run/folder_report.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "reports/result/result_json.h"
#include "reports/view/sentences.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

fs::path NewFolder(const std::string& name) {
  const fs::path out = fs::path(std::getenv("TEST_TMPDIR")) / name;
  fs::remove_all(out);
  fs::create_directories(out / "cells");
  return out;
}

// What asks for `lr` with a seed, of code `code`.
CellResult Planned(const std::string& lr, std::uint64_t seed, const std::string& code = "a") {
  CellResult cell;
  cell.name = "mqar/gla/lr=" + lr;
  cell.kind = "train";
  cell.seed = seed;
  cell.experiment_id = "sha256:" + Sha256Hex(lr);
  cell.code_id = "sha256:" + Sha256Hex(code);
  cell.data_id = "sha256:" + Sha256Hex("data");
  cell.group_id = "sha256:" + Sha256Hex(lr + code);
  cell.run_id = "sha256:" + Sha256Hex(lr + code + std::to_string(seed));
  cell.config = Object{{"train", Object{{"lr", lr}}}};
  return cell;
}

void Finish(const fs::path& out, CellResult cell) {
  cell.state = CellState::kCompleted;
  fs::create_directories(CellFolder(out, cell.run_id));
  io::WriteFileAtomically(CellFolder(out, cell.run_id) / "result.json", reports::DumpCell(cell));
}

TEST_CASE("plan: what is written is read, and a damaged one is an error that says what to do") {
  const fs::path out = NewFolder("plan");
  CHECK_FALSE(ReadPlan(out));
  WritePlan(out, {"s", Object{{"name", "s"}}, {Planned("0.1", 0), Planned("0.1", 1)}});
  const auto plan = ReadPlan(out);
  REQUIRE(plan);
  CHECK(plan->name == "s");
  CHECK(*plan->config.Find("name") == Value("s"));
  REQUIRE(plan->cells.size() == 2);
  CHECK(plan->cells[1].run_id == Planned("0.1", 1).run_id);
  CHECK(plan->cells[1].state == CellState::kPlanned);
  std::string text = io::ReadFile(out / "sweep.json");
  text.replace(text.find("lr=0.1"), 6, "lr=0.9");
  std::ofstream(out / "sweep.json") << text;
  CHECK_THROWS_WITH(ReadPlan(out),
                    Catch::Contains("checksum") && Catch::Contains("remove the file"));
  // It may be whole: nobody is told to remove it.
  fs::remove(out / "sweep.json");
  fs::create_directory(out / "sweep.json");
  CHECK_THROWS_WITH(ReadPlan(out),
                    (out / "sweep.json").string() + ": cannot read: not a regular file");
  fs::remove(out / "sweep.json");
  // What earlier versions wrote there is no plan.
  std::ofstream(out / "sweep.json") << R"({"name": "s"})";
  CHECK_FALSE(ReadPlan(out));
}

TEST_CASE("folder report: a cell with smaller batches is named by them, and the page says so") {
  const fs::path out = NewFolder("halved");
  CellResult plain = Planned("0.1", 0);
  plain.name = "mqar/gla";
  WritePlan(out, {"s", Object{}, {plain, Planned("0.2", 1)}});
  for (CellResult cell : {plain, Planned("0.2", 1)}) {
    cell.experiment_id = "sha256:" + Sha256Hex("smaller batches");
    cell.config.as_object()["train"].as_object()["batch_size"] = 128;
    cell.halved_from = 512;
    Finish(out, cell);
  }
  const reports::SweepReport report = ReportOf(out);
  REQUIRE(report.cells.size() == 2);
  CHECK(report.cells[0].name == "mqar/gla/batch_size=128");
  CHECK(report.cells[1].name == "mqar/gla/lr=0.2,batch_size=128");
  CHECK(reports::BannerOf(report).back().text ==
        "2 cells did not fit in memory as asked and trained with smaller batches, which is another "
        "experiment: mqar/gla/batch_size=128 seed 0 (512 asked for), "
        "mqar/gla/lr=0.2,batch_size=128 seed 1 (512 asked for).");
}

TEST_CASE("folder report: a planned cell without result is a row") {
  const fs::path out = NewFolder("rows");
  WritePlan(out, {"s", Object{}, {Planned("0.1", 0), Planned("0.1", 1), Planned("0.1", 2)}});
  Finish(out, Planned("0.1", 0));
  fs::create_directories(CellFolder(out, Planned("0.1", 1).run_id));
  std::ofstream(CellFolder(out, Planned("0.1", 1).run_id) / "events.jsonl") << "{}\n";
  const reports::SweepReport report = ReportOf(out);
  REQUIRE(report.cells.size() == 3);
  CHECK(report.cells[0].state == CellState::kCompleted);
  CHECK(report.cells[1].state == CellState::kInterrupted);
  CHECK(report.cells[2].state == CellState::kPlanned);
  CHECK(reports::CountMissing(report) == 2);
  CHECK(report.left_out.empty());
  REQUIRE(reports::BannerOf(report).size() == 1);
  CHECK(reports::BannerOf(report)[0].lead == "Not finished:");
  CHECK(reports::BannerOf(report)[0].text == "2 of 3 planned cells have no result yet.");
  WriteReports(out);
  const std::string json = io::ReadFile(out / "report.json");
  CHECK(reports::ParseSweep(json, "").cells.size() == 3);
  CHECK_THAT(io::ReadFile(out / "report.md"), Catch::Contains("2 of 3 planned cells"));
  CHECK_THAT(io::ReadFile(out / "report.html"), Catch::Contains("2 of 3 planned cells"));
}

TEST_CASE("folder report: results beside the plan are named and left out") {
  const fs::path out = NewFolder("beside");
  WritePlan(out, {"s", Object{}, {Planned("0.1", 0, "new"), Planned("0.1", 1, "new")}});
  Finish(out, Planned("0.1", 0, "new"));
  Finish(out, Planned("0.1", 1, "old"));
  Finish(out, Planned("0.9", 0, "new"));
  CellResult early = Planned("0.1", 7, "early");
  early.experiment_id = early.code_id = early.data_id = "";
  Finish(out, early);
  fs::create_directories(out / "cells/damaged");
  std::ofstream(out / "cells/damaged/result.json") << "{";
  const reports::SweepReport report = ReportOf(out);
  REQUIRE(report.cells.size() == 2);
  CHECK(report.cells[0].state == CellState::kCompleted);
  CHECK(report.cells[1].state == CellState::kPlanned);  // its result is of older code
  std::map<std::string, std::string> reasons;
  for (const auto& left_out : report.left_out) reasons[left_out.reason] = left_out.name;
  CHECK(reasons == std::map<std::string, std::string>{{"of other code", "mqar/gla/lr=0.1"},
                                                      {"of another plan", "mqar/gla/lr=0.9"},
                                                      {"of an earlier version", "mqar/gla/lr=0.1"},
                                                      {"unreadable", "cells/damaged"}});
  const auto notes = reports::BannerOf(report);
  CHECK(notes.size() == 5);
  CHECK(notes[3].lead == "Left out:");
  CHECK(notes[3].text == "1 result of other code: mqar/gla/lr=0.1 seed 1.");
  const auto again = reports::ParseSweep(reports::DumpSweep(report), "");
  CHECK(again.left_out.size() == 4);
}

TEST_CASE("folder report: a published report is read without its cells") {
  const fs::path out = NewFolder("published");
  WritePlan(out, {"s", Object{{"name", "s"}}, {Planned("0.1", 0)}});
  Finish(out, Planned("0.1", 0));
  WriteReports(out);
  const fs::path published = NewFolder("published-alone");
  fs::copy_file(out / "report.json", published / "report.json");

  const std::string whole = reports::DumpSweep(ReadReport(out));
  CHECK(reports::DumpSweep(ReadReport(published / "report.json")) == whole);
  CHECK(reports::DumpSweep(ReadReport(published)) == whole);
  CHECK_THROWS_AS(ReadReport(NewFolder("published-not")), Error);
}

TEST_CASE("folder report: a folder of an earlier version shows what finished") {
  const fs::path out = "reports/testing/testdata/schema-1.2";
  const reports::SweepReport report = ReportOf(out);
  CHECK(report.name == "golden");
  CHECK(report.cells.size() == 3);
  CHECK(report.left_out.empty());
  CHECK_THROWS_AS(ReportOf("reports/testing/testdata"), Error);
}

TEST_CASE("folder report: of a collection's folder, what its suites are named is what counts") {
  const fs::path out = NewFolder("collection");
  for (const char* name : {"a", "b", "old"}) {
    fs::create_directories(out / name / "cells");
    WritePlan(out / name, {name, Object{{"name", name}}, {Planned("0.1", 0)}});
  }
  const auto paths = [&](const std::vector<std::string>& names) {
    std::vector<std::string> whole;
    for (const std::string& name : names) whole.push_back((out / name).string());
    return whole;
  };
  CHECK(FindReports(out).reports == paths({"a", "b", "old"}));

  std::ofstream(out / "collection.json")
      << R"({"name": "c", "suites": [{"suite": "dir/b.json"}, {"suite": "b.json", "name": "a"},
                                     {"suite": "quickstart"}]})";
  const RunsBelow runs = FindReports(out);
  CHECK(runs.reports == paths({"a", "b"}));
  CHECK(runs.not_begun == paths({"quickstart"}));
  CHECK(runs.beside == paths({"old"}));
  CHECK(NotesOn(runs).size() == 2);

  for (const char* damaged : {"{", "{}", R"({"suites": [3]})", R"({"suites": [{"name": 3}]})"}) {
    std::ofstream(out / "collection.json") << damaged;
    CHECK_THROWS_WITH(FindReports(out), Catch::Contains("collection.json: "));
  }
}

}  // namespace
}  // namespace mixerbench::harness
