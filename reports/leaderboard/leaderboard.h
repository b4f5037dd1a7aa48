// Ranks of mixers over many reports: by task family and overall, with bands from the bootstrap.
//
// A setting is a task, a model without its mixer, and a way of training without what was chosen;
// every ranked mixer ran the same settings. docs/STATISTICS.md has the formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

inline constexpr std::string_view kLeaderboardVersion = "1.2.0";  // of its JSON

inline constexpr int kRankResamples = 10000;
inline constexpr double kRankLevel = 0.9;

// A report with where it was read from.
struct LeaderboardInput {
  std::string source;  // of no two alike
  SweepReport report;
  std::string link =
      {};  // the report's page, relative to where the leaderboard will lie; may be ""
};

// Why a report, or a mixer, is listed and not ranked, and what would rank it.
struct Refusal {
  std::string what;
  std::string why;
  std::string remedy;
};

// What one mixer did at one setting.
struct SettingResult {
  std::string source;  // of the report
  std::int64_t num_solved = 0;
  std::vector<bool> solved;         // by seed
  std::optional<double> accuracy;   // mean over seeds on the longest segment, of equals the last
  std::optional<double> low, high;  // its interval over seeds
  std::optional<double> steps;      // median; absent: not reached
  std::optional<double> length;     // effective
  std::optional<double> state_bytes;
  CellState state = CellState::kCompleted;  // the first seed's that is not completed
  bool is_unsupported = false;              // by every seed: does not count
  bool is_failure = false;                  // some seed ran and failed
  bool is_chosen = false;                   // the suite chose it among several rates
};

// A condition of training or scoring; several texts where reports or mixers differ in it.
struct Condition {
  std::string term;
  std::vector<std::string> texts;
};

struct RankedSetting {
  std::string key;  // what its groups share
  std::string family;
  std::string task;
  // "64 tokens, 4 pairs, d 64"; of several lengths "20 tokens (of 2 to 20)"; of one task each its
  // own
  std::string text;
  std::int64_t d_model = 0;
  std::map<int, SettingResult> results;  // by mixer
  std::optional<double> chance;          // on the longest segment, as far as some mixer has a row
  std::vector<Guess> guesses;            // there, chance first
  std::optional<double> threshold;       // of validation accuracy, from which a run is solved
  std::vector<Condition> conditions;

  // A mixer that failed before it was tested scored chance. Nothing: no test was asked for.
  std::optional<double> AccuracyOf(const SettingResult& result) const;
};

// What a mixer did in the settings of a family.
struct FamilyResult {
  std::int64_t num_solved = 0;
  std::int64_t num_runs = 0;
  double share = 0;  // mean over settings of the share of solved runs
};

struct RankedMixer {
  int mixer = kNoMixer;  // of Leaderboard::mixers
  double score = 0;      // mean over families of FamilyResult::share, rounded to 1e-12
  RankBand rank = {};
  std::map<std::string, FamilyResult> families = {};
  std::optional<double> length = {};
  std::optional<double> steps = {};
  std::optional<double> accuracy = {};           // mean over settings
  std::optional<double> state_bytes = {};        // at the largest setting
  std::optional<double> tokens_per_second = {};  // at Leaderboard::shape
};

// A report behind the ranks.
struct RankedSource {
  std::string name;
  std::string checksum;
  std::string doubt;      // what it does not say of the code that ran; "" when it says all
  std::string link = {};  // as LeaderboardInput::link
};

struct Leaderboard {
  std::vector<MixerStyle> mixers;
  std::vector<RankedSetting> settings;  // of ranked mixers, by family, task and size
  std::vector<RankedMixer> ranking;     // best first
  std::map<std::string, int> families;  // settings of each
  std::vector<Refusal> refused;
  std::vector<RankedSource> sources;
  // At which tokens per second were taken, on what:
  // "train_step, 256 tokens, batch 64, bf16, d 64, 2 layers, mqar, vocabulary 8192, backbone
  // zoology, state mixer mlp, NVIDIA H200".
  std::string shape;
  std::int64_t num_cells = 0;  // behind the ranks
  std::size_t min_seeds = kSeedsForInterval;

  const std::string& LabelOf(int mixer) const {
    return mixers[static_cast<std::size_t>(mixer)].label;
  }
};

// The family of a task: "MQAR", "MAD", "State tracking", ...
std::string FamilyOf(const std::string& task);

// Ranks what can be ranked. A report with a limit, with missing cells, of uncommitted code, without
// enough seeds or with an undecided choice is refused whole; a mixer that lacks a setting is
// refused alone. A report that does not say which code ran is ranked with a doubt.
Leaderboard MakeLeaderboard(const std::vector<LeaderboardInput>& inputs, std::size_t min_seeds);

// kind "leaderboard", schema reports/schema/leaderboard-1.schema.json.
Value LeaderboardToValue(const Leaderboard& board);

Page MakeLeaderboardPage(const Leaderboard& board);

}  // namespace mixerbench::reports
