// A suite's JSON after what the command line sets in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"
#include "harness/suite/overrides.h"
#include "models/mixer.h"

namespace mixerbench::harness {

// Its keys are checked, its reduced form and the word "all" for mixers are gone. Throws
// ConfigError.
Value ReadDocument(Value parsed, const SuiteOverrides& overrides,
                   const models::MixerRegistry& mixers);

}  // namespace mixerbench::harness
