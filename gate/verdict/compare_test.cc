// Each rule of the gate on results made for it.
// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/compare.h"

#include <algorithm>
#include <set>

#include "gate/testing/made_results.h"
#include "gate/verdict/failure_rows.h"

#include "tests/support/catch2.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;
using Cells = std::vector<CellResult>;

struct Made {
  Cells base, candidate;
  Timings timings = {};
  std::optional<Calibration> calibration = {};
  bool asks_for_pairs = false;  // as --pairs does, also where its folder has none
};

Comparison Compare(const Made& made, const GateSettings& settings = {}) {
  return CompareReports(
      {.base = {"base", made.base},
       .candidate = {"new", made.candidate},
       .timings = made.asks_for_pairs || !made.timings.first.empty() ? &made.timings : nullptr,
       .calibration = made.calibration ? &*made.calibration : nullptr},
      settings);
}

const Row& Find(const Comparison& comparison, const std::string& metric) {
  const auto found = std::find_if(comparison.rows.begin(), comparison.rows.end(),
                                  [&](const Row& row) { return row.metric == metric; });
  REQUIRE(found != comparison.rows.end());
  return *found;
}

// Two sides of other code, each drawn alone.
Made Drawn(const Setting& base, const Setting& candidate, std::uint64_t seeds,
           std::uint64_t stream = 1) {
  std::mt19937_64 random(stream);
  Made made;
  made.base = MadeCells({base}, seeds, "1", random);
  made.candidate = MadeCells({candidate}, seeds, "2", random);
  return made;
}

TEST_CASE("compare: the same bits pass, however few the seeds") {
  for (const std::uint64_t seeds : {1u, 3u, 10u}) {
    std::mt19937_64 random(1);
    Made made;
    made.base = MadeCells({{}}, seeds, "1", random);
    made.candidate = made.base;
    for (CellResult& cell : made.candidate) cell.code_id = "code 2";
    const Comparison comparison = Compare(made);
    CAPTURE(seeds);
    CHECK(Find(comparison, "replay").verdict == Verdict::kPass);
    CHECK(Find(comparison, "solve_rate").verdict == Verdict::kPass);
    CHECK(Find(comparison, "steps_to_threshold").verdict == Verdict::kPass);
    CHECK(CodeOf(comparison, {}) == ExitCode::kOk);
  }
}

TEST_CASE("compare: other bits from the same code are suspicious") {
  Made made = Drawn({}, {}, 5);
  for (CellResult& cell : made.candidate) cell.code_id = "code 1";
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kSuspicious);
  for (CellResult& cell : made.candidate) cell.environment = Object{{"device", "cuda"}};
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kPass);  // seeds decided
}

TEST_CASE("compare: a loss that is off in the first steps is a regression") {
  Made made = Drawn({}, {}, 10);
  made.candidate[3].learning_curve[0].train_loss *= 1.002;
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kRegression);
  CHECK(CodeOf(Compare(made), {}) == ExitCode::kNo);
  GateSettings settings;
  settings.acknowledged = {made.base[0].name};
  CHECK(Find(Compare(made, settings), "replay").verdict == Verdict::kPass);
}

TEST_CASE("compare: fewer than five seeds of other bits judge nothing") {
  const Comparison comparison = Compare(Drawn({}, {}, 3));
  CHECK(Find(comparison, "steps_to_threshold").verdict == Verdict::kNotGated);
  CHECK(Find(comparison, "replay").verdict == Verdict::kInconclusive);
  CHECK(CodeOf(comparison, {}) == ExitCode::kInconclusive);
  CHECK(CodeOf(comparison, {.inconclusive = true}) == ExitCode::kOk);
  const GateSettings smoke = PresetSettings("smoke", "");
  CHECK(CodeOf(Compare(Drawn({}, {}, 3), smoke), {}) == ExitCode::kOk);
}

TEST_CASE("compare: more steps are a regression, fewer an improvement or suspicious") {
  const auto verdict = [](double factor) {
    const Comparison comparison =
        Compare(Drawn({.steps_sd = 0.05}, {.steps = 800 * factor, .steps_sd = 0.05}, 10));
    return Find(comparison, "steps_to_threshold").verdict;
  };
  CHECK(verdict(1.0) == Verdict::kPass);
  CHECK(verdict(1.1) == Verdict::kPass);
  CHECK(verdict(1.6) == Verdict::kRegression);
  CHECK(verdict(0.7) == Verdict::kImproved);
  CHECK(verdict(0.4) == Verdict::kSuspicious);
}

TEST_CASE("compare: a mixer that no longer learns is a regression with five seeds") {
  const Comparison comparison = Compare(Drawn({.steps = 400}, {.solve_probability = 0}, 5));
  CHECK(Find(comparison, "solve_rate").verdict == Verdict::kRegression);
  const Row& steps = Find(comparison, "steps_to_threshold");
  CHECK(steps.verdict == Verdict::kRegression);
  CHECK(steps.candidate_value == static_cast<double>(kBudget));
  CHECK(CodeOf(comparison, {}) == ExitCode::kNo);
}

TEST_CASE("compare: a failed seed counts as unsolved") {
  Made made = Drawn({.steps = 400}, {.steps = 400}, 10);
  for (std::size_t i = 0; i < 10; ++i) {
    made.candidate[i].state = CellState::kDiverged;
    made.candidate[i].accuracy.clear();
  }
  const Comparison comparison = Compare(made);
  CHECK(Find(comparison, "solve_rate").candidate == "0/5");
  CHECK(Find(comparison, "solve_rate").verdict == Verdict::kRegression);
}

