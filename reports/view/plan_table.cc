// SPDX-License-Identifier: Apache-2.0
#include "reports/view/plan_table.h"

#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace mixerbench::reports {
namespace {

std::string Execution(const PhasePlan& plan) {
  return plan.eager_reason.empty() ? plan.execution : plan.execution + ": " + plan.eager_reason;
}

using SeqLensByPhase = std::map<std::string, std::set<std::int64_t>>;

std::string RunsText(const SeqLensByPhase& phases) {
  constexpr std::size_t kMaxListed = 3;
  std::string text;
  for (const auto& [phase, lengths] : phases) {
    text += (text.empty() ? "" : ", ") + phase;
    if (lengths.size() > kMaxListed) {
      text += fmt::format(" {}–{}", *lengths.begin(), *lengths.rbegin());
      continue;
    }
    for (const std::int64_t length : lengths) text += fmt::format(" {}", length);
  }
  return text;
}

}  // namespace

std::vector<PlanTableRow> PlansByMixer(const SweepReport& report) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string,
                         std::string, std::string>;
  std::map<Key, SeqLensByPhase> rows;
  for (const CellResult& cell : report.cells) {
    const CellName name = SplitCellName(cell.name);
    for (const PhasePlan& phase : cell.plans) {
      for (const FunctionPlan& plan : phase.functions) {
        if (!plan.is_core) continue;
        rows[{name.task, name.mixer, plan.function, plan.forward, plan.backward, plan.reason,
              Execution(phase)}][phase.phase]
            .insert(phase.seq_len);
      }
    }
  }
  std::vector<PlanTableRow> table;
  for (const auto& [key, runs] : rows) {
    const auto& [task, mixer, function, forward, backward, reason, execution] = key;
    table.push_back({.task = task,
                     .mixer = mixer,
                     .plan = {.function = function,
                              .is_core = true,
                              .scopes = {},
                              .forward = forward,
                              .backward = backward,
                              .reason = reason},
                     .execution = execution,
                     .runs = RunsText(runs)});
  }
  return table;
}

std::vector<std::string> PlanColumns() {
  return {"task", "mixer", "core", "forward", "backward", "runs", "execution", "why no other"};
}

std::vector<std::string> PlanFields(const PlanTableRow& row) {
  const auto text = [](const std::string& field) { return field.empty() ? "–" : field; };
  return {row.task, row.mixer,     row.plan.function,    row.plan.forward, text(row.plan.backward),
          row.runs, row.execution, text(row.plan.reason)};
}

std::string ParityText(const ThroughputRow& row) {
  if (row.state != CellState::kCompleted) return row.reason;
  if (!row.parity) return row.parity_check;
  return fmt::format("{}, {:.2g} of {:.2g}", row.parity_check, row.parity->error,
                     row.parity->tolerance);
}

std::string ThrottleText(const ThroughputRow& row) {
  if (!row.throttle || row.throttle->empty()) return "";
  const std::string reasons = fmt::format("{}", fmt::join(*row.throttle, ", "));
  if (row.throttled_samples_dropped == 0) return reasons;
  return fmt::format("{}; {} of {} samples dropped", reasons, row.throttled_samples_dropped,
                     std::ssize(row.samples_ms) + row.throttled_samples_dropped);
}

}  // namespace mixerbench::reports
