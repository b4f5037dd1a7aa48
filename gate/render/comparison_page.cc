// SPDX-License-Identifier: Apache-2.0
#include "gate/render/comparison_page.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "gate/render/comparison_tables.h"
#include "gate/render/row_text.h"
#include "reports/render/html_page.h"
#include "reports/view/sentences.h"

namespace mixerbench::gate {
namespace {

using reports::Block;
using reports::Fact;
using reports::Page;
using reports::Section;
using reports::Sentence;
using reports::Sentences;

constexpr std::size_t kMaxCellsOfNote = 8;  // that are named

Fact SideFact(const char* term, const SideFacts& side) {
  std::string sub = side.code.empty() ? "code unknown" : "code " + side.code;
  if (!side.commit.empty()) sub += ", commit " + side.commit;
  return {term, side.name, sub};
}

std::string SeedsText(const Comparison& comparison) {
  std::size_t most = 0;
  for (const Row& row : comparison.rows) {
    if (row.gate == Gate::kLearning) most = std::max(most, row.seeds.size());
  }
  return most == 0 ? kNoText : fmt::format("{} paired", most);
}

std::string LooksText(const GateSettings& settings) {
  std::string text;
  for (const std::int64_t look : settings.looks) {
    text += (text.empty() ? "looks at " : ", ") + std::to_string(look);
  }
  return text;
}

// "mqar: 64 tokens, d 64; throughput: d 64", or once what several tasks share.
std::string SharedText(const CellLabels& labels) {
  std::map<std::string, std::string> tasks;  // by what they share
  for (const auto& [task, text] : labels.shared()) {
    std::string& names = tasks[text];
    names += (names.empty() ? "" : ", ") + task;
  }
  std::string text;
  for (const auto& [shared, names] : tasks) {
    text += (text.empty() ? "" : "; ") + names + ": " + shared;
  }
  return text;
}

std::vector<Fact> PageFacts(const Comparison& comparison, const CellLabels& labels) {
  const bool same_device = comparison.base.device == comparison.candidate.device;
  std::vector<Fact> facts = {
      SideFact("Base", comparison.base),
      SideFact("New", comparison.candidate),
      {"Device", comparison.candidate.device.empty() ? kNoText : comparison.candidate.device,
       same_device ? "same on both sides" : "base: " + comparison.base.device},
      {"Data",
       fmt::format("{} of {} hashes equal", comparison.hashes_equal, comparison.hashes_compared),
       ""},
      {"Seeds", SeedsText(comparison), LooksText(comparison.settings)},
      {"Level", fmt::format("{:.3g}, one-sided", comparison.settings.alpha),
       fmt::format("Holm over {} headlines", comparison.num_headlines)}};
  if (const std::string shared = SharedText(labels); !shared.empty()) {
    facts.push_back({"The same in all rows of a task", shared});
  }
  return facts;
}

Sentences Method(const Comparison& comparison) {
  const GateSettings& settings = comparison.settings;
  return {
      "",
      {{"Three outcomes.",
        "Pass means: a loss as large as the margin would have shown. Inconclusive means: it "
        "could have hidden. Neither word stands for the other."},
       {"Top-up.",
        fmt::format("{} seeds, each at 1/{} of the level; a row stops at its first verdict. "
                    "Looks are stored in the JSON, so a repetition cannot fish.",
                    LooksText(settings), settings.looks.size())},
       {"Few tests.",
        "A mixer and task has one headline for solving and one for speed of learning, or one "
        "for accuracy. Rows by segment only locate a failure."},
       {"Failed cells.",
        "Diverged, oom, timeout and error count as unsolved and as chance, on either side."},
       {"Would have seen.", "The loss that 8 in 10 comparisons like this one would have called."},
       {"Exit code.",
        "0 pass, 1 regression, 4 failed cells where they fail, 5 inconclusive, 6 missing or not "
        "comparable, 9 no result on either side. Of several the first of 9, 6, 1, 4, 5 wins."}}};
}

// What is noted, once for all that it is noted of.
std::vector<reports::Sentence> Care(const Comparison& comparison, const CellLabels& labels) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;  // texts with their cells
  for (const Note& note : comparison.notes) {
    auto found = std::find_if(notes.begin(), notes.end(),
                              [&](const auto& other) { return other.first == note.text; });
    if (found == notes.end()) found = notes.insert(found, {note.text, {}});
    if (!note.cell.empty()) found->second.push_back(labels.Of(note.cell).Text());
  }
  std::vector<reports::Sentence> care;
  for (const auto& [text, cells] : notes) {
    const std::string about = reports::FirstOf(cells, "; ", kMaxCellsOfNote);
    care.push_back({about + (about.empty() ? "" : ":"), text});
  }
  return care;
}

// A section of the tables that have rows; nothing when none has.
void AddSection(std::vector<Section>& sections, Section section,
                std::vector<reports::Table> tables) {
  for (reports::Table& table : tables) {
    if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
  }
  if (!section.blocks.empty()) sections.push_back(std::move(section));
}

}  // namespace

Page ComparisonPage(const Comparison& comparison, ExitCode code) {
  Page page;
  page.eyebrow = "mixerbench compare";
  page.title = "Regression gate, preset " + comparison.settings.preset;
  page.lead = "Does the new build lose anything that the base had?";
  page.outcome = {.look = code == ExitCode::kOk             ? "pass"
                          : code == ExitCode::kNo           ? "regression"
                          : code == ExitCode::kInconclusive ? "inconclusive"
                                                            : "missing",
                  .word = std::string(WordOf(code)),
                  .text = fmt::format("{} Exit code {}.", OutcomeText(comparison, code),
                                      static_cast<int>(code)),
                  .counts = {}};
  page.outcome->word.front() = static_cast<char>(std::toupper(page.outcome->word.front()));
  for (const auto& [verdict, count] : CountVerdicts(comparison)) {
    page.outcome->counts.emplace_back(std::string(NameOf(verdict)), count);
  }
  const CellLabels labels(comparison);
  page.mixers = labels.styles();
  page.facts = PageFacts(comparison, labels);
  page.care = Care(comparison, labels);
  AddSection(
      page.sections,
      {"decides", "What decides", "What decides", "Read this table; the rest is evidence.", {}},
      {DecidingTable(comparison, labels)});
  AddSection(page.sections, {"learning", "Learning", "Learning", "", {}},
             {StepsTable(comparison, labels), SolveRateTable(comparison, labels),
              AccuracyTable(comparison, labels)});
  AddSection(page.sections, {"speed", "Speed", "Speed", "", {}},
             {TimeTable(comparison, labels), ResourceTable(comparison, labels)});
  AddSection(page.sections, {"exact", "Exact gates", "Exact", "", {}},
             {ExactTable(comparison, labels)});
  AddSection(page.sections,
             {"segments", "By segment", "Segments", "Where a loss lies; never judged.", {}},
             {SegmentTable(comparison, labels)});
  AddSection(page.sections, {"names", "Full names", "Names", "", {}}, {NamesTable(labels)});
  page.sections.push_back({"method", "How it was decided", "Method", "", {Method(comparison)}});
  reports::NumberBlocks(page);
  page.footer =
      fmt::format("Schema {} of the comparison. Built from the two reports alone.", "1.0");
  return page;
}

std::string RenderPage(const Comparison& comparison, ExitCode code) {
  return reports::RenderHtmlPage(ComparisonPage(comparison, code));
}

}  // namespace mixerbench::gate