TEST_CASE(
    "compare: what completed in base and fails in new is a row, with any preset and of any kind") {
  const auto fail = [](CellResult& cell) {
    cell.state = CellState::kTimeout;
    cell.reason = "no sign of life for 60 s";
    cell.accuracy.clear();
    cell.learning_curve.clear();
  };
  Made made = Drawn({}, {}, 3);
  for (CellResult& cell : made.candidate) fail(cell);
  for (const char* preset : {"smoke", "nightly", "release"}) {
    CAPTURE(preset);
    const Comparison comparison = Compare(made, PresetSettings(preset, ""));
    const Row& row = Find(comparison, "state");
    CHECK(row.verdict == Verdict::kRegression);
    CHECK(row.base == "3 completed");
    CHECK(row.candidate == "3 timeout");
    CHECK(row.say == "no sign of life for 60 s.");
    CHECK(CodeOf(comparison, {}) == ExitCode::kNo);
    // A training that was cut off replays nothing.
    CHECK(std::none_of(comparison.rows.begin(), comparison.rows.end(),
                       [](const Row& other) { return other.metric == "replay"; }));
  }
  for (CellResult* cells : {made.base.data(), made.candidate.data()}) cells[0].kind = "evaluate";
  CHECK(Find(Compare(made), "state").verdict == Verdict::kRegression);

  // Of one seed in five only chance may be to blame: where seeds were judged they decide.
  made = Drawn({}, {}, 5);
  fail(made.candidate[4]);
  CHECK(Find(Compare(made), "state").verdict == Verdict::kNotGated);
  CHECK(Find(Compare(made, PresetSettings("smoke", "")), "state").verdict ==
        Verdict::kInconclusive);
  // What failed in base, too, is no loss.
  fail(made.base[4]);
  const Comparison same = Compare(made);
  CHECK(std::none_of(same.rows.begin(), same.rows.end(),
                     [](const Row& row) { return row.metric == "state"; }));
}

void Fail(CellResult& cell, CellState state) {
  cell.state = state;
  cell.reason = "made to fail";
  cell.accuracy.clear();
  cell.learning_curve.clear();
  cell.model.state_bytes_measured = 0;
}

TEST_CASE("compare: equal bits of some seeds say nothing of those that failed") {
  Made made = Drawn({}, {}, 5);
  made.candidate = made.base;
  for (std::size_t i = 1; i < 5; ++i) Fail(made.candidate[i], CellState::kDiverged);
  for (const char* preset : {"smoke", "nightly", "release"}) {
    CAPTURE(preset);
    const Comparison comparison = Compare(made, PresetSettings(preset, ""));
    CHECK(Find(comparison, "replay").candidate == "1 of 1 seeds equal bit by bit");
    CHECK(Find(comparison, "solve_rate").verdict != Verdict::kPass);
    const bool is_judged = std::string_view(preset) == "nightly";  // release asks for ten seeds
    CHECK(Find(comparison, "state").verdict ==
          (is_judged ? Verdict::kNotGated : Verdict::kInconclusive));
    CHECK((CodeOf(comparison, {}) != ExitCode::kOk || std::string_view(preset) == "smoke"));
  }
}

TEST_CASE("compare: what failed on both sides without a loss is not equal") {
  Made made = Drawn({}, {}, 5);
  for (Cells* cells : {&made.base, &made.candidate}) {
    for (CellResult& cell : *cells) Fail(cell, CellState::kTimeout);
  }
  const Comparison comparison = Compare(made);
  CHECK(std::none_of(comparison.rows.begin(), comparison.rows.end(), [](const Row& row) {
    return row.gate != Gate::kData && row.verdict == Verdict::kPass;
  }));
  CHECK(CodeOf(comparison, {}) == ExitCode::kInconclusive);
}

TEST_CASE("compare: one seed that base completes by chance is no regression when it fails") {
  Made made = Drawn({}, {}, 5);
  for (CellResult& cell : made.candidate) Fail(cell, CellState::kDiverged);
  for (std::size_t i = 1; i < 5; ++i) Fail(made.base[i], CellState::kDiverged);
  CHECK(Find(Compare(made), "state").verdict != Verdict::kRegression);
}

TEST_CASE("compare: as many solved seeds pass where the loss of all would have shown") {
  // Three of five, then eight and three of ten.
  Made made = Drawn({}, {}, 10);
  for (Cells* cells : {&made.base, &made.candidate}) {
    for (CellResult& cell : *cells) cell.steps_to_threshold = 800;
  }
  const auto unsolve = [](Cells& cells, std::initializer_list<std::size_t> seeds) {
    for (const std::size_t seed : seeds) cells[seed].steps_to_threshold.reset();
  };
  unsolve(made.base, {0, 1});
  unsolve(made.candidate, {0, 1, 5, 6, 7, 8, 9});
  const Comparison comparison = Compare(made);
  const Row& row = Find(comparison, "solve_rate");
  REQUIRE(row.looks.size() == 2);
  CHECK(row.looks[0].verdict == Verdict::kInconclusive);
  CHECK(row.candidate == "3/10");
  CHECK(row.verdict == Verdict::kInconclusive);

  // Beside other headlines the text says what would have been called one.
  made = Drawn({}, {}, 5);
  for (int i = 1; i < 4; ++i) {
    const Made other =
        Drawn({.mixer = "m" + std::to_string(i)}, {.mixer = "m" + std::to_string(i)}, 5, 7);
    made.base.insert(made.base.end(), other.base.begin(), other.base.end());
    made.candidate.insert(made.candidate.end(), other.candidate.begin(), other.candidate.end());
  }
  for (std::size_t i = 0; i < 5; ++i) made.candidate[i].steps_to_threshold.reset();
  const Comparison four = Compare(made);
  CHECK(four.num_headlines == 8);
  CHECK(Find(four, "solve_rate").verdict == Verdict::kRegression);
  CHECK(Find(four, "solve_rate").would_have_seen_text == "0/5 or less");
}

