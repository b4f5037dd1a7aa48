// Whether a model can be built and does what a cell asks of it, before anything starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "harness/suite/throughput_plan.h"

namespace mixerbench::harness {

// Each throws ConfigError for what is not so.

// Makes the layers of the model without memory for its weights and without drawing them, so that
// impossible sizes are found now.
void CheckModel(const Cell& cell, const Registries& registries);

// A number that says nothing of the mixer is worse than none.
void CheckTaskSuitsModel(const Cell& cell, const Registries& registries);

// An auto-encoder cannot go on from a state: what it would decode belongs to the last piece.
void CheckPieces(const Cell& cell, const Registries& registries);

// So phases that leave a state or begin with one have nothing to time.
void CheckPhases(const Cell& cell, const ThroughputPlan& plan, const Registries& registries);

}  // namespace mixerbench::harness
