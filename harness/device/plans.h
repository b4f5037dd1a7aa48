// What ran in a cell: plans of repeated work as rows of its result, and the refusal of fallbacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "harness/device/graph.h"
#include "kernels/core.h"
#include "kernels/runtime/plan.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Equal plans of several scopes become one; `cores` tells recurrences from other functions.
std::vector<reports::FunctionPlan> ToFunctionPlans(const std::vector<kernels::PlanRecord>& records,
                                                   const kernels::CoreRegistry& cores);

// A phase at one shape and the work that ran it.
struct PhaseWork {
  std::string phase;
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  const RepeatedWork* work = nullptr;
};

// Enters what ran, in order of phase and shape; replaces what an earlier attempt of the cell left.
void AddPlan(const PhaseWork& ran, const kernels::CoreRegistry& cores,
             std::vector<reports::PhasePlan>& plans);

// Which path ran: "reference", "fast", or "" when nothing has run yet.
std::string PathOf(const std::vector<reports::PhasePlan>& plans);

// --require-device-cores: throws ConfigError, which makes a cell `unsupported`, when a core did not
// run by the plan that is meant for a GPU.
void RefuseFallbacks(const std::vector<kernels::PlanRecord>& records,
                     const kernels::CoreRegistry& cores);
bool IsRefusedFallback(const reports::CellResult& result);

}  // namespace mixerbench::harness