TEST_CASE("compare: steps that are known to an evaluation are not exact") {
  const auto evaluated = [](CellResult& cell, std::int64_t steps) {
    cell.steps_to_threshold = steps;
    cell.learning_curve.clear();
    for (std::int64_t step = 79; step <= 790; step += 79) {
      reports::LearningPoint point;
      point.step = step;
      point.train_loss =
          4 + 0.01 * static_cast<double>(cell.seed) + 1e-9 * static_cast<double>(steps);
      point.validation_accuracy = step < steps ? 0.5 : 0.99;
      cell.learning_curve.push_back(point);
    }
  };
  const auto verdict = [&](std::int64_t base, std::int64_t candidate, std::uint64_t seeds) {
    Made made = Drawn({}, {}, seeds);
    for (CellResult& cell : made.base) evaluated(cell, base);
    for (CellResult& cell : made.candidate) evaluated(cell, candidate);
    return Find(Compare(made), "steps_to_threshold").verdict;
  };
  CHECK(verdict(158, 158, 5) == Verdict::kInconclusive);  // a third more steps would not show
  CHECK(verdict(158, 158, 10) == Verdict::kPass);
  CHECK(verdict(395, 395, 5) == Verdict::kPass);
  CHECK(verdict(158, 632, 5) == Verdict::kRegression);

  // Four pairs that reach it are not judged, however alike.
  Made made = Drawn({}, {}, 5);
  for (CellResult& cell : made.base) evaluated(cell, 158);
  for (CellResult& cell : made.candidate) evaluated(cell, 632);
  made.base[4].steps_to_threshold.reset();
  made.candidate[4].steps_to_threshold.reset();
  CHECK(Find(Compare(made), "steps_to_threshold").verdict == Verdict::kInconclusive);
}

TEST_CASE("compare: a seed that never gets there counts at the steps that were planned") {
  // All seeds stop early, those of new because they failed.
  Made made = Drawn({.steps = 50}, {.solve_probability = 0}, 5);
  for (Cells* cells : {&made.base, &made.candidate}) {
    for (CellResult& cell : *cells) {
      cell.planned_steps = 300;
      cell.step = 60;
    }
  }
  const Comparison comparison = Compare(made);
  const Row& steps = Find(comparison, "steps_to_threshold");
  CHECK(steps.candidate_value == 300.);
  CHECK(steps.say.starts_with("Needs at least "));
  CHECK(steps.say.ends_with(" 5 of 5 seeds of new never get there and count at the budget."));

  // Of results that do not tell, at the most that any seed did.
  for (Cells* cells : {&made.base, &made.candidate}) {
    for (CellResult& cell : *cells) cell.planned_steps.reset();
  }
  made.base[3].step = 70;
  const Comparison older = Compare(made);
  const Row& most = Find(older, "steps_to_threshold");
  CHECK(most.candidate_value == 70.);
  CHECK(most.verdict == Verdict::kRegression);
  CHECK(most.say.ends_with("results before schema 1.11 do not say how many were planned."));
}

TEST_CASE("compare: an open question asks for the next look") {
  // One in ten is lost: five seeds cannot tell, nor ten.
  Made made = Drawn({.steps_sd = 0.05}, {.steps = 950, .steps_sd = 0.35}, 5, 3);
  const Comparison first = Compare(made);
  CHECK(Find(first, "steps_to_threshold").verdict == Verdict::kInconclusive);
  CHECK(first.seeds_wanted == 10);
  CHECK(CodeOf(first, {}) == ExitCode::kInconclusive);
  made = Drawn({.steps_sd = 0.05}, {.steps = 950, .steps_sd = 0.35}, 10, 3);
  const Comparison again = Compare(made);
  const Row& second = Find(again, "steps_to_threshold");
  CHECK(second.looks.size() == 2);
  CHECK(second.looks[0].level == 0.025);
}

TEST_CASE("compare: a base that solves too little is named, and passes no release") {
  Made made = Drawn({}, {}, 20);
  for (Cells* side : {&made.base, &made.candidate}) {
    for (CellResult& cell : *side) {
      if (cell.seed % 5 == 0) cell.steps_to_threshold.reset();  // 16 of 20 solve it
    }
  }
  const Comparison nightly = Compare(made);
  CHECK(Find(nightly, "solve_rate").verdict == Verdict::kPass);
  REQUIRE_FALSE(nightly.notes.empty());
  CHECK(nightly.notes.front().cell == "mqar/gla/d_model=64");
  CHECK(nightly.notes.front().text.find("base solves 4/5, below 95 %") == 0);

  const Comparison release = Compare(made, PresetSettings("release", ""));
  const Row& row = Find(release, "solve_rate");
  CHECK(row.verdict == Verdict::kInconclusive);
  CHECK(row.say.find("preset release demands 95 %") != std::string::npos);
  CHECK(CodeOf(release, {}) == ExitCode::kInconclusive);
  CHECK_FALSE(release.seeds_wanted);  // more of them would not make the base stronger

  for (CellResult& cell : made.candidate) cell.steps_to_threshold.reset();
  CHECK(Find(Compare(made, PresetSettings("release", "")), "solve_rate").verdict ==
        Verdict::kRegression);
  made.candidate = made.base;  // nothing lost, bit by bit
  for (CellResult& cell : made.candidate) cell.code_id = "code 2";
  CHECK(Find(Compare(made, PresetSettings("release", "")), "solve_rate").verdict == Verdict::kPass);
}

