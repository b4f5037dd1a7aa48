// The gate against the truth: 10,000 reports of builds that do not differ, through the whole
// comparison, and losses of known size. Bounds are the nominal levels and the figures that the rule
// was designed by (docs/GATE.md), with three standard errors of the simulation.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "gate/testing/made_results.h"
#include "gate/verdict/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::gate {
namespace {

// A report as a nightly has it: mixers that always learn, one near the edge, one smooth, one that
// guesses.
std::vector<Setting> Nightly() {
  return {{.mixer = "attention", .steps = 700, .steps_sd = 0.1},
          {.mixer = "gla", .steps = 1400, .steps_sd = 0.2},
          {.mixer = "delta_net", .solve_probability = 0.9, .steps = 900, .steps_sd = 0.15},
          {.mixer = "retnet", .solve_probability = 0.7, .steps = 2500, .steps_sd = 0.3},
          {.task = "niah", .mixer = "gla", .steps = 1e9, .accuracy = 0.6, .accuracy_sd = 0.01},
          {.task = "niah", .mixer = "retnet", .steps = 1e9, .accuracy = kChance, .accuracy_sd = 0}};
}

struct Shares {
  std::map<Verdict, double> reports;    // with a row of this verdict among G3
  std::map<Verdict, double> headlines;  // of all
  double mean_seeds = 0;
};

// `count` comparisons of `base` against `candidate`.
Shares Simulate(const std::vector<Setting>& base, const std::vector<Setting>& candidate,
                std::uint64_t seeds, int count, const GateSettings& settings) {
  std::mt19937_64 random(2026);
  Shares shares;
  std::int64_t num_headlines = 0;
  for (int i = 0; i < count; ++i) {
    const auto a = MadeCells(base, seeds, "1", random);
    const auto b = MadeCells(candidate, seeds, "2", random);
    const Comparison comparison =
        CompareReports({.base = {"a", a}, .candidate = {"b", b}}, settings);
    std::map<Verdict, bool> seen;
    for (const Row& row : comparison.rows) {
      if (row.looks.empty()) continue;
      seen[row.verdict] = true;
      ++shares.headlines[row.verdict];
      shares.mean_seeds += static_cast<double>(row.looks.back().seeds);
      ++num_headlines;
    }
    for (const auto& [verdict, is_seen] : seen) ++shares.reports[verdict];
  }
  for (auto& [verdict, share] : shares.reports) share /= count;
  for (auto& [verdict, share] : shares.headlines) share /= static_cast<double>(num_headlines);
  shares.mean_seeds /= static_cast<double>(num_headlines);
  return shares;
}

double ThreeErrors(double share, int count) { return 3 * std::sqrt(share * (1 - share) / count); }

TEST_CASE("false alarms: 10,000 reports of equal builds stay within the nominal level") {
  constexpr int kComparisons = 5000;
  for (const char* preset : {"nightly", "release"}) {
    GateSettings settings = PresetSettings(preset, "");
    settings.weak_base_fails = false;  // two bases are weak on purpose; this is of the tests
    const auto seeds = static_cast<std::uint64_t>(settings.looks.back());
    const int count = seeds > 10 ? kComparisons / 5 : kComparisons;
    Shares shares = Simulate(Nightly(), Nightly(), seeds, count, settings);
    CAPTURE(preset, shares.reports[Verdict::kRegression], shares.reports[Verdict::kInconclusive],
            shares.headlines[Verdict::kPass], shares.mean_seeds);
    CHECK(shares.reports[Verdict::kRegression] <=
          settings.alpha + ThreeErrors(settings.alpha, count));
    CHECK(shares.reports[Verdict::kSuspicious] <= settings.alpha);
    CHECK(shares.headlines[Verdict::kPass] > 0.5);
  }
}

// One smooth headline whose paired differences have the standard deviation `sd`; the margin is one
// of them. The design's table: looks at 5, 10 and 20 seeds, a third of 0.05 each.
Shares SmoothHeadline(double loss_in_sds) {
  constexpr double kSd = 0.02;
  GateSettings settings;
  settings.looks = {5, 10, 20};
  settings.accuracy_margin = kSd;
  Setting base{.steps = 1e9, .accuracy = 0.6, .accuracy_sd = kSd / std::sqrt(2.0)};
  Setting candidate = base;
  candidate.accuracy -= loss_in_sds * kSd;
  return Simulate({base}, {candidate}, 20, 3000, settings);
}

TEST_CASE("power: top-up at a margin of one standard deviation, as it was designed") {
  Shares none = SmoothHeadline(0);
  CHECK(std::abs(none.headlines[Verdict::kPass] - 0.980) < 0.03);
  CHECK(std::abs(none.headlines[Verdict::kRegression] - 0.005) < 0.01);
  CHECK(std::abs(none.mean_seeds - 10.8) < 0.5);
  Shares at_margin = SmoothHeadline(1);
  CHECK(at_margin.headlines[Verdict::kPass] < 0.05 + 0.012);
  Shares twice = SmoothHeadline(2);
  CHECK(twice.headlines[Verdict::kRegression] > 0.97);
}

TEST_CASE("power: fixed numbers of seeds, as in the table of the design") {
  struct Line {
    std::int64_t seeds;
    double margin;  // standard deviations
    double pass;    // when nothing changed
  };
  for (const Line& line :
       {Line{5, 1, 0.58}, {5, 2, 0.975}, {8, 1, 0.81}, {10, 1, 0.90}, {16, 1, 0.985}}) {
    constexpr double kSd = 0.02;
    GateSettings settings;
    settings.looks = {line.seeds};
    settings.accuracy_margin = line.margin * kSd;
    const Setting same{.steps = 1e9, .accuracy = 0.6, .accuracy_sd = kSd / std::sqrt(2.0)};
    Shares shares =
        Simulate({same}, {same}, static_cast<std::uint64_t>(line.seeds), 3000, settings);
    CAPTURE(line.seeds, line.margin, shares.headlines[Verdict::kPass]);
    CHECK(std::abs(shares.headlines[Verdict::kPass] - line.pass) < 0.03);
  }
}

TEST_CASE("power: a mixer that learns half as often, and one that learns no more") {
  const std::vector<Setting> base = {{.steps = 700, .steps_sd = 0.1}};
  GateSettings settings;
  const auto regressions = [&](double probability) {
    Shares shares =
        Simulate(base, {{.solve_probability = probability, .steps = 700, .steps_sd = 0.1}}, 10,
                 1000, settings);
    return shares.reports[Verdict::kRegression];
  };
  CHECK(regressions(0) == 1);
  CHECK(regressions(0.5) > 0.75);
}

TEST_CASE("false alarms: speed on an ordinary runner") {
  constexpr int kCount = 2000;
  std::mt19937_64 random(11);
  const GateSettings settings;
  const std::vector<reports::CellResult> base = {MadeTimes("gla", 1, "1")};
  const std::vector<reports::CellResult> candidate = {MadeTimes("gla", 1, "2")};
  int alarms = 0, seen = 0;
  for (int i = 0; i < kCount; ++i) {
    const Timings same{MadePairs(10, 0, 0.01, random), MadePairs(10, 0, 0.01, random)};
    const Timings slower{MadePairs(10, 0.05, 0.01, random), MadePairs(10, 0.05, 0.01, random)};
    const auto verdict = [&](const Timings& timings) {
      const Comparison comparison = CompareReports(
          {.base = {"a", base}, .candidate = {"b", candidate}, .timings = &timings}, settings);
      return comparison.rows.front().verdict;
    };
    alarms += verdict(same) == Verdict::kRegression;
    seen += verdict(slower) == Verdict::kRegression;
  }
  CHECK(alarms == 0);
  CHECK(seen > 0.95 * kCount);
}

}  // namespace
}  // namespace mixerbench::gate
