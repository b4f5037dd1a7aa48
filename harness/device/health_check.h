// One line of `doctor`: what was looked at, and whether it will do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::harness {

enum class Verdict {
  kOk,
  kWarn,  // runs, but something is worse than it looks: slow, disturbed, not safe
  kFail,  // does not run
};

struct HealthCheck {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string text;  // what was found, and what to do
};

}  // namespace mixerbench::harness

template <>
struct mixerbench::EnumNames<mixerbench::harness::Verdict> {
  using V = mixerbench::harness::Verdict;
  static constexpr std::array<std::pair<V, std::string_view>, 3> kNames = {
      {{V::kOk, "ok"}, {V::kWarn, "warn"}, {V::kFail, "fail"}}};
};