TEST_CASE("compare: accuracy decides where no seed solves the task") {
  const Setting base{.solve_probability = 1, .steps = 1e9, .accuracy = 0.6, .accuracy_sd = 0.005};
  Setting candidate = base;
  const auto verdict = [&](double accuracy, std::uint64_t seeds) {
    candidate.accuracy = accuracy;
    return Find(Compare(Drawn(base, candidate, seeds)), "accuracy").verdict;
  };
  CHECK(verdict(0.6, 5) == Verdict::kPass);
  CHECK(verdict(0.5, 5) == Verdict::kRegression);
  CHECK(verdict(0.7, 5) == Verdict::kImproved);
  CHECK(verdict(0.5, 4) == Verdict::kNotGated);
  Setting guessing = base;
  guessing.accuracy = kChance;
  CHECK(Find(Compare(Drawn(guessing, guessing, 5)), "accuracy").verdict == Verdict::kNotGated);
}

TEST_CASE("compare: known noise widens the margin of accuracy") {
  const Setting base{.steps = 1e9, .accuracy = 0.6, .accuracy_sd = 0.002};
  Setting candidate = base;
  candidate.accuracy = 0.57;
  Made made = Drawn(base, candidate, 5);
  CHECK(Find(Compare(made), "accuracy").verdict == Verdict::kRegression);
  made.calibration = Calibration{.accuracy_sd = {{"mqar", 0.03}}};
  CHECK(Find(Compare(made), "accuracy").verdict == Verdict::kPass);
  CHECK(*Find(Compare(made), "accuracy").margin == 0.06);
}

TEST_CASE("compare: what one side lacks is named") {
  Made made = Drawn({}, {}, 6);
  made.candidate.pop_back();
  Comparison comparison = Compare(made);
  CHECK(Find(comparison, "all metrics").verdict == Verdict::kMissing);
  CHECK(Find(comparison, "all metrics").say == "seed 5: only in base");
  CHECK(CodeOf(comparison, {}) == ExitCode::kMissing);
  CHECK(CodeOf(comparison, {.missing = true}) != ExitCode::kMissing);

  std::swap(made.base, made.candidate);
  comparison = Compare(made);
  CHECK(Find(comparison, "all metrics").verdict == Verdict::kNotGated);

  made = Drawn({}, {}, 5);
  for (CellResult& cell : made.candidate) {
    cell.state = CellState::kUnsupported;
    cell.reason = "no device code";
  }
  CHECK(Find(Compare(made), "all metrics").say ==
        "only in base; in new unsupported: no device code");

  CHECK(CodeOf(Compare({}), {}) == ExitCode::kNothingSelected);
}

TEST_CASE("compare: other data, old schemas and doubles cannot be compared") {
  Made made = Drawn({}, {}, 5);
  made.candidate[2].data_id = "others";
  made.candidate[2].data_hash = Object{{"train", "sha256:0"}, {"test", "sha256:test"}};
  Comparison comparison = Compare(made);
  CHECK(Find(comparison, "all metrics").verdict == Verdict::kNotComparable);
  CHECK(Find(comparison, "all metrics")
            .say.find("the train data, or the code that makes them, differ") != std::string::npos);
  CHECK(Find(comparison, "data").verdict == Verdict::kNotComparable);
  CHECK(CodeOf(comparison, {.missing = true}) == ExitCode::kMissing);

  made = Drawn({}, {}, 5);
  for (CellResult& cell : made.base) cell.experiment_id.clear();
  CHECK(Compare(made).rows.front().verdict == Verdict::kNotComparable);

  made = Drawn({}, {}, 5);
  made.candidate.push_back(made.candidate.back());
  CHECK(Find(Compare(made), "all metrics").verdict == Verdict::kNotComparable);
}

TEST_CASE("compare: parts of the data are named") {
  Made made = Drawn({}, {}, 5);
  for (CellResult& cell : made.candidate) cell.partial = true;
  REQUIRE(Compare(made).notes.size() == 1);
  CHECK(Compare(made).notes.front().text.find("partial in new") != std::string::npos);
}

// --- speed
// ----------------------------------------------------------------------------------------

Made Timed(double growth, double noise, std::optional<double> again = {}) {
  std::mt19937_64 random(7);
  Made made;
  made.base = {MadeTimes("gla", 1, "1")};
  made.candidate = {MadeTimes("gla", 1 + growth, "2")};
  made.timings.first = MadePairs(10, growth, noise, random);
  if (again) made.timings.second = MadePairs(10, *again, noise, random);
  return made;
}

TEST_CASE("speed: a slower build must be slower twice") {
  CHECK(Find(Compare(Timed(0, 0.005)), "time").verdict == Verdict::kPass);
  CHECK(Find(Compare(Timed(0.05, 0.005)), "time").verdict == Verdict::kInconclusive);
  CHECK(WantsSecondStage(Timed(0.05, 0.005).timings, {}));
  CHECK(Find(Compare(Timed(0.05, 0.005, 0.05)), "time").verdict == Verdict::kRegression);
  CHECK(Find(Compare(Timed(0.05, 0.005, 0.0)), "time").verdict == Verdict::kInconclusive);
  CHECK(Find(Compare(Timed(-0.05, 0.005)), "time").verdict == Verdict::kImproved);
  CHECK(Find(Compare(Timed(0, 0.1)), "time").verdict == Verdict::kInconclusive);
  CHECK_FALSE(WantsSecondStage(Timed(0, 0.005).timings, {}));
}

