// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/leaderboard.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "io/json.h"
#include "reports/leaderboard/conditions.h"
#include "reports/leaderboard/ranked_mixers.h"
#include "reports/result/device.h"
#include "reports/result/result_json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/axis_keys.h"
#include "reports/summary/select.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/numbers.h"
#include "reports/view/telling_texts.h"

namespace mixerbench::reports {
namespace {

constexpr const char* kUncommitted = "tool.git_dirty";

// 0 where there is none.
std::int64_t ConfigNumber(const Value& config, const std::string& path) {
  const std::string text = ConfigText(config, path);
  return text.empty() ? 0 : std::stoll(text);
}

// Why the whole report cannot be ranked; nothing when it can.
std::optional<Refusal> RefusalOf(const LeaderboardInput& input, std::size_t min_seeds) {
  const SweepReport& report = input.report;
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    return Refusal{input.source, why, remedy};
  };
  const auto any = [&](auto holds) {
    return std::any_of(report.cells.begin(), report.cells.end(), holds);
  };
  if (report.cells.empty()) return refuse("no cells", "a finished run");
  if (any([](const CellResult& cell) { return cell.partial; })) {
    return refuse("partial: it ran with a limit", "the same run without --limit");
  }
  if (any([](const CellResult& cell) { return cell.halved_from.has_value(); })) {
    return refuse("cells trained with smaller batches than asked for, as memory lacked",
                  "a run where the batches fit");
  }
  if (const std::int64_t missing = CountMissing(report); missing > 0) {
    return refuse(
        fmt::format("{} of {} cells have no result", missing,
                    static_cast<std::int64_t>(report.cells.size()) + CountUnplanned(report)),
        "the same run, to its end");
  }
  if (any([](const CellResult& cell) {
        return ConfigText(cell.environment, kUncommitted) == "true";
      })) {
    return refuse("the code had uncommitted changes", "a run of committed code");
  }
  if (any([](const CellResult& cell) {
        return std::any_of(cell.throughput.begin(), cell.throughput.end(),
                           [](const ThroughputRow& row) { return row.parity_check == "failed"; });
      })) {
    return refuse("parity with the reference failed", "kernels that agree with the reference");
  }
  // A report of timings alone has no seeds to lack: it gives tokens per second.
  for (const GroupSummary& group : report.groups) {
    if (group.kind != "train") continue;
    if (group.selection && !group.selection->undecided.empty()) {
      return refuse("nothing is chosen: " + group.selection->undecided,
                    "all seeds of all settings, by one build");
    }
    if (IsReported(group) && !group.seeds.empty() && group.seeds.size() < min_seeds) {
      return refuse(Plural(static_cast<std::int64_t>(group.seeds.size()), "seed"),
                    "at least " + Plural(static_cast<std::int64_t>(min_seeds), "seed"));
    }
  }
  return std::nullopt;
}

// What a report that is ranked leaves open about the code that ran.
std::string DoubtOf(const SweepReport& report) {
  const auto lacks = [&](const char* path) {
    return std::any_of(report.cells.begin(), report.cells.end(), [&](const CellResult& cell) {
      return cell.state == CellState::kCompleted && ConfigText(cell.environment, path).empty();
    });
  };
  if (lacks("tool.git_commit")) return "commit not recorded";
  return lacks(kUncommitted) ? "not recorded whether the code had uncommitted changes" : "";
}

double InputLength(const Object& axes) {
  const auto found = axes.find("input_seq_len");
  return found != axes.end() && found->second.is_number() ? found->second.as_double() : 0;
}

// The whole segment that the numbers of a setting are of: the longest, of equals the last; nullptr
// where nothing was tested.
const AccuracyOverSeeds* LongestRow(const GroupSummary& group) {
  const AccuracyOverSeeds* longest = nullptr;
  for (const AccuracyOverSeeds& row : group.accuracy) {
    if (!row.slice.empty()) continue;
    if (!longest || InputLength(row.axes) >= InputLength(longest->axes)) longest = &row;
  }
  return longest;
}

// The test segments of a config, the longest last.
std::vector<Object> TestsOf(const Value& config) {
  std::vector<Object> tests = SegmentsOf(config, "test");
  std::stable_sort(tests.begin(), tests.end(), [](const Object& a, const Object& b) {
    return InputLength(a) < InputLength(b);
  });
  return tests;
}

// "128 tokens"; where tests differ in it, that of the longest: "20 tokens (of 2 to 20)".
std::string SizeText(const std::string& key, const std::vector<Object>& tests) {
  const std::vector<double> values = NumbersOf(tests, key);
  if (values.empty()) return "";
  const std::string text = PartText(key, fmt::format("{}", values.back()));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == *high ? text : fmt::format("{} (of {} to {})", text, Count(*low), Count(*high));
}

// Sizes first, then what else the suite varied: not what it chose, nor what goes with a size.
std::string SettingLabel(const SweepReport& report, const GroupSummary& group) {
  const Value& config = report.cells[group.first_cell].config;
  const std::vector<Object> tests = TestsOf(config);
  const std::string width = ConfigText(config, "model.d_model");
  const std::vector<std::pair<std::string, std::string>> sizes = {
      {"input_seq_len", SizeText("input_seq_len", tests)},
      {"num_kv_pairs", SizeText("num_kv_pairs", tests)},
      {"d_model", width.empty() ? "" : PartText("d_model", width)}};
  std::set<std::string> others = VaryingKeys(report);
  for (const std::string& key : ChosenKeys(report.config)) others.erase(key);
  for (const char* with_size : {"batch_size", "positions"}) others.erase(with_size);
  std::string text;
  for (const auto& [key, size] : sizes) {
    others.erase(key);
    if (!size.empty()) text += (text.empty() ? "" : ", ") + size;
  }
  const std::string rest = PartsText(group, others);
  return text + (text.empty() || rest.empty() ? "" : ", ") + rest;
}

SettingResult ResultOf(const LeaderboardInput& input, const GroupSummary& group) {
  SettingResult result;
  result.source = input.source;
  result.is_chosen = group.selection || group.phase == CellPhase::kReport;
  for (const CellResult& cell : CellsOf(input.report, group)) {
    if (cell.state != CellState::kCompleted && result.state == CellState::kCompleted) {
      result.state = cell.state;
    }
    if (cell.model.state_at_num_tokens > 0) {
      result.state_bytes = static_cast<double>(cell.model.state_bytes_measured);
    }
    result.is_failure = result.is_failure || IsFailure(cell.state);
    const bool ran = cell.state == CellState::kCompleted || IsFailure(cell.state);
    if (!ran) continue;
    result.solved.push_back(Solved(cell).value_or(false));
    result.num_solved += result.solved.back() ? 1 : 0;
  }
  result.is_unsupported = result.solved.empty();
  if (const AccuracyOverSeeds* row = LongestRow(group)) {
    result.accuracy = row->mean;
    result.low = row->ci_seeds ? std::optional(row->ci_seeds->low) : std::nullopt;
    result.high = row->ci_seeds ? std::optional(row->ci_seeds->high) : std::nullopt;
  }
  if (group.steps_to_threshold) result.steps = group.steps_to_threshold->median;
  if (group.effective_length && group.effective_length->median) {
    result.length = static_cast<double>(*group.effective_length->median);
  }
  return result;
}

// A run that came to its end without a threshold. Of one that failed before it knew what it was to
// reach, others of its setting say that.
bool HasNothingToSolve(const SweepReport& report, const GroupSummary& group) {
  const auto cells = CellsOf(report, group);
  return !group.solve_rate && std::any_of(cells.begin(), cells.end(), [](const CellResult& cell) {
    return cell.state == CellState::kCompleted;
  });
}

using Settings = std::map<std::string, RankedSetting>;  // by key

// Settings of one task whose texts are alike get in theirs what else tells them apart.
void TellAlikeApart(std::vector<RankedSetting>& settings) {
  std::map<std::pair<std::string, std::string>, std::vector<RankedSetting*>> by_text;
  for (RankedSetting& setting : settings) by_text[{setting.task, setting.text}].push_back(&setting);
  for (const auto& [text, alike] : by_text) {
    if (alike.size() == 1) continue;
    std::vector<Leaves> all;
    for (const RankedSetting* setting : alike) {
      all.push_back(LeavesOf(io::ParseJson(setting->key.substr(setting->key.find('\n') + 1))));
    }
    const auto texts = TellingTexts(all, DifferingPaths(all));
    for (std::size_t i = 0; i < alike.size(); ++i) {
      for (const std::string& own : texts[i]) alike[i]->text += ", " + own;
    }
  }
}

void Collect(const LeaderboardInput& input, const RankedMixers& list, Settings& settings,
             std::vector<Refusal>& refused) {
  const SweepReport& report = input.report;
  for (const GroupSummary& group : report.groups) {
    if (group.kind != "train") continue;
    if (!IsReported(group)) continue;
    const CellName name = SplitCellName(group.name);
    const Value& config = report.cells[group.first_cell].config;
    if (HasNothingToSolve(report, group)) continue;
    const std::string key = RankedKey(report, group);
    RankedSetting& setting = settings[key];
    setting.key = key;
    setting.task = name.task;
    setting.family = FamilyOf(name.task);
    setting.text = SettingLabel(report, group);
    setting.d_model = ConfigNumber(config, "model.d_model");
    const int mixer = list.IndexOf(report, group);
    if (const AccuracyOverSeeds* row = LongestRow(group)) {
      if (row->extrapolated) setting.text += ", longer than trained";
      setting.chance = row->chance;
      setting.guesses = row->guesses;
    }
    for (const CellResult& cell : CellsOf(report, group)) {
      if (cell.threshold > 0) setting.threshold = cell.threshold;
    }
    const auto [known, is_new] = setting.results.try_emplace(mixer, ResultOf(input, group));
    if (!is_new) {
      refused.push_back({input.source + ": " + group.name,
                         "another report has this setting already", "one report for each setting"});
    }
  }
}

// By family, the mean over settings of the share of runs that are solved; `solved_of` gives the
// solved runs of a setting. Settings weigh the same, whatever their number of seeds.
template <typename SolvedOf>
std::map<std::string, double> FamilyShares(const Leaderboard& board, int mixer,
                                           SolvedOf solved_of) {
  std::map<std::string, std::pair<double, double>> sums;  // of shares, with their number
  for (const RankedSetting& setting : board.settings) {
    const SettingResult& result = setting.results.at(mixer);
    if (result.is_unsupported) continue;
    auto& [sum, num] = sums[setting.family];
    sum += solved_of(result) / static_cast<double>(result.solved.size());
    num += 1;
  }
  std::map<std::string, double> shares;
  for (const auto& [family, sum] : sums) shares[family] = sum.first / sum.second;
  return shares;
}

// Families weigh the same, whatever their number of settings. Rounded to 1e-12: sums of other terms
// that make the same score shall be equal, so that ties decide between them.
double ScoreOf(const std::map<std::string, double>& shares) {
  double sum = 0;
  for (const auto& [family, share] : shares) sum += share;
  const double score = shares.empty() ? 0 : sum / static_cast<double>(shares.size());
  constexpr double kUnits = 1e12;
  return std::round(score * kUnits) / kUnits;
}

// From the run ids of what is tested and ranked alone: the same trainings give the same bands, in
// whatever order they are named and beside whatever timings and refused reports and mixers.
std::uint64_t SeedOf(const std::vector<const LeaderboardInput*>& inputs, const RankedMixers& list,
                     const Leaderboard& board) {
  std::set<std::pair<std::string, int>> ranked;  // sources with their mixers
  for (const RankedSetting& setting : board.settings) {
    for (const auto& [mixer, result] : setting.results) ranked.emplace(result.source, mixer);
  }
  std::set<std::string> ids;
  for (const LeaderboardInput* input : inputs) {
    for (const CellResult& cell : input->report.cells) {
      if (!ScoresTests(cell)) continue;
      const std::pair of(input->source, list.IndexOf(cell));
      if (ranked.contains(of)) ids.insert(cell.run_id);
    }
  }
  return std::stoull(Sha256Hex(fmt::format("{}", fmt::join(ids, "\n"))).substr(0, 15), nullptr, 16);
}

// Ranks in resampled worlds: the seeds of every mixer and setting drawn again with replacement.
void FindBands(Leaderboard& board, std::uint64_t seed) {
  const std::size_t num_mixers = board.ranking.size();
  // Equal scores take all of their places, so that no band is narrower than what is not told apart.
  std::vector<std::vector<double>> best(num_mixers), worst(num_mixers);
  // Drawn by name: ties of the ranking may be decided by what was timed beside the trainings.
  std::map<std::string, std::size_t> by_name;
  for (std::size_t m = 0; m < num_mixers; ++m) {
    by_name[board.mixers[static_cast<std::size_t>(board.ranking[m].mixer)].key] = m;
  }
  std::uint64_t draw = 0;
  for (int resample = 0; resample < kRankResamples; ++resample) {
    std::vector<double> scores(num_mixers);
    for (const auto& [name, m] : by_name) {
      scores[m] = ScoreOf(FamilyShares(board, board.ranking[m].mixer, [&](const auto& result) {
        double solved = 0;
        for (std::size_t i = 0; i < result.solved.size(); ++i) {
          solved += result.solved[BootstrapIndex(seed, draw++, result.solved.size())] ? 1 : 0;
        }
        return solved;
      }));
    }
    for (std::size_t m = 0; m < num_mixers; ++m) {
      double above = 0;
      double equal = 0;
      for (const double score : scores) {
        above += score > scores[m] ? 1 : 0;
        equal += score == scores[m] ? 1 : 0;
      }
      best[m].push_back(above + 1);
      worst[m].push_back(above + equal);
    }
  }
  for (std::size_t m = 0; m < num_mixers; ++m) {
    RankBand& rank = board.ranking[m].rank;
    rank.low = std::floor(Percentile(best[m], (1 - kRankLevel) / 2));
    rank.high = std::ceil(Percentile(worst[m], (1 + kRankLevel) / 2));
    rank.of = static_cast<int>(num_mixers);
  }
}

// What tokens per second depend on besides the mixer and the build; 0 and "" are not known.
struct Shape {
  std::string phase;
  std::string dtype;
  std::int64_t seq_len = 0;
  std::int64_t batch_size = 0;
  std::string config;  // without the mixer, its positions and what else is timed or chosen
  std::string device;
  auto operator<=>(const Shape&) const = default;
};

std::string TimedConfig(const SweepReport& report, const CellResult& cell) {
  std::vector<std::string> free = SelectedOver(report.config);
  free.insert(free.end(), {"model.sequence_mixer", "model.positions", "throughput"});
  return io::DumpJson(Without(cell.config, free));
}

std::string ShapeText(const Shape& shape) {
  const Value config = io::ParseJson(shape.config);
  std::string text =
      fmt::format("{}, {} tokens, batch {}, {}", shape.phase,
                  Count(static_cast<double>(shape.seq_len)), shape.batch_size, shape.dtype);
  const auto add = [&](const std::string& before, const std::string& value) {
    if (!value.empty()) text += ", " + before + value;
  };
  add("d ", ConfigText(config, "model.d_model"));
  if (const std::int64_t num = ConfigNumber(config, "model.n_layers"); num > 0) {
    add("", Plural(num, "layer"));
  }
  add("", ConfigText(config, "task.name"));
  add("vocabulary ", LeafText(LeavesOf(config), "vocab_size"));
  add("backbone ", ConfigText(config, "model.backbone"));
  add("state mixer ", ConfigText(config, "model.state_mixer"));
  add("", shape.device);
  return text;
}

using Rates = std::map<Shape, std::map<int, std::vector<double>>>;  // by shape and mixer

// The shape that most ranked mixers were timed at; of equals a training step, the longest, the
// widest, the first of its config. Of a mixer that was timed there several times the median.
void FindSpeed(const std::vector<const LeaderboardInput*>& inputs, const RankedMixers& list,
               Leaderboard& board) {
  Rates rates;
  for (const LeaderboardInput* input : inputs) {
    for (const GroupSummary& group : input->report.groups) {
      const int mixer = list.IndexOf(input->report, group);
      for (const CellResult& cell : CellsOf(input->report, group)) {
        for (const ThroughputRow& row : cell.throughput) {
          // Token by token is another speed than that of whole sequences.
          if (!row.tokens_per_second || row.phase == "decode") continue;
          const Shape shape{.phase = row.phase,
                            .dtype = row.dtype,
                            .seq_len = row.seq_len,
                            .batch_size = row.batch_size,
                            .config = TimedConfig(input->report, cell),
                            .device = DeviceOf(cell)};
          rates[shape][mixer].push_back(*row.tokens_per_second);
        }
      }
    }
  }
  const Shape* best = nullptr;
  std::tuple<std::size_t, bool, std::int64_t, std::int64_t> best_key;
  for (const auto& [shape, by_mixer] : rates) {
    std::size_t num = 0;
    for (const RankedMixer& ranked : board.ranking) num += by_mixer.contains(ranked.mixer) ? 1 : 0;
    const std::tuple key(num, shape.phase == "train_step", shape.seq_len,
                         ConfigNumber(io::ParseJson(shape.config), "model.d_model"));
    if (num == 0 || (best && key <= best_key)) continue;
    best = &shape;
    best_key = key;
  }
  if (!best) return;
  board.shape = ShapeText(*best);
  for (RankedMixer& ranked : board.ranking) {
    const auto found = rates[*best].find(ranked.mixer);
    if (found != rates[*best].end()) ranked.tokens_per_second = Median(found->second);
  }
}

void Summarise(Leaderboard& board, RankedMixer& ranked) {
  std::vector<double> lengths;
  std::vector<double> steps;
  std::vector<double> accuracies;
  for (const RankedSetting& setting : board.settings) {
    const SettingResult& result = setting.results.at(ranked.mixer);
    if (result.is_unsupported) continue;
    FamilyResult& family = ranked.families[setting.family];
    family.num_solved += result.num_solved;
    family.num_runs += static_cast<std::int64_t>(result.solved.size());
    lengths.push_back(result.length.value_or(0));
    steps.push_back(result.steps.value_or(std::numeric_limits<double>::infinity()));
    if (const auto accuracy = setting.AccuracyOf(result)) accuracies.push_back(*accuracy);
    if (result.state_bytes) {
      ranked.state_bytes = std::max(ranked.state_bytes.value_or(0), *result.state_bytes);
    }
  }
  if (!lengths.empty()) ranked.length = Median(lengths);
  if (!steps.empty()) {
    const double median = Median(steps);
    if (std::isfinite(median)) ranked.steps = median;
  }
  if (!accuracies.empty()) ranked.accuracy = Mean(accuracies);
  const auto shares = FamilyShares(board, ranked.mixer, [](const SettingResult& result) {
    return static_cast<double>(result.num_solved);
  });
  for (const auto& [family, share] : shares) ranked.families[family].share = share;
  ranked.score = ScoreOf(shares);
}

}  // namespace

