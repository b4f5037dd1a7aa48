// VT, variable tracking: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/haystack_options.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::vt {

// HaystackType but for needles, which are NIAH's.
enum class VtHaystack {
  kNoise = static_cast<int>(HaystackType::kNoise),
  kKjv = static_cast<int>(HaystackType::kKjv),
  kKjvTrain = static_cast<int>(HaystackType::kKjvTrain),
  kKjvTest = static_cast<int>(HaystackType::kKjvTest),
  kFile = static_cast<int>(HaystackType::kFile),
};

struct VtParams : TextOptions, HaystackOptions {
  VtHaystack type_haystack = VtHaystack::kNoise;
  std::int64_t num_chains = 1;
  std::int64_t num_hops = 4;  // assignments after the first of a chain

  bool example = false;  // a short solved question first; not in the sampling key

  HaystackType haystack() const { return static_cast<HaystackType>(type_haystack); }
};

const Fields<VtParams>& VtFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const VtParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakeVt(const VtParams& params, std::shared_ptr<TextLibrary> library,
                             const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::vt

template <>
struct mixerbench::EnumNames<mixerbench::tasks::vt::VtHaystack> {
  using Type = tasks::vt::VtHaystack;
  static constexpr std::pair<Type, std::string_view> kNames[] = {{Type::kKjv, "kjv"},
                                                                 {Type::kNoise, "noise"},
                                                                 {Type::kKjvTrain, "kjv_train"},
                                                                 {Type::kKjvTest, "kjv_test"},
                                                                 {Type::kFile, "file"}};
};
