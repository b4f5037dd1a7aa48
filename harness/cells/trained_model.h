// The model of a cell with weights that another cell has trained.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "harness/training/model.h"
#include "harness/training/weights.h"

namespace mixerbench::harness {

// Puts weights of the training that `cell` does or names into `model`, which is built for inputs of
// up to `max_seq_len` tokens. Throws Error(kBadInput) when this training would leave others: some
// models have a parameter for each position or measure time by the longest input that they are
// built for, and that may be one which is only tested.
void TakeWeights(const FinalWeights& weights, const Cell& cell, const Model& model,
                 std::int64_t max_seq_len, const Registries& registries);

// The model that a cell with NamesTraining(kind) names.
struct TrainedModel {
  Model model;  // built for cell.trained_max_seq_len
  FinalWeights weights;
};

// Throws Error(kBadInput) when the folder has no intact weights of this training.
TrainedModel LoadTrainedModel(const Cell& cell, at::Device device, const Registries& registries,
                              const std::filesystem::path& weights_folder);

}  // namespace mixerbench::harness
