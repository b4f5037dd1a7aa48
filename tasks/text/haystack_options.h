// Options of tasks whose contexts may be running text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/text/text_library.h"

namespace mixerbench::tasks {

enum class HaystackType { kNoise, kKjv, kKjvTrain, kKjvTest, kNeedle, kFile };

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
