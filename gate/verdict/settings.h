// What a gate tolerates: a preset, and what a file changes of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::gate {

// Fewer paired seeds than this are never judged: no exact test of 4 pairs reaches 0.05.
inline constexpr std::int64_t kFewestSeeds = 5;

struct GateSettings {
  std::string preset = "nightly";
  bool judge_learning = true;                 // G3; without it learning is shown
  bool judge_speed = true;                    // G4; without it times are shown
  double alpha = 0.05;                        // one-sided, over all headlines and looks
  std::vector<std::int64_t> looks = {5, 10};  // paired seeds at which a headline is judged
  double accuracy_margin = 0.02;
  double accuracy_margin_sds = 2;  // of A/A differences, where the runner was calibrated
  double steps_margin = 1.25;
  double base_solve_rate = 0.95;  // a base that solves less is named
  bool weak_base_fails = false;   // and its solve rate is inconclusive, however new fares
  double time_margin = 0.03;
  double time_alpha = 0.01;  // of the bound of a median, one-sided
  std::int64_t pairs = 10;   // of processes, in each of two stages
  double memory_margin = 0.02;
  // Relative, of the loss over the first steps; rounding grows with every step, faults do not wait.
  double replay_tolerance = 1e-6;
  double replay_tolerance_low = 1e-3;  // of trainings in tf32 and bf16
  std::int64_t replay_steps = 10;
  double suspicious_ratio = 0.6;  // steps, new / base: better than that needs an explanation
  double suspicious_p = 0.01;
  bool inconclusive_fails = true;
  bool suspicious_fails = false;
  std::vector<std::string> acknowledged;  // cells whose suspicious result is known to be right
};

const Fields<GateSettings>& SettingsFields();

// "smoke": what cannot flake is judged, the rest is shown. "nightly". "release". Throws
// ConfigError.
GateSettings PresetSettings(const std::string& name, const std::string& where);
std::vector<std::string> PresetNames();

// A preset ("preset", default nightly) with some of its settings changed. Throws ConfigError.
GateSettings ParseSettings(const Value& value, const std::string& where);

}  // namespace mixerbench::gate
