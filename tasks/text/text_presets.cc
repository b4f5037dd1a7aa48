// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/text_presets.h"

#include <utility>

#include "base/check.h"

namespace mixerbench::tasks {
namespace {

// The seed of niah_test.cc's golden samples.
constexpr std::uint64_t kSeed = 42;

}  // namespace

std::vector<std::int64_t> RulerLengths() { return {4096, 8192, 16384, 32768, 65536, 131072}; }

Preset TextPreset(std::string name, const std::vector<Value>& points, std::int64_t num_test,
                  std::string reproduces) {
  Require(!points.empty(), "a preset has a setting");
  Preset preset{.name = std::move(name),
                .params = points.front(),
                .num_test = num_test * std::ssize(points),
                .seed = kSeed,
                .reproduces = std::move(reproduces)};
  if (points.size() == 1) return preset;
  preset.train = {{points.front(), 0}};
  for (const Value& point : points) preset.test.push_back({point, num_test});
  return preset;
}

}  // namespace mixerbench::tasks
