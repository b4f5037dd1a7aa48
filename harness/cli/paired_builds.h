// Starting two builds of this program in turn: to time both, or to give both more seeds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gate/verdict/settings.h"
#include "gate/verdict/timings.h"

namespace mixerbench::harness {

// Each a mixerbench with the engine beside it.
struct Builds {
  std::string base, candidate;
};

// This program's own path.
std::string ThisProgram();

// Times `suite` in `settings.pairs` pairs of processes, base and new in turn (ABBA), into folders
// below `folder`; what lies there already is not measured again. Pairs that fail rule R call for as
// many fresh ones. Throws Error when a build cannot be started or refuses.
void MeasurePairs(const Builds& builds, const std::string& suite, const std::string& device,
                  const std::filesystem::path& folder, const gate::GateSettings& settings);

// The pairs below `folder`, of each stage as many as the settings ask for.
gate::Timings ReadPairs(const std::filesystem::path& folder, const gate::GateSettings& settings);

// Runs each suite of each folder's plan with seeds up to `count` of them, those it has first, on
// `device`; "auto": what the folder's trainings run on.
// Throws before it runs any: Error(kBadInput) for a folder without a plan, ConfigError for one that
// ran with --limit, whose cells more seeds would not join.
void AddSeeds(const Builds& builds, const std::filesystem::path& base,
              const std::filesystem::path& candidate, std::int64_t count,
              const std::string& device);

}  // namespace mixerbench::harness
