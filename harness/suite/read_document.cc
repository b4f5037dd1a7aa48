// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/read_document.h"

#include <algorithm>
#include <string>

#include "base/dotted_path.h"
#include "base/error.h"
#include "harness/suite/add_mixer.h"
#include "harness/suite/all_mixers.h"
#include "harness/suite/setting.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_keys.h"
#include "harness/suite/sweep.h"
#include "io/read_value.h"
#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

// Takes "/smoke" out of a suite: values by their dotted paths. When it is asked for, they replace
// those of the suite, which then has a name of its own.
void TakeSmoke(Object& document, bool is_asked) {
  const auto found = document.find("smoke");
  if (found == document.end()) {
    if (is_asked) throw ConfigError("/smoke", "missing: this suite has no reduced form");
    return;
  }
  const Value smoke = found->second;
  document.erase(found);
  io::RequireObject(smoke, "/smoke");
  if (!is_asked) return;
  for (const auto& [path, value] : smoke.as_object()) {
    io::SetPath(document, path, value, "/smoke");
  }
  if (const auto name = document.find("name"); name != document.end() && name->second.is_string()) {
    name->second = name->second.as_string() + "-smoke";
  }
}

// What the command line sets in a suite.
void ApplyOverrides(Object& document, const SuiteOverrides& overrides,
                    const models::MixerRegistry& mixers) {
  TakeSmoke(document, overrides.smoke);
  ListAllMixers(document, mixers);  // of which an exclusion may name one
  const bool sets_sweep =
      std::any_of(overrides.set.begin(), overrides.set.end(),
                  [](const auto& setting) { return setting.first.starts_with("sweep"); });
  if (!sets_sweep) CheckExclude(document);
  for (const auto& [path, value] : overrides.set) {
    if (LiesIn(path, "smoke")) {
      throw ConfigError("--set " + path, "the reduced form is the suite's own; set what it sets");
    }
    ApplySetting(document, path, value);
  }
  ListAllMixers(document, mixers);
  if (sets_sweep) CheckExclude(document);
}

}  // namespace

Value ReadDocument(Value parsed, const SuiteOverrides& overrides,
                   const models::MixerRegistry& mixers) {
  if (!parsed.is_object()) {
    throw ConfigError("", "a suite is a JSON object; see docs/CONFIG.md");
  }
  Object& document = parsed.as_object();
  ApplyOverrides(document, overrides, mixers);
  for (const std::string& mixer : overrides.add_mixers) AddMixer(document, mixer);
  io::RequireKnownKeys(document, "", SuiteKeys());
  RequireSchemaVersion(parsed);
  return parsed;
}

}  // namespace mixerbench::harness
