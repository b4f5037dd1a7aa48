// Runs the suites of a collection, one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/error.h"
#include "harness/run/options.h"
#include "harness/suite/collection.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"

namespace mixerbench::harness {

// options.suite is a collection. Its suites are read, checked against the plans of their folders
// and entered in these before the first of them starts; each runs as `Run` does, into a folder of
// its own beside OUT/collection.json and, where the collection states a score, OUT/score.json, .md
// and .html, which are as far as the runs are. Returns kStoppedEarly as soon as one was stopped,
// else of the codes of all the one that comes first (base/error.h). Throws what Run throws, and
// Error(kBadInput) when OUT is for another collection.
ExitCode RunCollection(const RunOptions& options, const Registries& registries);

// Throws ConfigError for a wrong score of the collection, or one of suites that it does not have.
void CheckScore(const Collection& collection);

// Throws ConfigError for a score over another number of settings than the collection's `suites`
// train, which are as it gives them.
void CheckNumSettings(const Collection& collection, const std::vector<Suite>& suites);

}  // namespace mixerbench::harness
