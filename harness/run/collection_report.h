// What a folder of several runs says as one: the score of the collection that they belong to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "reports/score/score.h"

namespace mixerbench::harness {

// From the run folders and published reports that lie in `out` now; a suite that has neither is
// missing from the score.
// Nothing for a collection that states no score. Throws Error(kBadInput) for a folder that is none
// of a collection, and what ReadReport throws.
std::optional<reports::ScoreReport> ScoreOf(const std::filesystem::path& out);

// Writes score.json, score.md and score.html where the collection states a score. Of several
// processes that do so at once, the last has seen every finished cell.
void WriteScore(const std::filesystem::path& out);

}  // namespace mixerbench::harness