std::optional<double> RankedSetting::AccuracyOf(const SettingResult& result) const {
  if (result.accuracy || !result.is_failure) return result.accuracy;
  return chance.value_or(0);
}

std::string FamilyOf(const std::string& task) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kFamilies = {
      {"MQAR", {"mqar", "compositional_mqar", "continuous_mqar", "forgetting_mqar", "hint_recall"}},
      {"Copying", {"selective_copying", "copying_lag", "str_copy", "induction_heads"}},
      {"Long text", {"niah", "passkey", "vt", "cwe", "fwe"}},
      {"Phone book", {"phonebook", "phonebook_tok"}},
      {"State tracking", {"group_word", "group_swap", "mod_arith", "circuits", "vocab_majority"}}};
  if (task.starts_with("mad_")) return "MAD";
  for (const auto& [family, tasks] : kFamilies) {
    if (std::find(tasks.begin(), tasks.end(), task) != tasks.end()) return family;
  }
  return task;
}

Leaderboard MakeLeaderboard(const std::vector<LeaderboardInput>& inputs, std::size_t min_seeds) {
  Leaderboard board;
  board.min_seeds = min_seeds;
  std::vector<const LeaderboardInput*> taken;
  std::vector<const SweepReport*> reports;
  for (const LeaderboardInput& input : inputs) {
    if (auto refusal = RefusalOf(input, min_seeds)) {
      board.refused.push_back(std::move(*refusal));
      continue;
    }
    taken.push_back(&input);
    reports.push_back(&input.report);
    const Value document = SweepToValue(input.report);
    board.sources.push_back({.name = input.source,
                             .checksum = ConfigText(document, "integrity.content_sha256"),
                             .doubt = DoubtOf(input.report),
                             .link = input.link});
  }
  const RankedMixers list(reports);
  board.mixers = list.styles();
  Settings settings;
  for (const LeaderboardInput* input : taken) Collect(*input, list, settings, board.refused);
  for (auto& [key, setting] : settings) {
    // Where no mixer says what was to be reached, nothing was.
    const bool is_scored = setting.threshold ||
                           std::all_of(setting.results.begin(), setting.results.end(),
                                       [](const auto& item) { return item.second.is_unsupported; });
    if (is_scored) board.settings.push_back(std::move(setting));
  }
  std::stable_sort(board.settings.begin(), board.settings.end(),
                   [](const RankedSetting& a, const RankedSetting& b) {
                     return std::tuple(a.family, a.task, a.d_model) <
                            std::tuple(b.family, b.task, b.d_model);
                   });
  TellAlikeApart(board.settings);
  for (std::size_t m = 0; m < board.mixers.size(); ++m) {
    const int mixer = static_cast<int>(m);
    const auto lacks = std::count_if(
        board.settings.begin(), board.settings.end(),
        [&](const RankedSetting& setting) { return !setting.results.contains(mixer); });
    if (board.settings.empty() || lacks == static_cast<std::ptrdiff_t>(board.settings.size()))
      continue;
    if (lacks > 0) {
      board.refused.push_back({board.mixers[m].label,
                               fmt::format("lacks {} of {} settings", lacks, board.settings.size()),
                               "the settings that the others ran"});
      continue;
    }
    board.ranking.push_back({.mixer = mixer});
    Summarise(board, board.ranking.back());
  }
  std::set<int> ranked;
  for (const RankedMixer& entry : board.ranking) ranked.insert(entry.mixer);
  for (RankedSetting& setting : board.settings) {
    std::erase_if(setting.results, [&](const auto& item) { return !ranked.contains(item.first); });
    ++board.families[setting.family];
    for (const auto& [mixer, result] : setting.results) {
      board.num_cells += static_cast<std::int64_t>(result.solved.size());
    }
  }
  AddConditions(taken, list, board);
  FindSpeed(taken, list, board);
  std::stable_sort(
      board.ranking.begin(), board.ranking.end(), [&](const RankedMixer& a, const RankedMixer& b) {
        const auto key = [&](const RankedMixer& entry) {
          return std::tuple(-entry.score, -entry.length.value_or(0), entry.steps.value_or(1e300),
                            -entry.accuracy.value_or(0), -entry.tokens_per_second.value_or(0),
                            board.mixers[static_cast<std::size_t>(entry.mixer)].label);
        };
        return key(a) < key(b);
      });
  for (std::size_t i = 0; i < board.ranking.size(); ++i) {
    board.ranking[i].rank.place = static_cast<double>(i + 1);
  }
  FindBands(board, SeedOf(taken, list, board));
  return board;
}

}  // namespace mixerbench::reports
