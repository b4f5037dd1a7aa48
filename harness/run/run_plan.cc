// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/run/plan.h"
#include "harness/training/memory_need.h"

namespace mixerbench::harness {
namespace {

// "(0, 1, 2)", "(1000..1099)", "(1, 7, 3, 9, ...)".
std::string SeedsText(const std::vector<Cell>& cells) {
  constexpr std::size_t kMaxListed = 4;
  std::set<std::uint64_t> seeds;
  for (const Cell& cell : cells) {
    if (cell.kind == CellKind::kTrain) seeds.insert(cell.seed);
  }
  std::string text = std::to_string(seeds.size()) + (seeds.size() == 1 ? " seed (" : " seeds (");
  if (seeds.size() > 2 && *seeds.rbegin() - *seeds.begin() == seeds.size() - 1) {
    return text + std::to_string(*seeds.begin()) + ".." + std::to_string(*seeds.rbegin()) + ")";
  }
  std::size_t num_listed = 0;
  for (const std::uint64_t seed : seeds) {
    if (num_listed++ == kMaxListed) return text + ", ...)";
    text += (num_listed > 1 ? ", " : "") + std::to_string(seed);
  }
  return text + ")";
}

}  // namespace

std::string Counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string Label(const Cell& cell) { return LabelOf(cell.name, NameOf(cell.kind), cell.seed); }

bool InShard(const Cell& cell, const Shard& shard) {
  const std::string& id = cell.training_id.empty() ? cell.run_id : cell.training_id;
  return std::stoull(id.substr(0, 15), nullptr, 16) % shard.count == shard.index;
}

std::vector<std::size_t> FindPending(const std::vector<Cell>& cells, const Shard& shard,
                                     const CellResults& done) {
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!done[i] && InShard(cells[i], shard)) pending.push_back(i);
  }
  return pending;
}

std::optional<LargestCell> FindLargest(const std::vector<Cell>& cells,
                                       const std::vector<std::size_t>& pending, at::Device device,
                                       const Registries& registries) {
  std::optional<LargestCell> largest;
  std::set<std::string> known;  // seeds need the same
  for (const std::size_t i : pending) {
    const Cell& cell = cells[i];
    if (cell.kind != CellKind::kTrain || !known.insert(cell.group_id).second) continue;
    const auto bytes = static_cast<std::int64_t>(EstimateMemory(cell, device, registries).total());
    if (!largest || bytes > largest->bytes) largest = {cell.name, bytes};
  }
  return largest;
}

Eta::CellType TypeOf(const Cell& cell) { return {std::string(NameOf(cell.kind)), cell.group_id}; }

std::vector<Eta::Waiting> WaitingOf(const std::vector<Cell>& cells,
                                    const std::vector<std::size_t>& pending) {
  std::vector<Eta::Waiting> waiting;
  for (const std::size_t i : pending) {
    waiting.push_back({TypeOf(cells[i]), cells[i].kind == CellKind::kThroughput});
  }
  return waiting;
}

Eta EtaFrom(const std::vector<Cell>& cells, const CellResults& done, std::size_t num_workers,
            std::int64_t cells_per_worker) {
  Eta eta(num_workers, cells_per_worker);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!done[i] || done[i]->state != reports::CellState::kCompleted) continue;
    eta.Add(TypeOf(cells[i]), done[i]->wall_s);
  }
  return eta;
}

std::string Summarize(const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
                      const CellResults& done, std::size_t num_workers,
                      std::int64_t cells_per_worker) {
  std::set<std::string> settings;
  std::map<CellKind, std::size_t> counts;
  for (const Cell& cell : cells) {
    ++counts[cell.kind];
    if (cell.kind == CellKind::kTrain) settings.insert(cell.group_id);
  }
  std::string text = Counted(cells.size(), "cell") + ":";
  if (!settings.empty()) {
    text += " " + Counted(settings.size(), "setting") + " x " + SeedsText(cells);
  }
  static const std::vector<std::pair<CellKind, std::string>> kNouns = {
      {CellKind::kEvaluate, "evaluation"},
      {CellKind::kAnalyse, "tap reading"},
      {CellKind::kThroughput, "speed curve"}};
  for (const auto& [kind, noun] : kNouns) {
    if (counts[kind] > 0) text += (text.back() == ':' ? " " : ", ") + Counted(counts[kind], noun);
  }
  const auto num_left = std::count(done.begin(), done.end(), std::nullopt);
  text += "; " + std::to_string(done.size() - static_cast<std::size_t>(num_left)) + " done, " +
          std::to_string(pending.size()) + " to run";
  if (pending.empty()) return text;
  const std::size_t slots = num_workers * static_cast<std::size_t>(cells_per_worker);
  text += ", " + std::to_string(std::min(slots, pending.size())) + " at once";
  const auto left =
      EtaFrom(cells, done, num_workers, cells_per_worker).Estimate({}, WaitingOf(cells, pending));
  return left.seconds > 0 ? text + ", about " + FormatLeft(left) : text;
}

}  // namespace mixerbench::harness
