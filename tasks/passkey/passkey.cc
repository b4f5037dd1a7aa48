// SPDX-License-Identifier: Apache-2.0
#include "tasks/passkey/passkey.h"

#include <vector>

#include "tasks/passkey/passkey_task.h"
#include "tasks/rules.h"
#include "tasks/text/text_presets.h"

namespace mixerbench::tasks::passkey {
namespace {

PasskeyParams ParseParams(const Value& value, const std::string& where) {
  const PasskeyParams params = PasskeyFields().Parse(value, where);
  Validate(params, where);
  return params;
}

Value Point(const Object& options) {
  return PasskeyFields().Write(PasskeyFields().Parse(options, ""));
}

// Filler of a number of characters, with a length that it fits into whatever the cut.
Value CharacterPoint(std::int64_t garbage_chars) {
  // sqtok gives the filler 3.4 characters a token; the prompt and the response need 110.
  const std::int64_t needed = garbage_chars * 10 / 33 + 200;
  return Point({{"cut", "character"},
                {"key_digits", 0},
                {"garbage_chars", garbage_chars},
                {"input_seq_len", (needed + 127) / 128 * 128}});
}

std::vector<Preset> Presets() {
  constexpr std::int64_t k = 1024;
  std::vector<Value> sila, longlora, landmark, blocks;
  for (const std::int64_t length : {1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128}) {
    sila.push_back(Point({{"input_seq_len", length * k}, {"depth_mode", "grid"}}));
  }
  for (std::int64_t j = 1; j <= 32; ++j) {
    longlora.push_back(CharacterPoint(3750 * j / 1024 * 1024));
  }
  for (const std::int64_t n :
       {0, 100, 500, 1000, 5000, 8000, 10000, 12000, 14000, 18000, 20000, 25000, 38000}) {
    landmark.push_back(CharacterPoint(n));
  }
  constexpr std::int64_t kBlockTests = 10;
  for (const std::int64_t length : {1, 2, 4, 8, 16, 32, 64}) {
    blocks.push_back(Point({{"style", "blocks"},
                            {"input_seq_len", length * k},
                            {"depth_mode", "grid"},
                            {"depth_grid", kBlockTests}}));
  }
  return {TextPreset("passkey/sila", sila, 11 * 10,
                     "SILA Fig 8; 10 samples at each of 11 depths, grid assumed"),
          TextPreset("passkey/longlora", longlora, 10, "LongLoRA"),
          TextPreset("passkey/landmark", landmark, 50, "landmark attention"),
          TextPreset("passkey/blocks", blocks, kBlockTests, "Stuffed Mamba; lengths assumed")};
}

}  // namespace

const Fields<PasskeyParams>& PasskeyFields() {
  static const auto fields = [] {
    Fields<PasskeyParams> f;
    AddTextFields(f);
    f.Add("style", &PasskeyParams::style,
          "classic: filler before and after the key; blocks: the key instead of one of many equal "
          "lines")
        .Add("key_digits", &PasskeyParams::key_digits,
             "digits of the key; 0: a number from 1 to 50000")
        .Add("cut", &PasskeyParams::cut,
             "classic filler: whole sentences up to input_seq_len, or garbage_chars characters")
        .Add("garbage_chars", &PasskeyParams::garbage_chars, "filler of cut character")
        .Add("depth_mode", &PasskeyParams::depth_mode,
             "random; grid: sample i at point i mod depth_grid; fixed: at depth")
        .Add("depth_grid", &PasskeyParams::depth_grid, "points of depth_mode grid")
        .Add("depth", &PasskeyParams::depth, "percent, of depth_mode fixed");
    return f;
  }();
  return fields;
}

void Validate(const PasskeyParams& p, const std::string& where) {
  const Rules rules("passkey", where);
  CheckTextOptions(p, rules);
  rules.Must(p.key_digits >= 0 && p.key_digits <= 9, "key_digits must be in [0, 9]",
             {{"key_digits", p.key_digits}});
  rules.Must(p.key_digits > 0 || p.style == Style::kClassic,
             "key_digits must be in [1, 9] with style blocks", {{"key_digits", p.key_digits}});
  rules.Must(p.cut == Cut::kSentence || p.style == Style::kClassic,
             "cut character needs style classic", {});
  rules.Must(p.garbage_chars >= 0 && p.garbage_chars <= 1 << 26,
             "garbage_chars must be in [0, 67108864]", {{"garbage_chars", p.garbage_chars}});
  rules.Must(p.depth_grid >= 2 && p.depth_grid <= 1000, "depth_grid must be in [2, 1000]",
             {{"depth_grid", p.depth_grid}});
  rules.Must(p.depth >= 0 && p.depth <= 100, "depth must be in [0, 100]", {{"depth", p.depth}});
  const PasskeyParams standard;
  rules.ActsOnly(p.cut == Cut::kCharacter, "cut character", {"garbage_chars", p.garbage_chars},
                 {"garbage_chars", standard.garbage_chars});
  rules.ActsOnly(p.depth_mode == DepthMode::kGrid, "depth_mode grid", {"depth_grid", p.depth_grid},
                 {"depth_grid", standard.depth_grid});
  rules.ActsOnly(p.depth_mode == DepthMode::kFixed, "depth_mode fixed", {"depth", p.depth},
                 {"depth", standard.depth});
}

std::unique_ptr<Task> MakePasskey(const PasskeyParams& params, TextLibrary& library,
                                  const std::string& where) {
  auto task =
      std::make_unique<PasskeyTask>(params, library.tokenizer(params, where + "/tokenizer_file"));
  CheckFits("passkey", where, params.input_seq_len, task->MinInputSeqLen());
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "a key hidden in repeated filler, in all published forms of the prompt";
  entry.source =
      "Mohtashami and Jaggi 2023 (arXiv 2305.16300); LongLoRA (arXiv 2309.12307); Stuffed Mamba "
      "(arXiv 2410.07145); SILA Fig 8";
  entry.params = PasskeyFields().Describe();
  entry.version = 2;
  entry.presentation_params = {"tokenizer",  "tokenizer_file", "bos",  "gen",
                               "depth_mode", "depth_grid",     "depth"};
  entry.presets = Presets();
  entry.deviations = {
      "Q36: keys and positions are drawn for every sample and length (reference: the same ten at "
      "every length, upper bounds excluded)",
      "the number of sentences or lines is exact (references: estimated from characters or one "
      "line's tokens)"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakePasskey(ParseParams(value, where), *library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return PasskeyFields().Write(ParseParams(value, where));
  };
  registry.Add("passkey", std::move(entry));
}

}  // namespace mixerbench::tasks::passkey
