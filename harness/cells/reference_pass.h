// The same work as a timed pass by slower code: what its outputs and gradients are held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/cells/parity.h"
#include "harness/cells/timed_pass.h"
#include "harness/device/graph.h"
#include "harness/training/model.h"
#include "kernels/runtime/plan.h"
#include "models/backbone.h"

namespace mixerbench::harness {

// Computes the quantities of a pass by a model; adds its own options to the given ones.
using Evaluation = std::function<Quantities(const Model&, const models::BackboneOptions&)>;

// What of [batch_size, seq_len] is compared.
ParitySample SampleOf(const PassContext& context, std::int64_t batch_size, std::int64_t seq_len);

// Of the model of the cell, in the precision of the cell, without device code: what errors are held
// against. In bf16 with and without autocast, which rounds the operands of every product.
std::vector<Quantities> NaiveQuantities(const PassContext& context, const Evaluation& evaluate);

// Of a model with the same weights in float64: without device code too or, where there is none, by
// the reference.
Quantities ExactQuantities(const PassContext& context, const Evaluation& evaluate);

// The comparison with what it compared; `passes`: "forward", "forward, backward".
reports::Parity Describe(reports::Parity parity, const ParitySample& sample, std::string passes);

// What is compared must be what is timed: throws std::logic_error otherwise. A step updates
// parameters too, a comparison does not.
void RequireSamePlans(const RepeatedWork& timed, const kernels::PlanRecorder& compared);

}  // namespace mixerbench::harness
