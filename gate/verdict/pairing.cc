// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/pairing.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "io/value_path.h"
#include "reports/result/device.h"
#include "reports/summary/select.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;

std::string Joined(const std::set<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool IsFresh(const CellResult& cell) { return cell.phase == reports::CellPhase::kReport; }

// What both sides have of one experiment and seed.
struct Found {
  std::vector<const CellResult*> base, candidate;
};

struct ExperimentKey {
  std::string name, kind, id;
  bool is_fresh = false;
  auto operator<=>(const ExperimentKey&) const = default;
};

using BySeed = std::map<std::uint64_t, Found>;

// Experiments in the order of their names, which is that of the reports. The name is the base's.
std::map<ExperimentKey, BySeed> Collect(const Side& base, const Side& candidate) {
  std::map<std::pair<std::string, bool>, BySeed> by_id;
  const auto add = [&](const Side& side, auto which) {
    for (const CellResult& cell : side.cells) {
      if (cell.experiment_id.empty()) continue;
      Found& found = by_id[{cell.experiment_id, IsFresh(cell)}][cell.seed];
      (found.*which).push_back(&cell);
    }
  };
  add(base, &Found::base);
  add(candidate, &Found::candidate);
  std::map<ExperimentKey, BySeed> sorted;
  for (auto& [key, seeds] : by_id) {
    const CellResult* named = nullptr;
    for (const auto& [seed, found] : seeds) {
      if (!found.base.empty()) named = found.base.front();
      if (named) break;
    }
    if (!named) named = seeds.begin()->second.candidate.front();
    const auto& [id, is_fresh] = key;
    sorted.emplace(ExperimentKey{named->name, named->kind, id, is_fresh}, std::move(seeds));
  }
  return sorted;
}

// Why a pair does not stand, with the verdict that this gives, and which seeds it concerns.
struct Obstacle {
  Verdict verdict;
  std::string say;
  auto operator<=>(const Obstacle&) const = default;
};
using Obstacles = std::map<Obstacle, std::vector<std::uint64_t>>;

std::string StateText(const CellResult& cell) {
  return std::string(NameOf(cell.state)) + (cell.reason.empty() ? "" : ": " + cell.reason);
}

// "the test data, or the code that makes them, differ: 51c0e2… in base, 8fd119… in new".
std::string DataDifference(const CellResult& base, const CellResult& candidate) {
  for (const char* split : {"train", "validation", "test"}) {
    const std::string a = io::StringAt(base.data_hash, split);
    const std::string b = io::StringAt(candidate.data_hash, split);
    if (a != b) {
      return fmt::format("the {} data, or the code that makes them, differ: {} in base, {} in new",
                         split, io::ShortHash(a), io::ShortHash(b));
    }
  }
  return "the data differ";
}

std::optional<Obstacle> FindObstacle(const Found& found) {
  if (found.base.size() > 1 || found.candidate.size() > 1) {
    return Obstacle{Verdict::kNotComparable,
                    "two results for one experiment and seed in one report"};
  }
  const CellResult* base = found.base.empty() ? nullptr : found.base.front();
  const CellResult* candidate = found.candidate.empty() ? nullptr : found.candidate.front();
  const bool base_ran = base && Ran(*base);
  const bool candidate_ran = candidate && Ran(*candidate);
  if (base_ran && candidate_ran) {
    if (base->data_id == candidate->data_id) return std::nullopt;
    return Obstacle{Verdict::kNotComparable, DataDifference(*base, *candidate)};
  }
  if (base_ran) {
    return Obstacle{Verdict::kMissing,
                    candidate ? "only in base; in new " + StateText(*candidate) : "only in base"};
  }
  if (candidate_ran && base && base->state != CellState::kUnsupported) {
    return Obstacle{Verdict::kMissing, "only in new; in base " + StateText(*base)};
  }
  if (candidate_ran) return Obstacle{Verdict::kNotGated, "only in new: nothing to compare it with"};
  const bool was_asked_for = (base && base->state != CellState::kUnsupported) ||
                             (candidate && candidate->state != CellState::kUnsupported);
  if (was_asked_for) return Obstacle{Verdict::kMissing, "neither side has a result"};
  return Obstacle{Verdict::kNotGated, "unsupported on both sides"};
}

// Experiments that a side ran in a competition in which it chose another setting, whose fresh seeds
// it has. A competition without fresh seeds is not decided yet.
std::set<std::string> NotChosen(const Side& side) {
  const auto competition = [&](const CellResult& cell) {
    return io::DumpJson(reports::Without(cell.config, side.chosen_over));
  };
  std::set<std::string> chosen, decided;
  for (const CellResult& cell : side.cells) {
    if (!IsFresh(cell)) continue;
    chosen.insert(cell.experiment_id);
    decided.insert(competition(cell));
  }
  std::set<std::string> not_chosen;
  for (const CellResult& cell : side.cells) {
    if (!Ran(cell) || chosen.contains(cell.experiment_id)) continue;
    if (decided.contains(competition(cell))) not_chosen.insert(cell.experiment_id);
  }
  return not_chosen;
}

std::string SeedList(const std::vector<std::uint64_t>& seeds) {
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, seeds.size()); ++i) {
    list += (i > 0 ? ", " : "") + std::to_string(seeds[i]);
  }
  if (seeds.size() > kShown) list += fmt::format(" and {} more", seeds.size() - kShown);
  return (seeds.size() == 1 ? "seed " : "seeds ") + list;
}

