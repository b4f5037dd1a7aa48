// Options of tasks whose contexts may be running text, and their rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/rules.h"
#include "tasks/text/sentence_order.h"
#include "tasks/text/text_library.h"

namespace mixerbench::tasks {

enum class HaystackType { kNoise, kKjv, kKjvTrain, kKjvTest, kNeedle, kFile };

inline bool IsRunningText(HaystackType type) {
  return type != HaystackType::kNoise && type != HaystackType::kNeedle;
}

// What goes with a type. The order of sentences does not enter the sampling key.
struct HaystackOptions {
  std::string haystack_file;  // of kFile
  HaystackMode haystack_mode = HaystackMode::kShuffleSentence;
  std::int64_t haystack_seed = 0;  // of the modes that are the same for all samples
};

// Adds the fields above to those of a struct derived from HaystackOptions.
template <typename Params>
void AddHaystackFields(Fields<Params>& fields) {
  fields.template Add<std::string>(
      "haystack_file", &Params::haystack_file,
      "text for type_haystack file: a sentence a line, an empty line between paragraphs");
  fields.template Add<HaystackMode>("haystack_mode", &Params::haystack_mode,
                                    "order of the haystack's sentences");
  fields.template Add<std::int64_t>("haystack_seed", &Params::haystack_seed,
                                    "of haystack_mode fixed_perm and fixed_offset");
}

inline void CheckHaystackOptions(HaystackType type, const HaystackOptions& options,
                                 const Rules& rules) {
  const HaystackOptions standard;
  rules.Must((type == HaystackType::kFile) != options.haystack_file.empty(),
             "haystack_file must be given with type_haystack file, and only then", {});
  const NamedValue haystack_seed("haystack_seed", options.haystack_seed);
  rules.Must(options.haystack_seed >= 0, "haystack_seed must be >= 0", {haystack_seed});
  rules.ActsOnly(IsRunningText(type), "running text",
                 {"haystack_mode", NameOf(options.haystack_mode)},
                 {"haystack_mode", NameOf(standard.haystack_mode)});
  const bool is_seeded = options.haystack_mode == HaystackMode::kFixedPerm ||
                         options.haystack_mode == HaystackMode::kFixedOffset;
  rules.ActsOnly(is_seeded, "haystack_mode fixed_perm and fixed_offset", haystack_seed,
                 {"haystack_seed", standard.haystack_seed});
}

// The text of a type; null for those that are none (noise, needle). Throws Error(kBadInput) at
// `where`.
inline std::shared_ptr<const Haystack> FindHaystack(HaystackType type, const std::string& file,
                                                    TextLibrary& library,
                                                    const std::string& where) {
  switch (type) {
    case HaystackType::kKjv:
      return library.shipped_haystack(HaystackPart::kAll);
    case HaystackType::kKjvTrain:
      return library.shipped_haystack(HaystackPart::kTrain);
    case HaystackType::kKjvTest:
      return library.shipped_haystack(HaystackPart::kTest);
    case HaystackType::kFile:
      return library.haystack_file(file, where);
    case HaystackType::kNoise:
    case HaystackType::kNeedle:
      break;
  }
  return nullptr;
}

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::HaystackType> {
  using Type = tasks::HaystackType;
  static constexpr std::pair<Type, std::string_view> kNames[] = {
      {Type::kKjv, "kjv"},          {Type::kNoise, "noise"},
      {Type::kNeedle, "needle"},    {Type::kKjvTrain, "kjv_train"},
      {Type::kKjvTest, "kjv_test"}, {Type::kFile, "file"}};
};
