// Timings stand beside those alone that they compare with.
// SPDX-License-Identifier: Apache-2.0
#include "reports/view/timing_settings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/report_page.h"
#include "reports/view/tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

struct Ran {
  std::string device = "H200";
  int width = 64;
  std::string commit = "aaaaaaa";
  std::string code_id = "sha256:1";
};

// Two forward passes of a mixer.
CellResult Timed(const std::string& mixer, double ms, const Ran& ran) {
  CellResult cell;
  cell.name = "mqar/" + mixer + "/";
  cell.kind = "throughput";
  cell.experiment_id = mixer + std::to_string(ran.width) + ran.device;
  cell.code_id = ran.code_id;
  cell.group_id = cell.experiment_id + ran.commit + ran.code_id;
  cell.run_id = cell.group_id;
  cell.state = CellState::kCompleted;
  cell.config = Object{
      {"model", Object{{"d_model", ran.width}, {"sequence_mixer", Object{{"name", mixer}}}}}};
  const bool is_cpu = ran.device == "EPYC";
  cell.environment = Object{{"device", is_cpu ? "cpu" : "cuda"},
                            {"cpu", Object{{"model", is_cpu ? ran.device : "Xeon"}}},
                            {"gpu", is_cpu ? Value() : Value(Object{{"name", ran.device}})},
                            {"tool", Object{{"git_commit", ran.commit}}}};
  for (const int length : {64, 128}) {
    ThroughputRow row;
    row.phase = "fwd";
    row.batch_size = 8;
    row.seq_len = length;
    row.dtype = "fp32";
    row.median_ms = ms;
    row.tokens_per_second = 1e6 / ms;
    cell.throughput.push_back(row);
  }
  return cell;
}

SweepReport Merged(std::vector<CellResult> cells) {
  return MakeSweepReport("m",
                         Object{{"merged", Array{Object{{"name", "a"}}, Object{{"name", "b"}}}}},
                         std::move(cells));
}

// The group of the columns of the only table, each once, with the number of its times.
std::vector<std::string> GroupsOf(const SweepReport& report) {
  const auto tables = SpeedTables(report, MixerList({&report}));
  REQUIRE(tables.size() == 1);
  std::vector<std::string> groups;
  for (std::size_t i = 1; i < tables.front().columns.size(); ++i) {
    const auto& rows = tables.front().rows;
    const auto num =
        std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.cells[i].value; });
    groups.push_back(tables.front().columns[i].group + " " + std::to_string(num));
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("Times of two devices are in columns and charts of their own", "[reports][view]") {
  const SweepReport report = Merged({Timed("gla", 0.2, {}), Timed("deltanet", 0.1, {}),
                                     Timed("gla", 10.7, {.device = "EPYC", .commit = "bbbbbbb"})});
  CHECK(GroupsOf(report) == Texts{"ms: EPYC 1", "ms: H200 2"});
  const auto figures = SpeedFigures(report, MixerList({&report}));
  Texts titles;
  for (const Panel& panel : std::get<Figure>(figures.at(0)).panels) titles.push_back(panel.title);
  CHECK(titles == Texts{"Forward pass, fp32, batch 8, EPYC", "Forward pass, fp32, batch 8, H200"});
  const Page page = MakeReportPage(report);
  const auto device = std::find_if(page.facts.begin(), page.facts.end(),
                                   [](const Fact& fact) { return fact.term == "Device"; });
  REQUIRE(device != page.facts.end());
  CHECK(device->text == "EPYC, H200");
  REQUIRE(page.glance.size() == 1);
  CHECK(page.glance[0].lead == "Forward pass (128 tokens, batch 8, fp32, H200):");
  CHECK(page.glance[0].text == "0.100 ms for deltanet to 0.200 ms for GLA.");
}

TEST_CASE("Times of suites that differ in the model are told by what differs", "[reports][view]") {
  const Ran wide{.width = 128};
  CHECK(GroupsOf(Merged({Timed("gla", 1, {}), Timed("deltanet", 2, wide)})) ==
        Texts{"ms: d 128 1", "ms: d 64 1"});
}

TEST_CASE("Times of two builds are told by the commit, or by the code", "[reports][view]") {
  const CellResult first = Timed("gla", 1, {});
  CHECK(GroupsOf(Merged({first, Timed("gla", 2, {.commit = "bbbbbbb"})})) ==
        Texts{"ms: commit aaaaaaa 1", "ms: commit bbbbbbb 1"});
  CHECK(GroupsOf(Merged({first, Timed("gla", 2, {.code_id = "sha256:2"})})) ==
        Texts{"ms: code id 1 1", "ms: code id 2 1"});
  CHECK(GroupsOf(Merged({first, Timed("deltanet", 2, {.code_id = "sha256:2"})})) == Texts{"ms 2"});
}

}  // namespace mixerbench::reports