void AddRows(const Experiment& experiment, const Obstacles& obstacles, std::size_t num_seeds,
             Pairing& pairing) {
  for (const auto& [obstacle, seeds] : obstacles) {
    Row row = RowOf(experiment, Gate::kPairing, "all metrics");
    row.verdict = obstacle.verdict;
    row.seeds = seeds;
    row.say = obstacle.say;
    if (seeds.size() < num_seeds) row.say = SeedList(seeds) + ": " + row.say;
    pairing.rows.push_back(std::move(row));
  }
}

// Results of old schemas cannot be paired; results of a part of the data are named.
void NoteCells(const Side& side, const char* which, Pairing& pairing) {
  std::int64_t num_old = 0;
  std::set<std::string> partial;
  for (const CellResult& cell : side.cells) {
    if (cell.experiment_id.empty()) ++num_old;
    if (cell.partial) partial.insert(cell.name);
  }
  if (num_old > 0) {
    Row row;
    row.metric = "all metrics";
    row.cell = fmt::format("{} results in {}", num_old, which);
    row.verdict = Verdict::kNotComparable;
    row.say = "written by a schema before 1.3, without the experiment id that pairs results";
    pairing.rows.push_back(std::move(row));
  }
  for (const std::string& name : partial) {
    pairing.notes.push_back({name, fmt::format("partial in {}, where it ran with --limit", which)});
  }
}

}  // namespace

bool Ran(const CellResult& cell) {
  return cell.state == CellState::kCompleted || reports::IsFailure(cell.state);
}

SideFacts FactsOf(const Side& side) {
  std::set<std::string> codes, commits, devices;
  std::string started;
  for (const CellResult& cell : side.cells) {
    started = std::max(started, cell.started);
    if (!cell.code_id.empty()) codes.insert(io::ShortHash(cell.code_id));
    const std::string commit = io::StringAt(cell.environment, "tool.git_commit");
    const Value* tool = cell.environment.Find("tool");
    const Value* dirty = tool ? tool->Find("git_dirty") : nullptr;
    const bool is_dirty = dirty && dirty->is_bool() && dirty->as_bool();
    if (!commit.empty()) commits.insert(commit.substr(0, 12) + (is_dirty ? ", changed" : ""));
    if (const std::string device = reports::DeviceOf(cell); !device.empty()) devices.insert(device);
  }
  constexpr std::size_t kShownCodes = 3;
  const std::string code =
      codes.size() > kShownCodes ? fmt::format("{} versions", codes.size()) : Joined(codes);
  return {side.name,       code,    Joined(commits),
          Joined(devices), started, static_cast<std::int64_t>(side.cells.size())};
}

Row RowOf(const Experiment& experiment, Gate gate, std::string metric) {
  Row row;
  row.gate = gate;
  row.metric = std::move(metric);
  row.cell = experiment.cell;
  row.experiment_id = experiment.id;
  for (const CellPair& pair : experiment.pairs) row.seeds.push_back(pair.base->seed);
  return row;
}

Pairing PairCells(const Side& base, const Side& candidate) {
  Pairing pairing;
  const std::set<std::string> not_chosen = NotChosen(candidate);
  for (const auto& [key, seeds] : Collect(base, candidate)) {
    Experiment experiment{key.id,
                          key.name + std::string(key.is_fresh ? kFreshSuffix : ""),
                          key.kind,
                          key.is_fresh,
                          {}};
    Obstacles obstacles;
    for (const auto& [seed, found] : seeds) {
      std::optional<Obstacle> obstacle = FindObstacle(found);
      if (obstacle && key.is_fresh && found.candidate.empty() && not_chosen.contains(key.id)) {
        obstacle = {Verdict::kInconclusive,
                    "new chose another setting: the seeds of the sweep are compared, the reported "
                    "ones cannot be"};
      }
      if (obstacle) obstacles[*obstacle].push_back(seed);
      if (found.base.size() == 1 && found.candidate.size() == 1) {
        ++pairing.hashes_compared;
        pairing.hashes_equal += found.base.front()->data_id == found.candidate.front()->data_id;
      }
      if (!obstacle) experiment.pairs.push_back({found.base.front(), found.candidate.front()});
    }
    AddRows(experiment, obstacles, seeds.size(), pairing);
    if (!experiment.pairs.empty()) pairing.experiments.push_back(std::move(experiment));
  }
  NoteCells(base, "base", pairing);
  NoteCells(candidate, "new", pairing);
  return pairing;
}

}  // namespace mixerbench::gate
