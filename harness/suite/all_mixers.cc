// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/all_mixers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "harness/suite/held_mixers.h"

namespace mixerbench::harness {
namespace {

bool StandsAlone(const models::MixerEntry& mixer, const models::MixerRegistry& mixers) {
  try {
    const Value options = mixer.resolve(Object{}, "", mixers);
    return std::none_of(
        options.as_object().begin(), options.as_object().end(),
        [](const auto& option) { return IsMixer(option.second) || IsListOfMixers(option.second); });
  } catch (const ConfigError&) {
    return false;
  }
}

// The member of an object, nullptr when there is none.
Value* Member(Value* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->as_object().find(key);
  return found == object->as_object().end() ? nullptr : &found->second;
}

}  // namespace

void ListAllMixers(Object& document, const models::MixerRegistry& mixers) {
  const auto sweep = document.find("sweep");
  if (sweep == document.end()) return;
  Value* axis = Member(Member(&sweep->second, "grid"), "model.sequence_mixer");
  if (axis == nullptr) return;
  const Value all("all");
  if (*axis == all) *axis = Array{all};
  if (!axis->is_array()) return;
  Array listed;
  for (const Value& item : axis->as_array()) {
    if (item != all) {
      listed.push_back(item);
      continue;
    }
    for (const auto& [name, mixer] : mixers.entries()) {
      if (StandsAlone(mixer, mixers)) listed.emplace_back(Object{{"name", name}});
    }
  }
  *axis = std::move(listed);
}

}  // namespace mixerbench::harness