TEST_CASE("speed: pairs of another build than the reports', and too few of them, pass nothing") {
  Made made = Timed(0, 0.005);
  made.candidate.front().code_id = "code 3";
  CHECK(Find(Compare(made), "time").verdict == Verdict::kNotComparable);
  CHECK(Find(Compare(made), "time").say.find("report of new") != std::string::npos);
  made = Timed(0, 0.005);
  made.timings.first.resize(6);
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  CHECK(Find(Compare(made), "time").say == "6 of 10 pairs.");
  // So it is with fresh pairs.
  made = Timed(0.05, 0.005, 0.05);
  made.timings.second.resize(9);
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  CHECK(Find(Compare(made), "time").say == "Slower once; 9 of 10 fresh pairs.");
  made = Timed(0.05, 0.005, 0.05);
  made.timings.second.front().candidate.front().code_id = "code 3";
  CHECK(Find(Compare(made), "time").verdict == Verdict::kNotComparable);
}

TEST_CASE("speed: what the reports timed and no pair did is open, what they did not is no pair") {
  Made made = Timed(0, 0.005);
  made.timings.first.clear();
  made.asks_for_pairs = true;
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  CHECK(Find(Compare(made), "time").say == "0 of 10 pairs.");
  CHECK(CodeOf(Compare(made), {}) == ExitCode::kInconclusive);

  made = Timed(0.5, 0.005);
  made.timings.first.resize(4);
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  for (ProcessPair& pair : made.timings.first) pair.candidate.front().throughput.pop_back();
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);

  made = Timed(0, 0.005);
  for (ProcessPair& pair : made.timings.first) {
    pair.base.front().experiment_id = pair.candidate.front().experiment_id = "another";
  }
  const Comparison other = Compare(made);
  CHECK(Find(other, "time").verdict == Verdict::kNotComparable);
  made = Timed(0, 0.005);
  for (ProcessPair& pair : made.timings.first) {
    for (auto* cells : {&pair.base, &pair.candidate}) {
      cells->front().environment = Object{{"device", "cuda"}, {"gpu", Object{{"name", "Other"}}}};
    }
  }
  CHECK(Find(Compare(made), "time").verdict == Verdict::kNotComparable);
}

TEST_CASE("speed: fresh pairs count where the first stage fails, against the runner's noise too") {
  Made made = Timed(0, 0.005, 0.05);
  for (ProcessPair& pair : made.timings.second) pair.candidate.front().code_id = "older";
  CHECK(Find(Compare(made), "time").verdict == Verdict::kPass);
  made = Timed(0.2, 0.005, 0.05);
  made.calibration = Calibration{.time_p99 = 0.05};  // 16 % is the least growth
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  made = Timed(0.2, 0.005, 0.2);
  made.calibration = Calibration{.time_p99 = 0.05};
  CHECK(Find(Compare(made), "time").verdict == Verdict::kRegression);
}

TEST_CASE("speed: states are those of cells that completed, and capture is shown") {
  Made made = Timed(0, 0.005);
  Fail(made.base.front(), CellState::kError);
  const Comparison comparison = Compare(made);
  CHECK(std::none_of(comparison.rows.begin(), comparison.rows.end(),
                     [](const Row& row) { return row.metric == "state_bytes"; }));
  made = Drawn({}, {}, 1);
  made.base.front().phases.emplace().capture_s = 1;
  made.candidate.front().phases.emplace().capture_s = 40;
  CHECK(Find(Compare(made), "capture_seconds").verdict == Verdict::kNotGated);
}

TEST_CASE("speed: growth below the runner's own noise is no regression") {
  Made made = Timed(0.05, 0.005, 0.05);
  made.calibration = Calibration{.time_p99 = 0.02};
  CHECK(Find(Compare(made), "time").verdict == Verdict::kInconclusive);
  made.calibration->time_p99 = 0.01;
  CHECK(Find(Compare(made), "time").verdict == Verdict::kRegression);
}

TEST_CASE("speed: single processes and other devices judge nothing") {
  Made made = Timed(0.5, 0.005);
  made.timings = {};
  CHECK(Find(Compare(made), "time").verdict == Verdict::kNotGated);
  made.candidate[0].environment = Object{{"gpu", Object{{"name", "Another GPU"}}}};
  CHECK(Find(Compare(made), "time").verdict == Verdict::kNotComparable);
  CHECK(CodeOf(Compare(made), {}) == ExitCode::kMissing);
}

