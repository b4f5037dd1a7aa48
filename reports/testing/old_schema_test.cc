// Results of earlier versions of the schema, as programs of their time wrote them.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "reports/result/schema.h"
#include "reports/summary/sweep_report.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = "reports/testing/testdata";

// The result files of a version by kind and state.
std::map<std::string, std::string> ResultFiles(const fs::path& folder) {
  std::map<std::string, std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "result.json") continue;
    const std::string text = io::ReadFile(entry.path());
    const CellResult cell = ParseCell(text, entry.path());
    texts[cell.kind + " " + std::string(NameOf(cell.state))] = text;
  }
  return texts;
}

TEST_CASE("old schema: cells are valid, read, and written again in today's form") {
  for (const auto& [version, count] :
       {std::pair{std::string("1.0"), 1u}, std::pair{std::string("1.2"), 3u}}) {
    const auto files = ResultFiles(kFolder / ("schema-" + version));
    CHECK(files.size() == count);
    for (const auto& [name, text] : files) {
      INFO(version << " " << name);
      const Value document = io::ParseJson(text);
      CHECK(document.Find("schema_version")->as_string().starts_with(version));
      CHECK(ValidateCell(document) == std::vector<std::string>());
      const CellResult cell = ParseCell(text, name);
      CHECK(cell.experiment_id.empty());
      CHECK(cell.code_id.empty());
      CHECK(cell.data_id.empty());
      CHECK(cell.run_id == document.Find("identity")->Find("run_id")->as_string());
      const Value again = CellToValue(cell);
      CHECK(ValidateCell(again) == std::vector<std::string>());
      CHECK(again.Find("accuracy_by_length")->as_array().size() ==
            document.Find("accuracy_by_length")->as_array().size());
      CHECK(*again.Find("config") == *document.Find("config"));
      Value state = *again.Find("state");
      for (const char* later : {"halved_from", "planned_steps"}) {  // of 1.9, 1.11
        CHECK(state.Find(later)->is_null());
        state.as_object().erase(later);
      }
      CHECK(state == *document.Find("state"));
    }
  }
}

TEST_CASE("old schema: what a cell measured is what it said then") {
  const auto files = ResultFiles(kFolder / "schema-1.2");
  const CellResult trained = ParseCell(files.at("train completed"), "");
  CHECK(trained.name == "mqar/delta_net/weight_decay=0.1");
  CHECK(trained.step == 8);
  REQUIRE_FALSE(trained.accuracy.empty());
  CHECK(trained.accuracy.front().num_scored == 80);
  CHECK(trained.accuracy.front().num_correct == 0);
  CHECK_FALSE(trained.energy_j);
  CHECK(trained.machine.is_null());
  const CellResult diverged = ParseCell(files.at("train diverged"), "");
  CHECK(diverged.reason == "training loss is not finite at step 2");
  const CellResult timed = ParseCell(files.at("throughput completed"), "");
  REQUIRE(timed.throughput.size() == 2);
  CHECK_FALSE(timed.throughput.front().throttle);
}

TEST_CASE("old schema: a report is valid, reads, and its groups are still those of its cells") {
  const fs::path path = kFolder / "schema-1.2/report.json";
  const std::string text = io::ReadFile(path);
  CHECK(ValidateReport(io::ParseJson(text)) == std::vector<std::string>());
  const SweepReport report = ParseSweep(text, path);
  CHECK(report.cells.size() == 5);
  REQUIRE(report.groups.size() == 3);
  CHECK(report.groups[0].states.at("completed") == 1);  // speed
  CHECK(report.groups[1].states.at("completed") == 2);
  CHECK(report.groups[2].states.at("diverged") == 2);
  CHECK(ValidateReport(SweepToValue(report)) == std::vector<std::string>());
}

TEST_CASE("old schema: one changed digit is found") {
  std::string text = ResultFiles(kFolder / "schema-1.2").at("train completed");
  const std::size_t digit = text.find("\"num_scored\": ") + 14;
  text[digit] = text[digit] == '9' ? '8' : '9';
  CHECK_THROWS_WITH(ParseCell(text, "r.json"), Catch::Contains("does not match its checksum"));
}

}  // namespace
}  // namespace mixerbench::reports
