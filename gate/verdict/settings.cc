// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/settings.h"

#include <fmt/format.h>

#include "base/suggest.h"

namespace mixerbench::gate {
namespace {

struct Range {
  const char* name;
  double value;
  double low, high;  // neither belongs to it
};

struct Floor {
  const char* name;
  double value;
};

void CheckRanges(const GateSettings& s, const std::string& where) {
  constexpr double kLarge = 1e9;
  for (const Range& range : {Range{"alpha", s.alpha, 0, 0.5},
                             {"accuracy_margin", s.accuracy_margin, 0, 1},
                             {"steps_margin", s.steps_margin, 1, kLarge},
                             {"time_margin", s.time_margin, 0, kLarge},
                             {"time_alpha", s.time_alpha, 0, 0.5},
                             {"memory_margin", s.memory_margin, 0, kLarge},
                             {"replay_tolerance", s.replay_tolerance, 0, 1},
                             {"replay_tolerance_low", s.replay_tolerance_low, 0, 1},
                             {"suspicious_ratio", s.suspicious_ratio, 0, 1},
                             {"suspicious_p", s.suspicious_p, 0, 0.5}}) {
    if (range.value > range.low && range.value < range.high) continue;
    throw ConfigError(where + "/" + range.name, fmt::format("must be above {} and below {}, got {}",
                                                            range.low, range.high, range.value));
  }
  for (const Floor& floor : {Floor{"accuracy_margin_sds", s.accuracy_margin_sds},
                             {"base_solve_rate", s.base_solve_rate}}) {
    if (!(floor.value >= 0)) throw ConfigError(where + "/" + floor.name, "must be at least 0");
  }
  if (s.replay_steps < 1) throw ConfigError(where + "/replay_steps", "must be at least 1");
  if (s.pairs < 3 || s.pairs > 100) throw ConfigError(where + "/pairs", "must be in 3..100");
}

void CheckLooks(const GateSettings& s, const std::string& where) {
  if (s.looks.empty()) throw ConfigError(where + "/looks", "at least one look is needed");
  for (std::size_t i = 0; i < s.looks.size(); ++i) {
    if (s.looks[i] < kFewestSeeds) {
      throw ConfigError(where + "/looks",
                        fmt::format("{} paired seeds cannot be judged; {} are the fewest",
                                    s.looks[i], kFewestSeeds));
    }
    if (i > 0 && s.looks[i] <= s.looks[i - 1]) {
      throw ConfigError(where + "/looks", "must grow from look to look");
    }
  }
}

}  // namespace

const Fields<GateSettings>& SettingsFields() {
  using S = GateSettings;
  static const auto fields =
      Fields<S>()
          .Add("preset", &S::preset, "smoke, nightly or release: the defaults of the others")
          .Add("judge_learning", &S::judge_learning, "judge solve rate, steps and accuracy (G3)")
          .Add("judge_speed", &S::judge_speed, "judge times (G4)")
          .Add("alpha", &S::alpha, "one-sided level over all headlines and looks")
          .Add("looks", &S::looks, "paired seeds at which a headline is judged, ascending")
          .Add("accuracy_margin", &S::accuracy_margin, "tolerated loss of accuracy")
          .Add("accuracy_margin_sds", &S::accuracy_margin_sds,
               "the same in standard deviations of A/A differences, where they are known")
          .Add("steps_margin", &S::steps_margin, "tolerated ratio of steps to the threshold")
          .Add("base_solve_rate", &S::base_solve_rate, "a base that solves less is named")
          .Add("weak_base_fails", &S::weak_base_fails, "and its solve rate is inconclusive")
          .Add("time_margin", &S::time_margin, "tolerated growth of a time, as a share")
          .Add("time_alpha", &S::time_alpha, "one-sided level of the bound of a median ratio")
          .Add("pairs", &S::pairs, "pairs of processes that --measure times, in each stage")
          .Add("memory_margin", &S::memory_margin, "tolerated growth of memory and state")
          .Add("replay_tolerance", &S::replay_tolerance, "of the loss over the first steps, fp32")
          .Add("replay_tolerance_low", &S::replay_tolerance_low, "the same in tf32 and bf16")
          .Add("replay_steps", &S::replay_steps, "how many steps these are")
          .Add("suspicious_ratio", &S::suspicious_ratio, "fewer steps than that share are named")
          .Add("suspicious_p", &S::suspicious_p, "and how sure that must be")
          .Add("inconclusive_fails", &S::inconclusive_fails, "inconclusive rows give exit code 5")
          .Add("suspicious_fails", &S::suspicious_fails, "suspicious rows give exit code 1")
          .Add("acknowledged", &S::acknowledged, "cells whose suspicious result is explained");
  return fields;
}

std::vector<std::string> PresetNames() { return {"smoke", "nightly", "release"}; }

GateSettings PresetSettings(const std::string& name, const std::string& where) {
  GateSettings settings;
  settings.preset = name;
  if (name == "nightly") return settings;
  if (name == "smoke") {
    settings.judge_learning = false;
    settings.judge_speed = false;
    settings.pairs = 3;
    settings.inconclusive_fails = false;
    return settings;
  }
  if (name == "release") {
    settings.alpha = 0.01;
    settings.looks = {10, 20};
    settings.accuracy_margin = 0.01;
    settings.accuracy_margin_sds = 1;
    settings.steps_margin = 1.15;
    settings.weak_base_fails = true;
    settings.pairs = 15;
    settings.suspicious_fails = true;
    return settings;
  }
  throw ConfigError(where, UnknownName("preset", name, PresetNames()));
}

GateSettings ParseSettings(const Value& value, const std::string& where) {
  const Value* preset = value.Find("preset");
  if (preset && !preset->is_string()) throw ConfigError(where + "/preset", "expected a string");
  GateSettings settings =
      PresetSettings(preset ? preset->as_string() : "nightly", where + "/preset");
  SettingsFields().Read(value, where, settings);
  CheckRanges(settings, where);
  CheckLooks(settings, where);
  return settings;
}

}  // namespace mixerbench::gate
