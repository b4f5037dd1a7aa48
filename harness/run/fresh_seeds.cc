// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fresh_seeds.h"

#include <algorithm>
#include <optional>

#include "harness/run/folder_report.h"
#include "harness/run/merge_plan.h"
#include "harness/run/run_plan.h"
#include "harness/suite/identity.h"
#include "reports/summary/select.h"

namespace mixerbench::harness {
namespace {

using reports::CellPhase;
using reports::CellResult;

bool IsFresh(const CellResult& cell) { return cell.phase == CellPhase::kReport; }

// Some training cell of the sweep's own seeds of a group, and those that use its weights.
std::vector<CellResult> CellsOfTraining(const reports::SweepReport& report,
                                        const std::string& group_id) {
  const auto trained = std::find_if(
      report.cells.begin(), report.cells.end(),
      [&](const CellResult& cell) { return cell.group_id == group_id && !IsFresh(cell); });
  std::vector<CellResult> cells = {*trained};
  for (const CellResult& cell : report.cells) {
    const bool uses = cell.kind != trained->kind && cell.training_id == trained->training_id;
    if (uses && !trained->training_id.empty()) cells.push_back(cell);
  }
  return cells;
}

}  // namespace

FreshSeeds FindFreshSeeds(const Plan& plan, const std::filesystem::path& out,
                          const Registries& registries) {
  FreshSeeds fresh;
  if (reports::SelectRuleOf(plan.config).fresh_seeds.empty()) return fresh;
  const reports::SweepReport report = ReportOf(out, plan);
  fresh.reseeds = report.reseeds;
  CellIdentifier identifier(registries);
  for (const reports::Reseed& reseed : fresh.reseeds) {
    if (reseed.group_id.empty()) continue;
    for (const CellResult& planned : CellsOfTraining(report, reseed.group_id)) {
      Cell cell = PlanAgain(planned, registries);
      cell.phase = CellPhase::kReport;
      for (const std::uint64_t seed : reseed.seeds) {
        cell.seed = seed;
        identifier.Identify(cell);
        fresh.cells.push_back(cell);
      }
    }
  }
  return fresh;
}

FreshSeeds PlanFreshSeeds(const std::filesystem::path& out, const Registries& registries) {
  const FolderLock lock(out);
  std::optional<Plan> plan = ReadPlan(out);
  if (!plan) return {};
  FreshSeeds fresh = FindFreshSeeds(*plan, out, registries);
  if (fresh.reseeds.empty()) return fresh;
  std::erase_if(plan->cells, IsFresh);
  for (const Cell& cell : fresh.cells) plan->cells.push_back(PlannedCell(cell));
  WritePlan(out, *plan);
  return fresh;
}

std::string FreshSeedsText(const std::vector<reports::Reseed>& reseeds) {
  if (reseeds.empty()) return "";
  const auto num_open = static_cast<std::size_t>(
      std::count_if(reseeds.begin(), reseeds.end(),
                    [](const reports::Reseed& reseed) { return reseed.group_id.empty(); }));
  const auto& seeds = reseeds.front().seeds;
  std::string text = Counted(reseeds.size(), "chosen setting") + " x " +
                     Counted(seeds.size(), "fresh seed") + " (" + std::to_string(seeds.front());
  if (seeds.size() > 1) text += ".." + std::to_string(seeds.back());
  text += ")";
  if (num_open > 0) text += ", " + std::to_string(num_open) + " of them not chosen yet";
  return text;
}

}  // namespace mixerbench::harness
