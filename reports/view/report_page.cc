// SPDX-License-Identifier: Apache-2.0
#include "reports/view/report_page.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "io/json.h"
#include "io/value_path.h"
#include "reports/result/device.h"
#include "reports/view/beside.h"
#include "reports/view/doubts.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/mixer_options.h"
#include "reports/view/numbers.h"
#include "reports/view/sentences.h"
#include "reports/view/spent.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"
#include "reports/view/trained_tables.h"

namespace mixerbench::reports {
namespace {

std::string Joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

// What cells ran on, in order; a CPU beside GPUs where cells of both did.
std::vector<std::string> DevicesOf(const SweepReport& report) {
  std::set<std::string> devices;
  for (const CellResult& cell : report.cells) devices.insert(DeviceOf(cell));
  devices.erase("");
  return {devices.begin(), devices.end()};
}

std::vector<Fact> Masthead(const SweepReport& report) {
  std::map<CellState, int> states;
  std::string first;
  std::string last;
  double seconds = 0;
  for (const CellResult& cell : report.cells) {
    ++states[cell.state];
    if (cell.started.empty()) continue;
    first = first.empty() ? cell.started : std::min(first, cell.started);
    last = std::max(last, cell.started);
  }
  for (const Spent& spent : SpentByCell(report)) seconds += spent.wall_s;
  std::string counts;
  int num_failed = 0;
  for (const auto& [state, count] : states) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : " · ", Count(count), NameOf(state));
    if (IsFailure(state)) num_failed += count;
  }
  std::vector<Fact> facts;
  const auto add = [&](const std::string& term, const std::string& text, const std::string& sub) {
    if (!text.empty()) facts.push_back({term, text, sub});
  };
  add("Device", Joined(DevicesOf(report)), "");
  const std::string torch = Joined(Distinct(report, "libtorch"));
  const std::string cuda = Joined(Distinct(report, "cuda.runtime"));
  const std::string version = Joined(Distinct(report, "tool.version"));
  std::vector<std::string> libraries;
  if (!torch.empty()) libraries.push_back("libtorch " + torch);
  if (!cuda.empty()) libraries.push_back("CUDA " + cuda);
  if (version.empty()) {
    add("Software", Joined(libraries), "");
  } else {
    add("Software", "mixerbench " + version, Joined(libraries));
  }
  add("Started", TimeText(first), last == first ? "" : "last cell " + TimeText(last));
  add("Cells", counts, fmt::format("{} failed", num_failed));
  add("Computing time",
      seconds < 120 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.1f} min", seconds / 60),
      "summed over cells");
  return facts;
}

std::string IdOf(const std::string& text) {
  std::string id;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    id += is_plain ? c : '-';
  }
  return id;
}

Section TrainingSection(const Study& study, const MixerList& mixers, std::size_t index,
                        std::optional<Table> published) {
  Section section{.id = fmt::format("task-{}-{}", index, IdOf(study.title)),
                  .title = study.title,
                  .short_title = study.title,
                  .question = "Which mixers learn the task, how fast, and where do they stop?",
                  .blocks = {}};
  section.blocks.emplace_back(Facts{SetupOf(study)});
  for (Table& table : AccuracyTables(study, mixers)) section.blocks.emplace_back(std::move(table));
  for (Block& block : TrainingFigures(study, mixers)) section.blocks.push_back(std::move(block));
  if (auto table = ModelTable(study, mixers)) section.blocks.emplace_back(std::move(*table));
  if (published) section.blocks.emplace_back(std::move(*published));
  return section;
}

std::optional<Section> SpeedSection(const SweepReport& report, const MixerList& mixers) {
  Section section{.id = "speed",
                  .title = "Speed and memory",
                  .short_title = "Speed",
                  .question = "What does it cost, and how does the cost grow with length?",
                  .blocks = {}};
  for (Table& table : SpeedTables(report, mixers)) section.blocks.emplace_back(std::move(table));
  for (Block& block : SpeedFigures(report, mixers)) section.blocks.push_back(std::move(block));
  if (auto table = PublishedCostTable(report, mixers)) {
    section.blocks.emplace_back(std::move(*table));
  }
  if (section.blocks.empty()) return std::nullopt;
  return section;
}