TEST_CASE("speed: memory, state, parity and shapes that fail") {
  const Made fine = Timed(0, 0.005);
  CHECK(Find(Compare(fine), "peak_memory_bytes").verdict == Verdict::kPass);
  CHECK(Find(Compare(fine), "state_bytes").verdict == Verdict::kPass);
  CHECK(Find(Compare(fine), "parity").verdict == Verdict::kPass);

  Made made = fine;
  made.candidate[0].throughput[1].peak_memory_bytes = (std::int64_t{1} << 20) * 103 / 100;
  CHECK(Find(Compare(made), "peak_memory_bytes").verdict == Verdict::kRegression);

  made = fine;
  made.candidate[0].model.state_bytes_measured = 8192;
  CHECK(Find(Compare(made), "state_bytes").verdict == Verdict::kRegression);

  made = fine;
  made.candidate[0].throughput[0].parity_check = "failed";
  CHECK(Find(Compare(made), "parity").verdict == Verdict::kRegression);
  made.base[0].throughput[0].parity_check = "failed";
  CHECK(Find(Compare(made), "parity").verdict == Verdict::kNotGated);
  // Another shape failed in base than in new; one that is no longer compared.
  std::swap(made.base[0].throughput[0].parity_check, made.base[0].throughput[1].parity_check);
  CHECK(Find(Compare(made), "parity").verdict == Verdict::kRegression);
  made = fine;
  made.candidate[0].throughput[1].parity_check = "not run";
  CHECK(Find(Compare(made), "parity").verdict == Verdict::kRegression);

  made = fine;
  made.candidate[0].throughput[1].state = CellState::kOom;
  made.candidate[0].throughput[1].reason = "requested 34 GiB";
  CHECK(Compare(made).rows.front().verdict == Verdict::kRegression);
  made.candidate[0].throughput[1].state = CellState::kSkipped;  // the GPU was too hot
  CHECK(Compare(made).rows.front().verdict == Verdict::kMissing);
  made.candidate[0].throughput.pop_back();
  CHECK(Compare(made).rows.front().verdict == Verdict::kMissing);
}

TEST_CASE("compare: what failed beyond the seeds that were looked at is open") {
  Made made = Drawn({}, {}, 10);
  for (std::size_t i = 5; i < 10; ++i) Fail(made.candidate[i], CellState::kDiverged);
  const Comparison comparison = Compare(made);
  REQUIRE(Find(comparison, "solve_rate").looks.back().seeds == 5);
  CHECK(Find(comparison, std::string(kStateMetric)).verdict == Verdict::kInconclusive);
}

TEST_CASE("compare: a segment of the test set that fails is no result that completed") {
  Made made = Drawn({}, {}, 10);
  const auto fail = [](CellResult& cell) {
    cell.accuracy.front().state = CellState::kOom;
    cell.accuracy.front().accuracy.reset();
  };
  fail(made.candidate[3]);
  CHECK(Find(Compare(made), std::string(kStateMetric)).verdict == Verdict::kInconclusive);
  CHECK(Compare(made).num_failed == 1);
  for (CellResult& cell : made.candidate) fail(cell);
  CHECK(Find(Compare(made), std::string(kStateMetric)).verdict == Verdict::kRegression);
  for (CellResult& cell : made.base) fail(cell);
  const Comparison both = Compare(made);
  CHECK(std::none_of(both.rows.begin(), both.rows.end(),
                     [](const Row& row) { return row.metric == kStateMetric; }));
}

TEST_CASE("compare: test accuracy is judged where validation solves it") {
  Made made = Drawn({}, {}, 5);
  CHECK(Find(Compare(made), "accuracy_when_solved").verdict == Verdict::kPass);
  for (CellResult& cell : made.candidate) cell.accuracy.front().accuracy = 0.5;
  CHECK(Find(Compare(made), "accuracy_when_solved").verdict == Verdict::kRegression);
  CHECK(Find(Compare(made), "solve_rate").verdict == Verdict::kPass);
}

TEST_CASE("compare: trainings that are bit by bit alike are compared score by score") {
  std::mt19937_64 random(1);
  Made made;
  made.base = MadeCells({{}}, 3, "1", random);
  made.candidate = made.base;
  for (CellResult& cell : made.candidate) cell.code_id = "code 2";
  *made.candidate[1].accuracy.front().accuracy -= 0.01;
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kPass);
  *made.candidate[1].accuracy.front().accuracy -= 0.5;
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kRegression);
}

TEST_CASE("compare: a divergence without a loss replays nothing, at another step it is another") {
  std::mt19937_64 random(1);
  Made made;
  made.base = MadeCells({{}}, 1, "1", random);
  made.base.front().state = CellState::kDiverged;
  made.candidate = made.base;
  made.candidate.front().code_id = "code 2";
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kPass);
  made.candidate.front().step += 1;
  CHECK(Find(Compare(made), "replay").verdict != Verdict::kPass);
  made.candidate = made.base;
  for (Cells* side : {&made.base, &made.candidate}) side->front().learning_curve.clear();
  const Comparison empty = Compare(made);
  CHECK(std::none_of(empty.rows.begin(), empty.rows.end(),
                     [](const Row& row) { return row.metric == "replay"; }));
}

TEST_CASE("compare: on another device seeds decide") {
  Made made = Drawn({}, {}, 5);
  for (CellResult& cell : made.candidate) cell.learning_curve.front().train_loss += 1e-3;
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kRegression);
  for (CellResult& cell : made.candidate) {
    cell.environment = Object{{"device", "cuda"}, {"gpu", Object{{"name", "Example GPU"}}}};
  }
  CHECK(Find(Compare(made), "replay").verdict == Verdict::kPass);
}

TEST_CASE("compare: what base planned and has not is missing") {
  Made made = Drawn({}, {}, 5);
  made.base[2].state = CellState::kInterrupted;
  CHECK(CodeOf(Compare(made), {}) == ExitCode::kMissing);
  made.base.erase(made.base.begin() + 2);
  CHECK(Find(Compare(made), "all metrics").verdict == Verdict::kNotGated);
}

