// What a run finds of trainings in its folder, and what it leaves of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/run/run_plan.h"
#include "harness/suite/cell.h"
#include "harness/training/weights.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Where the final weights of a training lie; the id with or without "sha256:".
WeightsFolder WeightsOf(const std::filesystem::path& out, const std::string& training_id,
                        bool is_strict);
// Whether intact ones do.
bool HasWeights(const std::filesystem::path& out, const std::string& training_id, bool is_strict);

// Of these cells, completed trainings lose their results when cells that are `pending` use their
// weights and there are no intact ones: they are to be trained again. Says how many, and why.
// Empty when none are.
std::string ForgetTrainingsWithoutWeights(const std::filesystem::path& out,
                                          const std::vector<Cell>& cells,
                                          const std::vector<std::size_t>& pending, bool is_strict,
                                          CellResults& results);

// ", 4 of them from kept weights": pending trainings that are only tested. Empty when none are.
std::string KeptWeightsText(const std::filesystem::path& out, const std::vector<Cell>& cells,
                            const std::vector<std::size_t>& pending, bool is_strict);

// Why trainings of an earlier plan, `planned`, are done again for other tests though they are
// completed; empty when none is.
std::string WhyTrainedAgain(const std::filesystem::path& out,
                            const std::vector<reports::CellResult>& planned, bool is_strict);

// Once every cell that uses a training has its result, weights of more bytes go.
void RemoveUsedWeights(const std::filesystem::path& out, const std::vector<Cell>& cells,
                       const CellResults& results, std::int64_t max_bytes, bool is_strict);

}  // namespace mixerbench::harness
