// Results that never ran: two sides of a comparison drawn from known distributions, so that what
// the gate says of them can be held against the truth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gate/verdict/pairing.h"
#include "gate/verdict/timings.h"
#include "reports/result/result.h"

namespace mixerbench::gate {

// How the seeds of one mixer fare on one task.
struct Setting {
  std::string task = "mqar";
  std::string mixer = "gla";
  double solve_probability = 1;
  double steps = 800;       // median of the solved seeds
  double steps_sd = 0.15;   // of their logarithm
  double accuracy = 0.995;  // mean of seeds
  double accuracy_sd = 0.001;
};

inline constexpr std::int64_t kBudget = 6000;  // steps
inline constexpr double kChance = 1.0 / 64;

// A number that standard distributions of all libraries would draw differently.
double NormalDraw(std::mt19937_64& random);
double UniformDraw(std::mt19937_64& random);

// One training. Two cells of one setting and seed pair; `code` tells the sides apart.
reports::CellResult MadeCell(const Setting& setting, std::uint64_t seed, const std::string& code,
                             std::mt19937_64& random);

// `seeds` trainings of each setting.
std::vector<reports::CellResult> MadeCells(const std::vector<Setting>& settings,
                                           std::uint64_t seeds, const std::string& code,
                                           std::mt19937_64& random);

// A speed curve of two shapes with these milliseconds for the first, twice them for the second.
reports::CellResult MadeTimes(const std::string& mixer, double ms, const std::string& code);

// Pairs of processes whose times differ by `growth` and by noise of this standard deviation.
std::vector<ProcessPair> MadePairs(std::int64_t pairs, double growth, double noise,
                                   std::mt19937_64& random);

}  // namespace mixerbench::gate