std::optional<Section> TrainedSection(const SweepReport& report, const MixerList& mixers) {
  Section section{.id = "trained",
                  .title = "With the trained weights",
                  .short_title = "Trained weights",
                  .question = "What do the trained models do beyond the tests of their training?",
                  .blocks = {}};
  if (auto table = EvaluationTable(report, mixers)) section.blocks.emplace_back(std::move(*table));
  if (auto table = TapTable(report, mixers)) section.blocks.emplace_back(std::move(*table));
  if (section.blocks.empty()) return std::nullopt;
  return section;
}

// The suite, or each of those that were merged, as `run` takes it.
std::vector<Code> SuitesOf(const SweepReport& report) {
  const auto code = [](const std::string& name, const Value& config) {
    return Code{
        .title = "Suite " + name,
        .note = "The exact configuration. Save it as suite.json, then: mixerbench run suite.json",
        .text = io::DumpJson(config, 1)};
  };
  const Value* merged = report.config.Find("merged");
  if (!merged || !merged->is_array()) return {code(report.name, report.config)};
  std::vector<Code> suites;
  for (const Value& suite : merged->as_array()) {
    suites.push_back(code(io::StringAt(suite, "name"), suite));
  }
  return suites;
}

Section Appendix(const SweepReport& report, const MixerList& mixers) {
  Section section{.id = "setup",
                  .title = "Cells, time and setup",
                  .short_title = "Cells, setup",
                  .question = "",
                  .blocks = {}};
  const auto add = [&](auto block) {
    if (block) section.blocks.emplace_back(std::move(*block));
  };
  add(TimeTable(report, mixers));
  add(PlanTable(report));
  section.blocks.emplace_back(CellTable(report, mixers));
  add(TimingTable(report, mixers));
  for (Code& suite : SuitesOf(report)) section.blocks.emplace_back(std::move(suite));
  section.blocks.emplace_back(Sentences{"Environment", {}});
  section.blocks.emplace_back(Facts{EnvironmentOf(report)});
  section.blocks.emplace_back(Sentences{"Terms", TermsOf(report)});
  return section;
}

// Of a report whose names tell its mixers apart.
Page PageOf(const SweepReport& report) {
  const MixerList mixers({&report});
  const std::vector<Study> studies = StudiesOf(report, mixers);
  Page page;
  page.eyebrow = "mixerbench report";
  page.title = report.name;
  if (const Value* description = report.config.Find("description");
      description && description->is_string()) {
    page.lead = description->as_string();
  }
  page.banner = BannerOf(report);
  page.facts = Masthead(report);
  page.glance = GlanceOf(report, studies, mixers);
  page.care = DoubtsOf(studies, mixers);
  for (Sentence& care : CareOf(report, studies)) page.care.push_back(std::move(care));
  std::vector<std::optional<Table>> published;
  for (const Study& study : studies) published.push_back(PublishedTable(study, mixers));
  if (auto care = PublishedCare(published)) page.care.push_back(std::move(*care));
  page.mixers = mixers.styles();
  if (auto failures = FailureTable(report, mixers)) {
    page.sections.push_back({.id = "failures",
                             .title = "What did not complete",
                             .short_title = "Failures",
                             .question = "",
                             .blocks = {std::move(*failures)}});
  }
  for (std::size_t i = 0; i < studies.size(); ++i) {
    page.sections.push_back(
        TrainingSection(studies[i], mixers, page.sections.size(), std::move(published[i])));
  }
  if (auto trained = TrainedSection(report, mixers)) page.sections.push_back(std::move(*trained));
  if (auto speed = SpeedSection(report, mixers)) page.sections.push_back(std::move(*speed));
  page.sections.push_back(Appendix(report, mixers));
  page.footer =
      "Built from the cells of this report: the same cells give the same bytes. "
      "Self-contained: no network, no fonts or scripts from elsewhere.";
  NumberBlocks(page);
  return page;
}

}  // namespace

Page MakeReportPage(const SweepReport& report) {
  const auto named = WithOptionsInNames(report);
  return PageOf(named ? *named : report);
}

}  // namespace mixerbench::reports
