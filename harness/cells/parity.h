// Whether what is timed computes what it should: outputs and gradients of the timed work itself
// (its shape, dtype, plan and direction), for the first sequences of the batch, against float64:
// the reference path on the CPU; on a GPU plain ATen, which the conformance suite holds against the
// reference. docs/NUMERICS.md has the tolerances.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/suite/train_config.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Outputs ("hidden", "loss") and gradients ("d <parameter>") of a pass, by name.
using Quantities = std::vector<std::pair<std::string, at::Tensor>>;

// The part of a batch that is compared: its first sequences, of these the first tokens. Models are
// causal and a gradient is a sum over what outputs got one, so the rest may take part in the timed
// pass without a gradient.
struct ParitySample {
  std::int64_t num_sequences = 0;
  std::int64_t num_tokens = 0;
};

// As much of [batch_size, seq_len] as float64 can go through in seconds; the reference keeps a
// state of `state_elements` numbers for every token. At least one token.
ParitySample ChooseParitySample(std::int64_t batch_size, std::int64_t seq_len,
                                std::int64_t state_elements, at::Device device);

// The quantity with the largest error per tolerance. Errors are relative to `exact`; a tolerance is
// twice the error of `naive`, plain ATen in the same dtype, and what rounding the operands of
// products once more costs. Of several naive runs the
// larger error of each quantity counts. All hold the same names in the same order.
reports::Parity Compare(const Quantities& timed, const std::vector<Quantities>& naive,
                        const Quantities& exact, Dtype dtype);

// Not so for errors that are not finite.
bool Holds(const reports::Parity& parity);

}  // namespace mixerbench::harness