TEST_CASE("compare: equal bits of a sweep's seeds say nothing of the fresh ones") {
  Made made = Drawn({}, {}, 10);
  for (std::size_t i = 0; i < 5; ++i) {
    made.candidate[i] = made.base[i];
    made.candidate[i].code_id = "code 2";
  }
  for (Cells* side : {&made.base, &made.candidate}) {
    for (std::size_t i = 5; i < 10; ++i) (*side)[i].phase = reports::CellPhase::kReport;
  }
  for (std::size_t i = 5; i < 10; ++i) made.candidate[i].steps_to_threshold.reset();
  for (const Row& row : Compare(made).rows) {
    if (row.metric != "solve_rate") continue;
    const bool is_fresh = row.cell.ends_with(kFreshSuffix);
    CHECK(row.verdict == (is_fresh ? Verdict::kRegression : Verdict::kPass));
  }
  made.candidate[8].steps_to_threshold = 800;
  made.candidate[7].steps_to_threshold = 800;
  for (const Row& row : Compare(made).rows) {
    if (row.metric == "solve_rate" && row.cell.ends_with(kFreshSuffix)) {
      CHECK(row.verdict == Verdict::kInconclusive);
    }
  }
}

TEST_CASE("compare: too few seeds ask for the first look") {
  CHECK(Compare(Drawn({}, {}, 3)).seeds_wanted == 5);
  CHECK(Compare(Drawn({}, {}, 5), PresetSettings("release", "")).seeds_wanted == 10);
}

TEST_CASE("calibration: is of one build, and comes back from its file") {
  std::mt19937_64 random(5);
  Made made = Drawn({}, {}, 5);
  const auto calibrate = [&](const Timings& timings) {
    return Calibrate({"a", made.base}, {"b", made.candidate}, timings, /*num_pairs=*/10, "now");
  };
  Timings timings{MadePairs(10, 0, 0.01, random), {}};
  CHECK_THROWS_AS(calibrate(timings), Error);
  for (CellResult& cell : made.candidate) cell.code_id = "code 1";
  CHECK_THROWS_AS(calibrate(timings), Error);  // pairs of two builds
  for (ProcessPair& pair : timings.first) pair.candidate.front().code_id = "code 1";
  CHECK_THROWS_AS(calibrate({}), Error);
  CHECK_THROWS_AS(calibrate({{timings.first.begin(), timings.first.end() - 1}, {}}), Error);
  const Calibration calibration = calibrate(timings);
  CHECK(calibration.runner == "Example CPU");
  CHECK(calibration.num_times == 2);
  CHECK(calibration.time_p99 > 0);
  CHECK(calibration.time_p99 < 0.02);
  CHECK(calibration.accuracy_sd.at("mqar") > 0);
  const Calibration back = CalibrationFromValue(CalibrationToValue(calibration));
  CHECK(back.time_p99 == calibration.time_p99);
  CHECK(back.accuracy_sd == calibration.accuracy_sd);
  // A seed that failed on one side is no scatter of accuracies.
  Fail(made.candidate.front(), CellState::kTimeout);
  CHECK(calibrate(timings).accuracy_sd.at("mqar") < 0.01);
  CHECK_THROWS_AS(CalibrationFromValue(Object{{"kind", "sweep"}, {"schema_version", "1.0.0"}}),
                  Error);
}

TEST_CASE("settings: presets, and what a file changes of one") {
  CHECK(ParseSettings(Object{}, "").looks == std::vector<std::int64_t>{5, 10});
  CHECK(ParseSettings(Object{{"preset", "release"}}, "").alpha == 0.01);
  CHECK(ParseSettings(Object{{"preset", "release"}, {"alpha", 0.05}}, "").alpha == 0.05);
  for (const Object& bad :
       {Object{{"preset", "nightli"}}, Object{{"looks", Array{3}}}, Object{{"looks", Array{}}},
        Object{{"looks", Array{10, 5}}}, Object{{"alpha", 0}}, Object{{"steps_margin", 1}},
        Object{{"margin", 1}}, Object{{"pairs", 2}}, Object{{"preset", 5}}}) {
    CHECK_THROWS_AS(ParseSettings(bad, "/gate"), ConfigError);
  }
}

TEST_CASE("compare: one model's state is one row, and a finding where its results differ") {
  std::mt19937_64 random(1);
  Made made;
  made.base = MadeCells({{.mixer = "gla"}}, 5, "1", random);
  for (CellResult& cell : made.base) cell.model.state_bytes_measured = 4096;
  made.base.push_back(MadeTimes("gla", 1, "1"));
  made.base.back().name = made.base.front().name;
  made.candidate = made.base;
  const auto rows = [&](Verdict verdict) {
    const Comparison comparison = Compare(made);
    return std::count_if(comparison.rows.begin(), comparison.rows.end(), [&](const Row& row) {
      return row.metric == "state_bytes" && row.verdict == verdict;
    });
  };
  CHECK(rows(Verdict::kPass) == 1);
  CHECK(rows(Verdict::kSuspicious) == 0);
  made.candidate.back().model.state_bytes_measured = 4100;  // within the margin, and impossible
  CHECK(rows(Verdict::kPass) == 2);
  CHECK(rows(Verdict::kSuspicious) == 1);
  // A state that grows with the text differs at another length.
  for (CellResult& cell : made.base) cell.model.state_at_num_tokens = cell.kind == "train" ? 64 : 9;
  CHECK(rows(Verdict::kSuspicious) == 0);
  made.candidate = made.base;
  std::set<std::string> places;
  for (const Row& row : Compare(made).rows) {
    if (row.metric == "state_bytes") places.insert(row.where);
  }
  CHECK(places == std::set<std::string>{"at 64 tokens", "at 9 tokens"});
}

