// Passkey retrieval: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::passkey {

enum class Style {
  kClassic,  // Mohtashami and Jaggi: filler before and after the key
  kBlocks,   // Stuffed Mamba: the key instead of one of many equal lines
};

// Where filler of the classic style ends.
enum class Cut { kSentence, kCharacter };

enum class DepthMode { kRandom, kGrid, kFixed };

// Unlike in other text tasks the length enters the sampling key: input_seq_len, or garbage_chars
// where that is the length.
struct PasskeyParams : TextOptions {
  Style style = Style::kClassic;
  std::int64_t key_digits = 5;  // 0: 1..50000, not padded
  Cut cut = Cut::kSentence;
  std::int64_t garbage_chars = 2000;  // of Cut::kCharacter: filler before and after the key

  // The rest does not enter the sampling key.
  DepthMode depth_mode = DepthMode::kRandom;
  std::int64_t depth_grid = 11;  // of kGrid: sample i is at depth i mod this
  std::int64_t depth = 50;       // of kFixed, percent
};

const Fields<PasskeyParams>& PasskeyFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const PasskeyParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakePasskey(const PasskeyParams& params, TextLibrary& library,
                                  const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::passkey

template <>
struct mixerbench::EnumNames<mixerbench::tasks::passkey::Style> {
  using Style = tasks::passkey::Style;
  static constexpr std::pair<Style, std::string_view> kNames[] = {{Style::kClassic, "classic"},
                                                                  {Style::kBlocks, "blocks"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::passkey::Cut> {
  using Cut = tasks::passkey::Cut;
  static constexpr std::pair<Cut, std::string_view> kNames[] = {{Cut::kSentence, "sentence"},
                                                                {Cut::kCharacter, "character"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::tasks::passkey::DepthMode> {
  using Mode = tasks::passkey::DepthMode;
  static constexpr std::pair<Mode, std::string_view> kNames[] = {
      {Mode::kRandom, "random"}, {Mode::kGrid, "grid"}, {Mode::kFixed, "fixed"}};
};
