// One more mixer beside those that a suite compares, under their conditions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/value.h"

namespace mixerbench::harness {

// `text` is a mixer as JSON, {"name": ..., options}, or the name alone. It becomes one more value
// of the axis model.sequence_mixer in the sweep of `document`, a suite:
// - Without such an axis there is one now, of the suite's own mixer and the new one.
// - When all mixers of the axis are hybrids that differ in one layer of their pattern, the new one
//   takes that layer of the same pattern, unless it is a hybrid itself.
// - Lists that are zipped with the axis repeat their most frequent value (of several, the last).
// Throws ConfigError when the suite does not say how the new mixer should be treated.
void AddMixer(Object& document, const std::string& text);

}  // namespace mixerbench::harness
