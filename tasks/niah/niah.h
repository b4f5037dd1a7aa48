// NIAH, a needle in a haystack: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/niah/needles.h"
#include "tasks/task.h"
#include "tasks/text/haystack_options.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::niah {

// What stands before the context.
enum class Instruction { kOriginal, kStrong, kNone };

// Which instruction the context leaves room for.
enum class FitOn { kStrong, kSelf };

enum class DepthMode { kRandom40, kGrid, kFixed };

struct NiahParams : TextOptions, HaystackOptions {
  HaystackType type_haystack = HaystackType::kKjv;
  NeedleType type_needle_k = NeedleType::kWords;
  NeedleType type_needle_v = NeedleType::kNumbers;
  std::int64_t num_needle_k = 1;
  std::int64_t num_needle_v = 1;  // values of each key
  std::int64_t num_needle_q = 1;  // keys asked for

  // The rest does not enter the sampling key.
  Instruction inst = Instruction::kOriginal;
  FitOn fit_on = FitOn::kStrong;
  DepthMode depth_mode = DepthMode::kRandom40;
  std::int64_t depth_grid = 11;  // of kGrid: sample i is at depth i mod this, over 0..100 %
  std::int64_t depth = 50;       // of kFixed, percent
  std::int64_t phrase_words = 2;
  PhraseSeparator phrase_sep = PhraseSeparator::kHyphen;
  double digit_noise = 0;
};

const Fields<NiahParams>& NiahFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const NiahParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakeNiah(const NiahParams& params, std::shared_ptr<TextLibrary> library,
                               const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::niah

template <>
struct mixerbench::EnumNames<mixerbench::tasks::niah::Instruction> {
  using Inst = tasks::niah::Instruction;
  static constexpr std::pair<Inst, std::string_view> kNames[] = {
      {Inst::kOriginal, "original"}, {Inst::kStrong, "strong"}, {Inst::kNone, "none"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::niah::FitOn> {
  using Fit = tasks::niah::FitOn;
  static constexpr std::pair<Fit, std::string_view> kNames[] = {{Fit::kStrong, "strong"},
                                                                {Fit::kSelf, "self"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::niah::DepthMode> {
  using Mode = tasks::niah::DepthMode;
  static constexpr std::pair<Mode, std::string_view> kNames[] = {
      {Mode::kRandom40, "random40"}, {Mode::kGrid, "grid"}, {Mode::kFixed, "fixed"}};
};