TEST_CASE("compare: fresh seeds are judged apart, and not at all where the choice is another") {
  std::mt19937_64 random(1);
  const auto cells = [&](const std::string& code, const std::string& chosen) {
    std::vector<CellResult> made;
    for (const std::string mixer : {"a", "b"}) {
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const bool is_fresh = seed >= 5;
        if (is_fresh && mixer != chosen) continue;
        made.push_back(MadeCell({.mixer = mixer}, seed, code, random));
        made.back().phase = is_fresh ? reports::CellPhase::kReport : reports::CellPhase::kSelection;
      }
    }
    return made;
  };
  const auto names = [](const Comparison& comparison, const std::string& metric) {
    std::vector<std::string> found;
    for (const Row& row : comparison.rows) {
      if (row.metric == metric) found.push_back(row.cell + " " + std::string(NameOf(row.verdict)));
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const Made same{cells("1", "a"), cells("2", "a")};
  const Comparison comparison = Compare(same);
  CHECK(names(comparison, "solve_rate") ==
        std::vector<std::string>{"mqar/a/d_model=64 (fresh seeds) pass", "mqar/a/d_model=64 pass",
                                 "mqar/b/d_model=64 pass"});
  for (const Row& row : comparison.rows) {
    if (row.metric == "solve_rate") CHECK(row.seeds.size() == 5);
  }
  const Comparison other = Compare({cells("1", "a"), cells("2", "b")});
  CHECK(names(other, "all metrics") ==
        std::vector<std::string>{"mqar/a/d_model=64 (fresh seeds) inconclusive",
                                 "mqar/b/d_model=64 (fresh seeds) not_gated"});
  CHECK(CodeOf(other, {}) == ExitCode::kInconclusive);
  // Fresh seeds that new has begun and not finished are missing, as any others.
  Made unfinished{cells("1", "a"), cells("2", "a")};
  unfinished.candidate[7].state = CellState::kPlanned;
  CHECK(CodeOf(Compare(unfinished), {}) == ExitCode::kMissing);
}

TEST_CASE("compare: what new has not chosen yet is missing, and no other choice") {
  std::mt19937_64 random(1);
  // Two competitions, of a and of b, each over the rate; fresh seeds where a rate is chosen.
  const auto cells = [&](const std::string& code, const std::map<std::string, int>& chosen) {
    std::vector<CellResult> made;
    for (const std::string mixer : {"a", "b"}) {
      for (const int lr : {1, 2}) {
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          const bool is_fresh = seed >= 5;
          if (is_fresh && (!chosen.contains(mixer) || chosen.at(mixer) != lr)) continue;
          made.push_back(MadeCell({.mixer = mixer + std::to_string(lr)}, seed, code, random));
          made.back().phase =
              is_fresh ? reports::CellPhase::kReport : reports::CellPhase::kSelection;
          made.back().config = Object{{"mixer", mixer}, {"train", Object{{"lr", lr}}}};
        }
      }
    }
    return made;
  };
  const auto rows = [](const std::vector<CellResult>& base, const std::vector<CellResult>& now) {
    std::vector<std::string> found;
    const Side candidate{"new", now, {"train.lr"}};
    for (const Row& row : PairCells({"base", base, {"train.lr"}}, candidate).rows) {
      found.push_back(row.cell + " " + std::string(NameOf(row.verdict)));
    }
    return found;
  };
  const auto base = cells("1", {{"a", 1}, {"b", 1}});
  using Rows = std::vector<std::string>;
  CHECK(rows(base, cells("2", {{"a", 1}})) == Rows{"mqar/b1/d_model=64 (fresh seeds) missing"});
  CHECK(rows(base, cells("2", {{"a", 1}, {"b", 2}})) ==
        Rows{"mqar/b1/d_model=64 (fresh seeds) inconclusive",
             "mqar/b2/d_model=64 (fresh seeds) not_gated"});
  // The setting itself has no result in new, so nothing tells that it lost.
  auto unfinished = cells("2", {{"a", 1}, {"b", 2}});
  for (CellResult& cell : unfinished) {
    if (cell.name.starts_with("mqar/b1")) cell.state = CellState::kPlanned;
  }
  const Rows found = rows(base, unfinished);
  CHECK(std::count(found.begin(), found.end(), "mqar/b1/d_model=64 (fresh seeds) missing") == 1);
}

TEST_CASE("compare: in fp32 a build cannot widen its own tolerance") {
  Made made;
  made.base = {MadeTimes("gla", 1, "1")};
  made.candidate = {MadeTimes("gla", 1, "2")};
  const auto set = [](CellResult& cell, const std::string& dtype, double error, double tolerance) {
    for (auto& row : cell.throughput) {
      row.dtype = dtype;
      row.parity = reports::Parity{"forward", 1, 64, "hidden", error, tolerance};
    }
  };
  for (const std::string dtype : {"fp32", "bf16"}) {
    set(made.base[0], dtype, 7e-7, 2.5e-5);
    set(made.candidate[0], dtype, 2.4e-5, 9e-5);
    CHECK(Find(Compare(made), "parity").verdict == Verdict::kPass);
    set(made.candidate[0], dtype, 5e-5, 1.3e-4);
    CHECK(Find(Compare(made), "parity").verdict ==
          (dtype == "fp32" ? Verdict::kRegression : Verdict::kPass));
  }
  set(made.base[0], "fp32", 7e-7, 2.5e-5);
  set(made.candidate[0], "fp32", 5e-5, 1.3e-4);
  CHECK(Find(Compare(made), "parity").say ==
        "Not within base's tolerance: fwd_bwd, 8 x 256: hidden.");
}

}  // namespace
}  // namespace mixerbench::gate
