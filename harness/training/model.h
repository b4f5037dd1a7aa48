// A model ready to train: its parameters and its backbone, built from a cell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "models/backbone.h"
#include "models/parameters.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

struct Model {
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Backbone> backbone;
};

// Weights are a function of the cell's seed and the parameters' names. `max_seq_len` bounds one
// call; 0 takes the longest input of the cell's task.
Model BuildModel(const Cell& cell, at::Device device, const Registries& registries,
                 std::int64_t max_seq_len = 0, at::ScalarType dtype = at::kFloat);

at::ScalarType ComputeDtype(Dtype dtype);

// Parameters counted, and the state carried after `num_tokens` tokens measured from its tensors, as
// the cell computes: a mixer in Python may know its own precision alone.
reports::ModelFacts MeasureModel(const Model& model, std::int64_t num_tokens, at::Device device,
                                 at::ScalarType compute_dtype);

}  // namespace mixerbench::harness
