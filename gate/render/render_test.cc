// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gate/render/cell_labels.h"
#include "gate/render/comparison_json.h"
#include "gate/render/comparison_page.h"
#include "gate/render/row_text.h"
#include "gate/render/text_renderers.h"
#include "gate/testing/example_comparison.h"
#include "gate/verdict/pairing.h"

#include "tests/support/catch2.h"

namespace mixerbench::gate {
namespace {

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("row text: effects, margins and p values") {
  Row row;
  row.effect = {EffectKind::kRatio, 1.416, 1.2951, 1.55, 0.95};
  row.margin = 1.25;
  CHECK(EffectText(row) == "×1.42 (1.30–1.55)");
  CHECK(MarginText(row) == "×1.25");
  row.effect = {EffectKind::kPoints, -0.0126, -0.021, 0.0003, 0.95};
  row.margin = 0.02;
  CHECK(EffectText(row) == "−1.3 points (−2.1 to 0.0)");
  CHECK(MarginText(row) == "2 points");
  row.effect = {EffectKind::kChange, 0.052, {}, {}, 0.98};
  row.margin = 0.03;
  CHECK(EffectText(row) == "+5.2 %");
  CHECK(MarginText(row) == "3 %");
  CHECK(EffectText(Row{}) == kNoText);
  CHECK(PText({}) == kNoText);
  CHECK(PText(0.0004) == "<0.001");
  CHECK(PText(0.0431) == "0.043");
  CHECK(PText(0.5) == "0.50");
}

TEST_CASE("terminal: what decides, then how much more there is") {
  const Comparison comparison = ExampleComparison(false);
  const ExitCode code = CodeOf(comparison, {});
  CHECK(code == ExitCode::kMissing);  // hgrn2 is only in base
  const std::string text = RenderTerminal(comparison, code, false);
  CHECK(Contains(text, "REGRESSION (margin ×1.25)"));
  CHECK(Contains(text, "mqar/hgrn2"));
  CHECK(Contains(text, "more rows pass or are only shown"));
  CHECK(Contains(text, "(exit code 6)\n"));
  CHECK_FALSE(Contains(text, "mqar/attention"));
  CHECK(Contains(RenderTerminal(comparison, code, true), "mqar/attention"));
}

TEST_CASE("example: has a row of every verdict") {
  const auto counts = CountVerdicts(ExampleComparison(false));
  for (const Verdict verdict : {Verdict::kRegression, Verdict::kMissing, Verdict::kSuspicious,
                                Verdict::kInconclusive, Verdict::kPass, Verdict::kNotGated}) {
    CAPTURE(NameOf(verdict));
    CHECK(counts.contains(verdict));
  }
}

Row RowOfGla(Gate gate, const char* metric, Verdict verdict) {
  Row row;
  row.gate = gate;
  row.metric = metric;
  row.cell = "mqar/gla";
  row.verdict = verdict;
  return row;
}

TEST_CASE(
    "outcome: a pass that judged nothing, or lacks rows, does not say that nothing was lost") {
  Comparison comparison;
  const auto add = [&](Verdict verdict, Gate gate) {
    comparison.rows.push_back(RowOfGla(gate, "solve_rate", verdict));
  };
  const Tolerance all{.missing = true, .inconclusive = true, .empty = true};
  CHECK(CodeOf(comparison, all) == ExitCode::kOk);
  CHECK(OutcomeText(comparison, ExitCode::kOk) == "No result on either side, which passes here.");
  for (int i = 0; i < 2; ++i) add(Verdict::kMissing, Gate::kPairing);
  add(Verdict::kNotGated, Gate::kPairing);
  CHECK(CodeOf(comparison, all) == ExitCode::kOk);
  const std::string blind =
      "Nothing was judged, which passes here. 2 rows are missing, which is allowed here.";
  CHECK(OutcomeText(comparison, ExitCode::kOk) == blind);
  for (const std::string& form :
       {RenderTerminal(comparison, ExitCode::kOk, false), RenderMarkdown(comparison, ExitCode::kOk),
        RenderPage(comparison, ExitCode::kOk), RenderJson(comparison, ExitCode::kOk)}) {
    CHECK(Contains(form, blind));
  }
  const std::string junit = RenderJUnit(comparison, all);
  CHECK(Contains(junit, "skipped=\"3\""));
  add(Verdict::kPass, Gate::kLearning);
  CHECK(OutcomeText(comparison, ExitCode::kOk) ==
        "2 rows are missing, which is allowed here. The rows that were judged show no loss.");
  add(Verdict::kInconclusive, Gate::kLearning);
  CHECK(OutcomeText(comparison, ExitCode::kOk) ==
        "1 row is inconclusive, which passes here. 2 rows are missing, which is allowed here.");
  comparison.rows.erase(comparison.rows.begin(), comparison.rows.begin() + 2);
  comparison.rows.pop_back();
  CHECK(OutcomeText(comparison, ExitCode::kOk) ==
        "Nothing was lost that these margins and seeds can show.");
  add(Verdict::kSuspicious, Gate::kReplay);
  CHECK(OutcomeText(comparison, ExitCode::kOk) == "1 row is suspicious, which passes here.");
}

// What new lacks was not looked at: allowing it makes no pass of a gate that judged nothing else.
TEST_CASE("outcome: a missing shape judges nothing") {
  Comparison comparison;
  comparison.rows = {RowOfGla(Gate::kSpeed, "time", Verdict::kMissing)};
  CHECK(CodeOf(comparison, {.missing = true}) == ExitCode::kInconclusive);
}

TEST_CASE("junit: two rows that read alike are two cases by name") {
  Comparison comparison;
  comparison.rows = {2, RowOfGla(Gate::kSpeed, "time", Verdict::kPass)};
  const std::string text = RenderJUnit(comparison, {});
  CHECK(Contains(text, "name=\"gla: time\""));
  CHECK(Contains(text, "name=\"gla: time (2)\""));
}

TEST_CASE("page: names no file that compare does not write, and every exit code of its own") {
  const std::string html = RenderPage(ExampleComparison(false), ExitCode::kNo);
  CHECK_FALSE(Contains(html, "report.json"));
  CHECK(Contains(html, "also in the JSON of --verdict"));
  CHECK(Contains(html, "Of several the first of 9, 6, 1, 4, 5 wins."));
}

// Two settings of a hybrid and one of a known mixer; the width is the same everywhere.
Comparison LabelledComparison() {
  Comparison comparison;
  const Object gla = {{"name", "gla"}};
  const Object conv = {{"name", "base_conv"}};
  comparison.models["mqar/base_conv+gla/d_model=64,input_seq_len=256,lr=0.01"] =
      Object{{"sequence_mixer", Object{{"name", "hybrid"}, {"pattern", Array{conv, gla}}}}};
  for (const char* cell : {"mqar/base_conv+gla/d_model=64,input_seq_len=256,lr=0.01",
                           "mqar/base_conv+gla/d_model=64,input_seq_len=64,lr=0.01",
                           "mqar/gated_delta_net/d_model=64,input_seq_len=64,lr=0.001"}) {
    Row row;
    row.metric = "solve_rate";
    row.cell = cell;
    row.verdict = Verdict::kRegression;
    comparison.rows.push_back(row);
  }
  Row fresh = comparison.rows.front();
  fresh.cell += kFreshSuffix;
  comparison.rows.push_back(fresh);
  Row all;
  all.metric = "data";
  all.cell = "all cells";
  comparison.rows.push_back(all);
  return comparison;
}

TEST_CASE("page: what is noted of several cells is said once, and tables have numbers") {
  Comparison comparison = LabelledComparison();
  const std::string text = "base solves 1/2";
  comparison.notes = {
      {comparison.rows[0].cell, text}, {"", "not calibrated"}, {comparison.rows[1].cell, text}};
  Row& steps = comparison.rows.emplace_back(comparison.rows.front());
  steps.metric = "steps_to_threshold";
  steps.base_value = 5194;
  steps.candidate_value = 7840;
  const reports::Page page = ComparisonPage(comparison, ExitCode::kNo);
  REQUIRE(page.care.size() == 2);
  CHECK(page.care[0].lead ==
        "mqar, Conv + GLA, 256 tokens, lr 1e-2; mqar, Conv + GLA, 64 tokens, lr 1e-2:");
  CHECK(page.care[0].text == text);
  CHECK(page.care[1].lead.empty());
  const std::string html = RenderPage(comparison, ExitCode::kNo);
  CHECK(Contains(html, "Table 1. Every row that is not a pass."));
  CHECK(Contains(html, "Table 2. Speed of learning (G3)."));
  CHECK(Contains(html, "5,194 → 7,840"));
}

TEST_CASE("labels: what differs between the cells of a task, and once what does not") {
  const CellLabels labels(LabelledComparison());
  CHECK(labels.Of("mqar/base_conv+gla/d_model=64,input_seq_len=256,lr=0.01").Text() ==
        "mqar, Conv + GLA, 256 tokens, lr 1e-2");
  CHECK(labels.Of("mqar/gated_delta_net/d_model=64,input_seq_len=64,lr=0.001").Text() ==
        "mqar, Gated DeltaNet, 64 tokens, lr 1e-3");
  const CellLabel fresh =
      labels.Of("mqar/base_conv+gla/d_model=64,input_seq_len=256,lr=0.01 (fresh seeds)");
  CHECK(fresh.setting == "256 tokens, lr 1e-2, fresh seeds");
  CHECK(labels.Of("all cells").Text() == "all cells");
  CHECK(labels.Of("all cells").mixer == reports::kNoMixer);
  CHECK(labels.shared() == std::map<std::string, std::string>{{"mqar", "d 64"}});
  CHECK(labels.names().size() == 3);
}

TEST_CASE("page and markdown: labels in the tables, names in the appendix and the tooltip") {
  const Comparison comparison = LabelledComparison();
  const reports::Page page = ComparisonPage(comparison, ExitCode::kNo);
  CHECK(page.facts.back().text == "mqar: d 64");
  for (const reports::Section& section : page.sections) {
    for (const reports::Table* table : reports::BlocksOf<reports::Table>(section)) {
      for (const reports::Row& row : table->rows) {
        CAPTURE(table->key, row.cells[0].text, row.cells[0].sub);
        CHECK_FALSE(Contains(row.cells[0].text + row.cells[0].sub, "="));
        if (row.mixer != reports::kNoMixer) CHECK(row.cells[0].note.starts_with("mqar/"));
      }
    }
  }
  const std::string html = RenderPage(comparison, ExitCode::kNo);
  CHECK(Contains(html, "title=\"mqar/base_conv+gla/d_model=64,input_seq_len=64,lr=0.01\""));
  const std::string text = RenderMarkdown(comparison, ExitCode::kNo);
  const std::size_t names = text.find("Full names");
  REQUIRE(names != std::string::npos);
  CHECK_FALSE(Contains(text.substr(0, names), "lr="));
  CHECK(Contains(text.substr(names), "lr=0.01"));
}

TEST_CASE("markdown: a summary never exceeds its limit and says what it left out") {
  const Comparison comparison = ExampleComparison(true);
  const std::string whole = RenderMarkdown(comparison, ExitCode::kNo);
  const std::string cut = RenderMarkdown(comparison, ExitCode::kNo, 6000);
  CHECK(cut.size() <= 6000);
  CHECK(whole.size() > 6000);
  CHECK(Contains(cut, "more rows are in the JSON"));
  CHECK_FALSE(Contains(whole, "<script>"));
}

TEST_CASE("annotations: at most ten, one line each, nothing of a name acts") {
  Comparison comparison = ExampleComparison(true);
  const auto rows = comparison.rows;
  comparison.rows.insert(comparison.rows.begin(), rows.begin(), rows.end());
  const std::string text = RenderAnnotations(comparison);
  CHECK(std::count(text.begin(), text.end(), '\n') == 10);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++lines) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    CHECK((line.starts_with("::error title=") || line.starts_with("::warning title=")));
    CHECK_FALSE(Contains(line, "%0A"));
  }
  CHECK(lines == 10);
}

TEST_CASE("json: the same comparison gives the same bytes") {
  CHECK(RenderJson(ExampleComparison(true), ExitCode::kNo) ==
        RenderJson(ExampleComparison(true), ExitCode::kNo));
}

}  // namespace
}  // namespace mixerbench::gate
