// SPDX-License-Identifier: Apache-2.0
#include "harness/run/merge_plan.h"

#include <algorithm>
#include <iterator>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/remove_if.hpp>
#include <range/v3/view/transform.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/run/plan_suites.h"
#include "harness/suite/identity.h"
#include "io/json.h"
#include "reports/summary/select.h"

namespace mixerbench::harness {
namespace {

using reports::CellResult;

std::string KeyOf(const CellResult& cell) {
  return cell.experiment_id + " " + std::to_string(cell.seed);
}

std::vector<CellResult> PlannedCells(const Suite& suite) {
  return suite.cells | ranges::views::transform(PlannedCell) | ranges::to<std::vector>();
}

bool IsFresh(const CellResult& cell) { return cell.phase == reports::CellPhase::kReport; }

// `cells` with the ids that this program gives them.
std::vector<CellResult> IdentifyAgain(const std::vector<CellResult>& cells,
                                      const std::vector<CellResult>& requested,
                                      const Registries& registries,
                                      const std::filesystem::path& out) {
  const auto known =
      requested | ranges::views::transform(&CellResult::run_id) | ranges::to<std::set>();
  CellIdentifier identifier(registries);
  std::vector<CellResult> identified;
  for (const CellResult& planned : cells) {
    if (known.contains(planned.run_id)) {
      identified.push_back(planned);
      continue;
    }
    try {
      Cell cell = PlanAgain(planned, registries);
      identifier.Identify(cell);
      cell.phase = planned.phase;
      identified.push_back(PlannedCell(cell));
    } catch (const std::exception& error) {
      throw Error(ExitCode::kOutput, out.string() + ": its plan holds '" + LabelOf(planned) +
                                         "', which this program cannot plan (" + error.what() +
                                         "); choose another folder with --out, or drop the old "
                                         "plan with --plan replace");
    }
  }
  return identified;
}

// The cells of `cells` that `others` has not.
std::vector<CellResult> Without(const std::vector<CellResult>& cells,
                                const std::vector<CellResult>& others) {
  const auto keys = others | ranges::views::transform(KeyOf) | ranges::to<std::set>();
  const auto has = [&](const CellResult& cell) { return keys.contains(KeyOf(cell)); };
  return cells | ranges::views::remove_if(has) | ranges::to<std::vector>();
}

// What a cell has in common with others that differ in nothing but what they test.
std::string TrainingOf(const CellResult& cell) {
  if (!cell.training_id.empty()) return cell.training_id;
  Value config = cell.config;
  if (const Value* task = config.Find("task"); task != nullptr && task->is_object()) {
    config.as_object().at("task").as_object().erase("test");
  }
  return cell.name + " " + std::to_string(cell.seed) + " " + io::DumpJson(config);
}

bool AreTestedOtherwise(const std::vector<CellResult>& cells,
                        const std::vector<CellResult>& requested) {
  const auto trainings = requested | ranges::views::transform(TrainingOf) | ranges::to<std::set>();
  return std::all_of(cells.begin(), cells.end(),
                     [&](const CellResult& cell) { return trainings.contains(TrainingOf(cell)); });
}

void AddSuite(Plan& plan, const Suite& suite) {
  Array suites = SuitesOf(plan.config);
  if (std::find(suites.begin(), suites.end(), suite.config) != suites.end()) return;
  suites.push_back(suite.config);
  plan.config = Object{{"merged", std::move(suites)}};
  const std::string name = " + " + suite.name;
  if (!(" + " + plan.name).ends_with(name)) plan.name += name;
}

// `sweep.select` of a suite, or null.
Value SelectOf(const Value& suite) {
  const Value* sweep = suite.Find("sweep");
  const Value* select = sweep != nullptr ? sweep->Find("select") : nullptr;
  return select != nullptr ? *select : Value();
}

// How a suite chooses, whatever it reports of what is chosen.
Value ChoiceOf(const Value& suite) { return reports::Without(SelectOf(suite), {"reseed"}); }

// Whether all fresh seeds of `part` are among those of `whole`.
bool IsFreshPart(const Value& part, const Value& whole) {
  const auto all = reports::SelectRuleOf(whole).fresh_seeds;
  const auto some = reports::SelectRuleOf(part).fresh_seeds;
  return std::all_of(some.begin(), some.end(), [&](std::uint64_t seed) {
    return std::find(all.begin(), all.end(), seed) != all.end();
  });
}

// The suites of a plan, of which those that choose as `suite` does report its fresh seeds when
// these are theirs and more.
Array WithFreshSeedsOf(const Value& suite, Array suites) {
  for (Value& planned : suites) {
    const bool grows = ChoiceOf(planned) == ChoiceOf(suite) && IsFreshPart(planned, suite);
    if (grows && !SelectOf(suite).is_null()) {
      planned.as_object().at("sweep").as_object()["select"] = SelectOf(suite);
    }
  }
  return suites;
}

// A part of a plan chooses and reports as the whole does, or it would be done otherwise than asked.
void RequireSameChoice(const Array& suites, const Value& suite, const std::filesystem::path& out) {
  if (SelectOf(suite).is_null()) return;
  const bool is_known = std::any_of(suites.begin(), suites.end(), [&](const Value& planned) {
    return ChoiceOf(planned) == ChoiceOf(suite) && IsFreshPart(suite, planned);
  });
  if (is_known) return;
  const Value planned = SelectOf(suites.front());
  throw Error(ExitCode::kOutput,
              out.string() +
                  ": this command asks for a part of its plan and chooses otherwise, by " +
                  io::DumpJson(SelectOf(suite)) +
                  (planned.is_null() ? ", where the plan chooses nothing"
                                     : ", where the plan has " + io::DumpJson(planned)) +
                  "; ask for all of its cells, choose another folder with --out, or drop the old "
                  "plan with --plan replace");
}

}  // namespace

Cell PlanAgain(const CellResult& planned, const Registries& registries) {
  Value asked = planned.config;
  asked.as_object()["name"] = planned.name;
  asked.as_object()["seed"] = std::to_string(planned.seed);
  Cell cell = CellFromValue(asked, registries.tasks);
  const tasks::TaskEntry& task = registries.tasks.Find(cell.task.name, "/task/name");
  for (auto* segments : {&cell.task.train, &cell.task.validation, &cell.task.test}) {
    for (Segment& segment : *segments) segment.params = task.resolve(segment.params, "/task");
  }
  cell.model = ResolveModel(cell.model, registries);
  return cell;
}

CellResult PlannedCell(const Cell& cell) {
  CellResult planned = ResultOf(cell);
  planned.phase = cell.phase;
  return planned;
}

Plan MergePlan(const std::optional<Plan>& old, const Suite& suite, PlanPolicy policy,
               const Registries& registries, const std::filesystem::path& out) {
  Plan requested{suite.name, suite.config, PlannedCells(suite)};
  if (!old || policy == PlanPolicy::kReplace) return requested;
  Plan merged{old->name, old->config, IdentifyAgain(old->cells, requested.cells, registries, out)};
  std::vector<CellResult> only_old = Without(merged.cells, requested.cells);
  // Fresh seeds follow from the choice, which PlanFreshSeeds enters: nobody asks for them by name.
  const bool has_choice = !reports::SelectRuleOf(suite.config).fresh_seeds.empty();
  if (has_choice) std::erase_if(only_old, IsFresh);
  std::vector<CellResult> added = Without(requested.cells, merged.cells);
  if (only_old.empty()) {
    const bool is_same_choice = has_choice && added.empty();
    if (is_same_choice) {
      std::copy_if(merged.cells.begin(), merged.cells.end(), std::back_inserter(requested.cells),
                   IsFresh);
    }
    return requested;
  }
  Array suites = WithFreshSeedsOf(suite.config, SuitesOf(merged.config));
  if (added.empty()) RequireSameChoice(suites, suite.config, out);
  const bool is_one = merged.config.Find("merged") == nullptr;
  merged.config = is_one ? std::move(suites.front()) : Value(Object{{"merged", std::move(suites)}});
  if (added.empty()) return merged;
  if (policy == PlanPolicy::kRefuse && AreTestedOtherwise(only_old, requested.cells)) {
    return requested;
  }
  if (policy == PlanPolicy::kRefuse) {
    throw Error(ExitCode::kOutput,
                out.string() + ": holds the plan of '" + old->name + "', " +
                    std::to_string(only_old.size()) +
                    " cells of which this command does not ask for, such as '" +
                    LabelOf(only_old.front()) +
                    "'; choose another folder with --out, keep both with --plan merge, or drop "
                    "the old plan with --plan replace");
  }
  AddSuite(merged, suite);
  std::move(added.begin(), added.end(), std::back_inserter(merged.cells));
  return merged;
}

}  // namespace mixerbench::harness
