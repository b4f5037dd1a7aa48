// What a training cell needs in memory, before any of it is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// A lower bound, in bytes. Doubles: sizes from a suite may not fit in 64 bits.
struct MemoryNeed {
  double parameters = 0;   // fp32
  double gradients = 0;    // of all of them
  double optimizer = 0;    // two moments
  double activations = 0;  // of one step: what a layer keeps for the backward pass, and the logits

  double total() const { return parameters + gradients + optimizer + activations; }
};

// From a model without memory. Throws what building the model throws.
MemoryNeed EstimateMemory(const Cell& cell, at::Device device, const Registries& registries);

// Bytes that there are in all: of the GPU, or of the machine with its swap space, less where a
// control group or a limit of the process says so.
double TotalMemory(at::Device device);

// "needs at least 24.2 GiB (parameters 6.0, gradients 6.0, optimizer 12.0, activations 0.2 GiB),
// and the machine has 22.9 GiB"; "" when that may do.
std::string DescribeLack(const MemoryNeed& need, double total);

// Throws LacksMemory when the cell can never fit, so that nothing dies of it.
void RequireMemory(const Cell& cell, at::Device device, const Registries& registries);

}  // namespace mixerbench::harness
