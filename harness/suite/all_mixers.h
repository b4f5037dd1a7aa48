// "all" in place of a list of mixers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"
#include "models/mixer.h"

namespace mixerbench::harness {

// When /sweep/grid/model.sequence_mixer of `document`, a suite, is "all" or a list with this item,
// it becomes, in its place, the list of all mixers that need no option and hold no other mixer,
// with their defaults.
void ListAllMixers(Object& document, const models::MixerRegistry& mixers);

}  // namespace mixerbench::harness
